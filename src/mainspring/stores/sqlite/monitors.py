"""Monitors, on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import apsw

from mainspring.core.audit import AuditEntry
from mainspring.core.monitors import Monitor
from mainspring.ports.store.monitors import StoredMonitor
from mainspring.stores._sql.monitors import encode_monitor, make_monitor
from mainspring.stores.sqlite.audit import write_audit
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.rows import NamedRow, to_micros, to_optional_micros
from mainspring.stores.sqlite.statements import fetch_row, fetch_rows, fetch_value


class SqliteMonitorStore:
    """Implements `MonitorStore`."""

    _reader: Database
    _writer: Database

    async def add_monitor(
        self, monitor: Monitor, *, key_hash: bytes, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        """See `MonitorStore`."""
        values = {
            "tenant": monitor.tenant,
            "name": monitor.name,
            "key_hash": key_hash,
            "monitor": encode_monitor(monitor),
            "due_at": to_optional_micros(monitor.due_at),
        }

        def work(db: apsw.Connection) -> bool:
            is_new = fetch_value(db, "add_monitor", values) is not None
            write_audit(db, audit, [is_new])
            return is_new

        return await self._writer.call(work)

    async def save_monitor(self, stored: StoredMonitor, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """See `MonitorStore`."""
        values = {
            "monitor_id": stored.id,
            "revision": stored.revision,
            "monitor": encode_monitor(stored.monitor),
            "due_at": to_optional_micros(stored.monitor.due_at),
        }

        def work(db: apsw.Connection) -> bool:
            is_saved = fetch_value(db, "save_monitor", values) is not None
            write_audit(db, audit, [is_saved])
            return is_saved

        return await self._writer.call(work)

    async def delete_monitor(self, tenant: str, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """See `MonitorStore`."""

        def work(db: apsw.Connection) -> bool:
            is_gone = fetch_value(db, "delete_monitor", {"tenant": tenant, "name": name}) is not None
            write_audit(db, audit, [is_gone])
            return is_gone

        return await self._writer.call(work)

    async def get_monitor(self, tenant: str, name: str) -> StoredMonitor | None:
        """See `MonitorStore`."""
        values = {"tenant": tenant, "name": name}
        row = await self._reader.call(lambda db: fetch_row(db, "get_monitor", values))
        return None if row is None else _stored_of(row)

    async def find_monitor(self, key_hash: bytes) -> StoredMonitor | None:
        """See `MonitorStore`."""
        values = {"key_hash": key_hash}
        row = await self._reader.call(lambda db: fetch_row(db, "find_monitor", values))
        return None if row is None else _stored_of(row)

    async def list_monitors(self, tenant: str) -> list[Monitor]:
        """See `MonitorStore`."""
        rows = await self._reader.call(lambda db: fetch_rows(db, "list_monitors", {"tenant": tenant}))
        return [_stored_of(row).monitor for row in rows]

    async def list_all_monitors(self, *, limit: int) -> list[Monitor]:
        """See `MonitorStore`."""
        rows = await self._reader.call(lambda db: fetch_rows(db, "list_all_monitors", {"limit": limit}))
        return [_stored_of(row).monitor for row in rows]

    async def list_overdue_monitors(self, *, now: datetime, limit: int) -> list[Monitor]:
        """See `MonitorStore`."""
        values = {"now": to_micros(now), "limit": limit}
        rows = await self._reader.call(lambda db: fetch_rows(db, "list_overdue_monitors", values))
        return [_stored_of(row).monitor for row in rows]


def _stored_of(row: NamedRow) -> StoredMonitor:
    return StoredMonitor(row.id, row.revision, make_monitor(row.tenant, row.name, row.monitor))
