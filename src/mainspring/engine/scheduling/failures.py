"""Pauses jobs whose runs have failed so often in a row as their definitions allow."""

from __future__ import annotations

from datetime import datetime

import structlog

from mainspring.core.ids import format_job_id
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.ports.clock import Clock, Waiter
from mainspring.ports.store import Store

_log = structlog.get_logger(__name__)
PERIOD = 1.0
SHARE = 0.05
"""The share of the time that looks may take, if many jobs are watched."""
BATCH = 100


class FailureWatch:
    """Looks for such jobs in the owned shards, and pauses them.

    The looks read what is on record, so a crash at any point loses nothing: the next look finds the job again.
    """

    name = "failures"

    def __init__(
        self, store: Store, *, clock: Clock, ownership: Ownership, wakeups: Wakeups, waiter: Waiter
    ) -> None:
        self._store = store
        self._clock = clock
        self._ownership = ownership
        self._wakeups = wakeups
        self.waiter = waiter

    async def tick(self, now: datetime) -> float:
        """Pause what is found. Come back at once while there is more, and later if looks take long."""
        del now
        if not self._ownership.epochs:
            return PERIOD
        begun = self._clock.monotonic()
        found = await self._store.read_failing(sorted(self._ownership.epochs), limit=BATCH)
        took = self._clock.monotonic() - begun
        paused = await self._store.pause_failing(found, now=self._clock.now()) if found else []
        for job_id in paused:
            _log.warning("job_paused_after_failures", job=format_job_id(job_id))
        if paused:
            self._wakeups.clocks_changed()
        return 0.0 if paused and len(found) == BATCH else max(PERIOD, took / SHARE)
