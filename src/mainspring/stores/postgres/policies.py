"""The settings that every process follows."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.core.tenants import Tenant
from mainspring.ports.store.policies import Policies
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction


class PostgresPolicyStore:
    """`PolicyStore` on PostgreSQL."""

    _connections: Connections

    async def read_policies(self, *, known: int | None = None) -> Policies | None:
        rows = await self._connections.fetch(Role.WATCH, "read_policies", is_repeatable=True, known=known)
        if not rows:
            return None
        found = [
            Tenant(name=row["tenant"], weight=row["weight"]) for row in rows if row["tenant"] is not None
        ]
        return Policies(revision=rows[0]["number"], tenants={tenant.name: tenant for tenant in found})

    async def write_tenants(self, tenants: Sequence[Tenant]) -> list[bool]:
        if not tenants:
            return []
        last = {tenant.name: tenant for tenant in tenants}

        async def work(transaction: Transaction) -> list[bool]:
            await transaction.execute("raise_revision")
            rows = await transaction.fetch("find_tenants", names=list(last))
            known = {row["id"] for row in rows}
            weights = [tenant.weight for tenant in last.values()]
            await transaction.execute("write_tenants", names=list(last), weights=weights)
            return [tenant.name not in known for tenant in tenants]

        return await self._connections.transact(Role.EDIT, work)
