"""Pauses jobs whose runs have failed so often in a row as their definitions allow."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import structlog

from mainspring.core.failures import FAILURES
from mainspring.core.ids import JobId, format_job_id
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.pacing import Pacing
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.engine.scheduling.stopping import stop_clock
from mainspring.ports.clock import Clock, Waiter
from mainspring.ports.store import Store

_log = structlog.get_logger(__name__)
PERIOD = 1.0
LONGEST = 10.0
"""The most seconds between two looks, however long they take: jobs that fail are to be paused soon."""
BATCH = 100


class FailureWatch:
    """Looks for such jobs in the owned shards, and pauses them.

    The looks read what is on record, so a crash at any point loses nothing: the next look finds the job again.
    """

    name = "failures"

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        ownership: Ownership,
        wakeups: Wakeups,
        waiter: Waiter,
        calendars: CalendarReader,
    ) -> None:
        self._store = store
        self._calendars = calendars
        self._clock = clock
        self._ownership = ownership
        self._wakeups = wakeups
        self.waiter = waiter
        self._pacing = Pacing(longest=LONGEST)

    async def tick(self, now: datetime) -> float:
        """Pause what is found. Come back at once while there is more, and later if looks take long."""
        del now
        if not self._ownership.epochs:
            return PERIOD
        begun = self._clock.monotonic()
        found = await self._store.read_failing(sorted(self._ownership.epochs), limit=BATCH)
        rest = self._pacing.rest(self._clock.monotonic() - begun)
        paused = await self._pause(found) if found else []
        for job_id in paused:
            meaning = "its newest runs have all failed; `mainspring job resume` starts it again"
            _log.error("job_paused_after_failures", job=format_job_id(job_id), meaning=meaning)
        if paused:
            self._wakeups.clocks_changed()
        return 0.0 if paused and len(found) == BATCH else max(PERIOD, rest)

    async def _pause(self, job_ids: Sequence[JobId]) -> list[JobId]:
        """Pause jobs that seem to have failed too often; return those that the store has found to have done so."""
        planned = []
        for job in await self._store.get_jobs(job_ids):
            if job is None:
                continue
            try:
                (spec,) = await self._calendars.apply_to_jobs([(job.id, job.tenant, job.spec)])
            except ValueError:  # a calendar or a zone is unknown here
                _log.exception("calendars_cannot_be_read", job=format_job_id(job.id), version=job.version)
                continue
            planned.append((job, spec))
        now = self._clock.now()
        changes = [stop_clock(job, spec, reason=FAILURES, now=now) for job, spec in planned]
        return await self._store.pause_failing(changes, now=now)
