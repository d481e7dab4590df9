"""Keeps the store small: removes old history, expired keys, old sessions, empty lanes and what is over of limits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from mainspring.ports.clock import Waiter
from mainspring.ports.store import Store

BATCH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long rows are kept after their run or session has ended. Dead runs stay until redriven or purged."""

    history: timedelta = timedelta(days=30)
    sessions: timedelta = timedelta(days=1)


class Janitor:
    """Removes rows whose retention has ended, a bounded batch at a time."""

    name = "janitor"

    def __init__(self, store: Store, *, waiter: Waiter, retention: Retention, period: float = 60.0) -> None:
        self._store = store
        self.waiter = waiter
        self._retention = retention
        self._period = period

    async def tick(self, now: datetime) -> float:
        """Prepare the history, and remove one batch of each kind of row. Come back soon while there are more."""
        await self._store.prepare_history(now=now)
        removed = (
            await self._store.prune_history(before=now - self._retention.history, limit=BATCH),
            await self._store.prune_keys(now=now, limit=BATCH),
            await self._store.prune_sessions(before=now - self._retention.sessions, limit=BATCH),
            await self._store.prune_lanes(limit=BATCH),
            await self._store.prune_limits(now=now, limit=BATCH),
        )
        return 0.5 if max(removed) >= BATCH else self._period
