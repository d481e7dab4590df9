"""Monitors."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from asyncpg import Record

from mainspring.core.audit import AuditEntry
from mainspring.core.monitors import Monitor
from mainspring.ports.store.monitors import StoredMonitor
from mainspring.stores._sql.monitors import encode_monitor, make_monitor
from mainspring.stores.postgres.audit import write_audit
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction


class PostgresMonitorStore:
    """`MonitorStore` on PostgreSQL."""

    _connections: Connections

    async def add_monitor(
        self, monitor: Monitor, *, key_hash: bytes, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        async def work(transaction: Transaction) -> bool:
            added = await transaction.fetch(
                "add_monitor",
                tenant=monitor.tenant,
                name=monitor.name,
                key_hash=key_hash,
                monitor=encode_monitor(monitor),
                due_at=monitor.due_at,
            )
            await write_audit(transaction, audit, [bool(added)])
            return bool(added)

        return await self._connections.transact(Role.EDIT, work)

    async def save_monitor(self, stored: StoredMonitor, *, audit: Sequence[AuditEntry] = ()) -> bool:
        async def work(transaction: Transaction) -> bool:
            saved = await transaction.fetch(
                "save_monitor",
                monitor_id=stored.id,
                revision=stored.revision,
                monitor=encode_monitor(stored.monitor),
                due_at=stored.monitor.due_at,
            )
            await write_audit(transaction, audit, [bool(saved)])
            return bool(saved)

        return await self._connections.transact(Role.EDIT, work)

    async def delete_monitor(self, tenant: str, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        async def work(transaction: Transaction) -> bool:
            gone = await transaction.fetch("delete_monitor", tenant=tenant, name=name)
            await write_audit(transaction, audit, [bool(gone)])
            return bool(gone)

        return await self._connections.transact(Role.EDIT, work)

    async def get_monitor(self, tenant: str, name: str) -> StoredMonitor | None:
        rows = await self._connections.fetch(
            Role.READ, "get_monitor", is_repeatable=True, tenant=tenant, name=name
        )
        return _stored_of(rows[0]) if rows else None

    async def find_monitor(self, key_hash: bytes) -> StoredMonitor | None:
        rows = await self._connections.fetch(Role.READ, "find_monitor", is_repeatable=True, key_hash=key_hash)
        return _stored_of(rows[0]) if rows else None

    async def list_monitors(self, tenant: str) -> list[Monitor]:
        rows = await self._connections.fetch(Role.READ, "list_monitors", is_repeatable=True, tenant=tenant)
        return [_stored_of(row).monitor for row in rows]

    async def list_all_monitors(self, *, limit: int) -> list[Monitor]:
        rows = await self._connections.fetch(Role.WATCH, "list_all_monitors", is_repeatable=True, limit=limit)
        return [_stored_of(row).monitor for row in rows]

    async def list_overdue_monitors(self, *, now: datetime, limit: int) -> list[Monitor]:
        rows = await self._connections.fetch(
            Role.WATCH, "list_overdue_monitors", is_repeatable=True, now=now, limit=limit
        )
        return [_stored_of(row).monitor for row in rows]


def _stored_of(row: Record) -> StoredMonitor:
    return StoredMonitor(row["id"], row["revision"], make_monitor(row["tenant"], row["name"], row["monitor"]))
