"""Keeps the store small: removes old history, keys and limits that are over, old sessions and empty lanes."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Protocol

import structlog

from mainspring.core.archive import last_midnight, start_of_day
from mainspring.core.values import value
from mainspring.ports.clock import Waiter
from mainspring.ports.store import Store
from mainspring.ports.store.upkeep import UniqueKeyPlace

_log = structlog.get_logger(__name__)
BATCH = 1000
KEYS = 5000
"""Keys of what runs once that are looked at in one tick; most of them are still in use."""


@value(kw_only=True)
class Retention:
    """How long rows are kept after their run or session has ended, dead letters after they were settled, and entries
    of the audit, the output of attempts and events after they were written.

    Dead letters that are open stay.
    """

    history: timedelta = timedelta(days=30)
    settled: timedelta = timedelta(days=30)
    audit: timedelta = timedelta(days=400)
    usage_minutes: timedelta = timedelta(days=7)
    usage_hours: timedelta = timedelta(days=400)
    sessions: timedelta = timedelta(days=1)
    run_logs: timedelta = timedelta(days=7)
    events: timedelta = timedelta(days=7)


class Sweep(Protocol):
    """Removes a batch of what lies outside the store, and returns how much it was."""

    async def __call__(self, *, now: datetime) -> int: ...


class Janitor:
    """Removes rows whose retention has ended, a bounded batch at a time.

    Args:
        archives: the history is removed by whole days, and only those that are in the archive. So it is, too, if the
            store says that another server writes an archive.
        sweep: removes files of runs whose time is over; None if this process reaches none.
    """

    name = "janitor"

    def __init__(
        self,
        store: Store,
        *,
        waiter: Waiter,
        retention: Retention,
        period: float = 60.0,
        archives: bool = False,
        sweep: Sweep | None = None,
    ) -> None:
        self._store = store
        self.waiter = waiter
        self._retention = retention
        self._period = period
        self._archives = archives
        self._sweep = sweep
        self._told: date | None = None  # the day that was told to wait for another server's archive
        self._keys_after: UniqueKeyPlace | None = None  # the next look at the keys goes on there

    async def tick(self, now: datetime) -> float:
        """Prepare the history, and remove one batch of each kind of row. Come back soon while there are more."""
        await self._store.prepare_history(now=now)
        await self._store.prepare_run_logs(now=now)
        await self._store.prepare_events(now=now)
        removed = (
            await self._store.prune_history(
                before=await self._history_before(now), limit=BATCH, audit_before=now - self._retention.audit
            ),
            await self._store.prune_dead(before=now - self._retention.settled, limit=BATCH),
            await self._store.prune_keys(now=now, limit=BATCH),
            await self._store.prune_sessions(before=now - self._retention.sessions, limit=BATCH),
            await self._store.prune_workers(before=now - self._retention.history, limit=BATCH),
            await self._store.prune_lanes(limit=BATCH),
            await self._store.prune_limits(now=now, limit=BATCH),
            await self._store.prune_checkpoints(before=now - self._retention.history, limit=BATCH),
            await self._store.prune_run_logs(before=now - self._retention.run_logs, limit=BATCH),
            await self._store.prune_events(before=now - self._retention.events, limit=BATCH),
        )
        _, self._keys_after = await self._store.prune_unique_keys(now=now, after=self._keys_after, limit=KEYS)
        swept = 0 if self._sweep is None else await self._sweep(now=now)
        has_more = max(removed) >= BATCH or swept > 0 or self._keys_after is not None
        return 0.5 if has_more else self._period

    async def _history_before(self, now: datetime) -> datetime:
        """Return the instant before which the history may go."""
        before = now - self._retention.history
        elsewhere = None if self._archives else (await self._store.read_archive()).url
        if not self._archives and elsewhere is None:
            return before
        whole = last_midnight(before)
        waiting = await self._store.find_unarchived_day(before=whole)
        if waiting is None:
            return whole
        if elsewhere is not None and waiting != self._told:
            self._told = waiting
            _log.warning(
                "archive_not_set",
                day=waiting.isoformat(),
                archive=elsewhere,
                kept="nothing is removed",
                next="set archive.url on this server, too; or end it for all: mainspring archive end",
            )
        return start_of_day(waiting)
