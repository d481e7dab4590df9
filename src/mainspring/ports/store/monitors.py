"""Monitors of jobs that run elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from mainspring.core.audit import AuditEntry
from mainspring.core.monitors import Monitor
from mainspring.core.values import value


@value()
class StoredMonitor:
    """A monitor as it was read.

    Attributes:
        revision: grows with each change; what was decided by an older one is not saved.
    """

    id: int
    revision: int
    monitor: Monitor


class MonitorStore(Protocol):
    """Monitors. What is decided about one is saved only if it has not changed since it was read."""

    async def add_monitor(
        self, monitor: Monitor, *, key_hash: bytes, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        """Insert a monitor, unless its tenant has one of its name. Return whether it was inserted.

        Args:
            key_hash: what the key that its pings bear comes to.
        """
        ...

    async def save_monitor(self, stored: StoredMonitor, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """Save a changed monitor, if its revision is still the same. Return whether it was saved."""
        ...

    async def delete_monitor(self, tenant: str, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """Delete a monitor. Return whether there was one."""
        ...

    async def get_monitor(self, tenant: str, name: str) -> StoredMonitor | None:
        """Return a monitor."""
        ...

    async def find_monitor(self, key_hash: bytes) -> StoredMonitor | None:
        """Return the monitor whose pings bear a key."""
        ...

    async def list_monitors(self, tenant: str) -> list[Monitor]:
        """Return the monitors of a tenant, by name."""
        ...

    async def list_all_monitors(self, *, limit: int) -> list[Monitor]:
        """Return the monitors of all tenants by tenant and name, at most `limit`."""
        ...

    async def list_overdue_monitors(self, *, now: datetime, limit: int) -> list[Monitor]:
        """Return monitors of all tenants whose `due_at` lies before an instant, the longest overdue first."""
        ...
