"""The settings that every process follows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from mainspring.core.queues import Queue, QueueOrder
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
        tenants = [
            Tenant(name=row["tenant"], weight=row["weight"]) for row in rows if row["tenant"] is not None
        ]
        queues = [
            Queue(
                name=row["queue"],
                order=QueueOrder(row["ordering"]),
                aging=timedelta(milliseconds=row["aging_ms"]),
                aging_share=row["aging_share"],
            )
            for row in rows
            if row["queue"] is not None
        ]
        return Policies(
            revision=rows[0]["number"],
            tenants={tenant.name: tenant for tenant in tenants},
            queues={queue.name: queue for queue in queues},
        )

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

    async def write_queues(self, queues: Sequence[Queue]) -> list[bool]:
        if not queues:
            return []
        last = {queue.name: queue for queue in queues}

        async def work(transaction: Transaction) -> list[bool]:
            await transaction.execute("raise_revision")
            rows = await transaction.fetch("find_queues", names=list(last))
            known = {row["name"] for row in rows}
            await transaction.execute(
                "write_queues",
                names=list(last),
                orders=[queue.order for queue in last.values()],
                agings=[queue.aging // timedelta(milliseconds=1) for queue in last.values()],
                shares=[queue.aging_share for queue in last.values()],
            )
            return [queue.name not in known for queue in queues]

        return await self._connections.transact(Role.EDIT, work)
