"""Priority classes."""

from __future__ import annotations

from collections.abc import Sequence

from asyncpg import Record

from mainspring.core.audit import AuditEntry
from mainspring.core.model import Priority
from mainspring.core.priorities import PriorityClass
from mainspring.stores.postgres.audit import write_audit
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction


class PostgresPriorityStore:
    """`PriorityStore` on PostgreSQL."""

    _connections: Connections

    async def list_priority_classes(self) -> list[PriorityClass]:
        rows = await self._connections.fetch(Role.READ, "list_priority_classes", is_repeatable=True)
        return [class_of(row) for row in rows]

    async def write_priority_classes(
        self, classes: Sequence[PriorityClass], *, audit: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        if not classes:
            return []
        last = [one for _, one in sorted({one.name: one for one in classes}.items())]

        async def work(transaction: Transaction) -> list[bool]:
            rows = await transaction.fetch(
                "write_priority_classes",
                names=[one.name for one in last],
                tiers=[int(one.tier) for one in last],
                preempts=[one.preempts for one in last],
                preemptible=[one.preemptible for one in last],
            )
            await write_audit(transaction, audit, [True] * len(classes))
            new = {row["name"] for row in rows if row["is_new"]}
            return [one.name in new for one in classes]

        return await self._connections.transact(Role.EDIT, work)

    async def delete_priority_classes(
        self, names: Sequence[str], *, audit: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        if not names:
            return []

        async def work(transaction: Transaction) -> list[bool]:
            rows = await transaction.fetch("delete_priority_classes", names=sorted(set(names)))
            gone = {row["name"] for row in rows}
            found = [name in gone for name in names]
            await write_audit(transaction, audit, found)
            return found

        return await self._connections.transact(Role.EDIT, work)


def class_of(row: Record) -> PriorityClass:
    """Make a class from a row of `list_priority_classes`."""
    return PriorityClass(
        name=row["name"],
        tier=Priority(row["tier"]),
        preempts=row["preempts"],
        preemptible=row["preemptible"],
    )
