"""Monitors, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count

from mainspring.core.audit import AuditEntry
from mainspring.core.monitors import Monitor
from mainspring.ports.store.monitors import StoredMonitor
from mainspring.stores.memory.audit import write_audit
from mainspring.stores.memory.tables import Tables


@dataclass(slots=True)
class MonitorTables:
    """Monitors by id, and the ids by what their keys come to."""

    monitors: dict[int, StoredMonitor] = field(default_factory=dict)
    keys: dict[bytes, int] = field(default_factory=dict)
    sequence: count[int] = field(default_factory=lambda: count(1))


class MemoryMonitorStore:
    """`MonitorStore` in memory."""

    _tables: Tables
    _monitors: MonitorTables

    def _find_monitor(self, tenant: str, name: str) -> StoredMonitor | None:
        found = (one for one in self._monitors.monitors.values() if one.monitor.tenant == tenant)
        return next((one for one in found if one.monitor.name == name), None)

    async def add_monitor(
        self, monitor: Monitor, *, key_hash: bytes, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        is_new = self._find_monitor(monitor.tenant, monitor.name) is None
        if is_new:
            monitor_id = next(self._monitors.sequence)
            self._monitors.monitors[monitor_id] = StoredMonitor(monitor_id, 1, monitor)
            self._monitors.keys[key_hash] = monitor_id
        write_audit(self._tables, audit, [is_new])
        return is_new

    async def save_monitor(self, stored: StoredMonitor, *, audit: Sequence[AuditEntry] = ()) -> bool:
        old = self._monitors.monitors.get(stored.id)
        is_same = old is not None and old.revision == stored.revision
        if is_same:
            new = StoredMonitor(stored.id, stored.revision + 1, stored.monitor)
            self._monitors.monitors[stored.id] = new
        write_audit(self._tables, audit, [is_same])
        return is_same

    async def delete_monitor(self, tenant: str, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        old = self._find_monitor(tenant, name)
        if old is not None:
            del self._monitors.monitors[old.id]
            self._monitors.keys = {key: one for key, one in self._monitors.keys.items() if one != old.id}
        write_audit(self._tables, audit, [old is not None])
        return old is not None

    async def get_monitor(self, tenant: str, name: str) -> StoredMonitor | None:
        return self._find_monitor(tenant, name)

    async def find_monitor(self, key_hash: bytes) -> StoredMonitor | None:
        monitor_id = self._monitors.keys.get(key_hash)
        return None if monitor_id is None else self._monitors.monitors[monitor_id]

    async def list_monitors(self, tenant: str) -> list[Monitor]:
        found = [one.monitor for one in self._monitors.monitors.values() if one.monitor.tenant == tenant]
        return sorted(found, key=lambda one: one.name)

    async def list_all_monitors(self, *, limit: int) -> list[Monitor]:
        found = [one.monitor for one in self._monitors.monitors.values()]
        return sorted(found, key=lambda one: (one.tenant, one.name))[:limit]

    async def list_overdue_monitors(self, *, now: datetime, limit: int) -> list[Monitor]:
        found = [
            (one.monitor.due_at, one.id, one.monitor)
            for one in self._monitors.monitors.values()
            if one.monitor.due_at is not None and one.monitor.due_at < now
        ]
        return [monitor for *_, monitor in sorted(found, key=lambda one: one[:2])[:limit]]
