"""Priority classes."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from mainspring.core.audit import AuditEntry
from mainspring.core.model import Priority
from mainspring.core.priorities import PriorityClass
from mainspring.stores.sqlite.audit import write_audit
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.rows import to_json
from mainspring.stores.sqlite.statements import execute, execute_many, fetch_rows, fetch_values


class SqlitePriorityStore:
    """`PriorityStore` on SQLite."""

    _reader: Database
    _writer: Database

    async def list_priority_classes(self) -> list[PriorityClass]:
        """See `PriorityStore`."""
        rows = await self._reader.call(lambda db: fetch_rows(db, "list_priority_classes", {}))
        return [
            PriorityClass(
                name=row.name,
                tier=Priority(row.tier),
                preempts=bool(row.preempts),
                preemptible=bool(row.preemptible),
            )
            for row in rows
        ]

    async def write_priority_classes(
        self, classes: Sequence[PriorityClass], *, audit: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        """See `PriorityStore`."""
        if not classes:
            return []
        values = [
            {
                "name": one.name,
                "tier": int(one.tier),
                "preempts": int(one.preempts),
                "preemptible": int(one.preemptible),
            }
            for one in classes
        ]

        def work(db: apsw.Connection) -> list[bool]:
            known = _find(db, [one.name for one in classes])
            execute_many(db, "write_priority_class", values)
            write_audit(db, audit, [True] * len(classes))
            return [one.name not in known for one in classes]

        return await self._writer.call(work)

    async def delete_priority_classes(
        self, names: Sequence[str], *, audit: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        """See `PriorityStore`."""
        if not names:
            return []

        def work(db: apsw.Connection) -> list[bool]:
            known = _find(db, names)
            execute(db, "delete_priority_classes", {"names": to_json(list(names))})
            found = [name in known for name in names]
            write_audit(db, audit, found)
            return found

        return await self._writer.call(work)


def _find(db: apsw.Connection, names: Sequence[str]) -> set[str]:
    return set(fetch_values(db, "find_priority_classes", {"names": to_json(list(names))}))
