"""Objectives."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.core.audit import AuditEntry
from mainspring.core.objectives import Objective
from mainspring.stores._sql.objectives import decode_objective, encode_objective
from mainspring.stores.postgres.audit import write_audit
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction


class PostgresObjectiveStore:
    """`ObjectiveStore` on PostgreSQL."""

    _connections: Connections

    async def put_objective(self, objective: Objective, *, audit: Sequence[AuditEntry] = ()) -> bool:
        async def work(transaction: Transaction) -> bool:
            [row] = await transaction.fetch(
                "put_slo",
                tenant=objective.tenant,
                name=objective.name,
                settings=encode_objective(objective),
            )
            await write_audit(transaction, audit, [True])
            return bool(row["is_new"])

        return await self._connections.transact(Role.EDIT, work)

    async def delete_objective(self, tenant: str, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        async def work(transaction: Transaction) -> bool:
            gone = await transaction.fetch("delete_slo", tenant=tenant, name=name)
            await write_audit(transaction, audit, [bool(gone)])
            return bool(gone)

        return await self._connections.transact(Role.EDIT, work)

    async def list_objectives(self, tenant: str | None = None) -> list[Objective]:
        rows = await self._connections.fetch(Role.READ, "list_slos", is_repeatable=True, tenant=tenant)
        return [decode_objective(row["tenant"], row["name"], row["settings"]) for row in rows]
