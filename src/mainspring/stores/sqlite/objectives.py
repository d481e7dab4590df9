"""Objectives, on SQLite."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from mainspring.core.audit import AuditEntry
from mainspring.core.objectives import Objective
from mainspring.stores._sql.objectives import decode_objective, encode_objective
from mainspring.stores.sqlite.audit import write_audit
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.statements import execute, fetch_rows, fetch_value


class SqliteObjectiveStore:
    """Implements `ObjectiveStore`."""

    _reader: Database
    _writer: Database

    async def put_objective(self, objective: Objective, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """See `ObjectiveStore`."""
        key = {"tenant": objective.tenant, "name": objective.name}
        values = {**key, "settings": encode_objective(objective)}

        def work(db: apsw.Connection) -> bool:
            is_new = fetch_value(db, "find_slo", key) is None
            execute(db, "put_slo", values)
            write_audit(db, audit, [True])
            return is_new

        return await self._writer.call(work)

    async def delete_objective(self, tenant: str, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """See `ObjectiveStore`."""

        def work(db: apsw.Connection) -> bool:
            is_gone = fetch_value(db, "delete_slo", {"tenant": tenant, "name": name}) is not None
            write_audit(db, audit, [is_gone])
            return is_gone

        return await self._writer.call(work)

    async def list_objectives(self, tenant: str | None = None) -> list[Objective]:
        """See `ObjectiveStore`."""
        rows = await self._reader.call(lambda db: fetch_rows(db, "list_slos", {"tenant": tenant}))
        return [decode_objective(row.tenant, row.name, row.settings) for row in rows]
