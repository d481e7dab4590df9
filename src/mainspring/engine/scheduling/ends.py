"""Sets the clocks of jobs that fire at a delay after the end of the run before (ADR 0060)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import structlog

from mainspring.core.ends import LastFire, after_end_of, follow_end
from mainspring.core.ids import JobId, format_job_id, job_shard
from mainspring.core.model import Job
from mainspring.core.planning import next_fire
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.last_fires import read_last_fires
from mainspring.engine.common.pacing import Pacing
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.ports.clock import Clock, Waiter
from mainspring.ports.store import Store
from mainspring.ports.store.ends import FollowingFire, FollowVerdict

_log = structlog.get_logger(__name__)
PERIOD = 1.0
"""The least seconds between two looks. No delay is shorter, so a clock is set before its fire is due."""
EARLIEST = 0.001
"""So many seconds early is in time: a wait may end a little before its time, and instants are rounded."""
LONGEST = 10.0
"""The most seconds between two looks, however long they take."""
BATCH = 500
SHARE = 0.25
"""The share of the time that looks may take: one of a quarter of a second is no reason for a fire to be late."""


class EndFollower:
    """Looks in the owned shards for such jobs whose run has ended, and sets their clocks.

    The code that ends runs knows nothing of it. The looks read what is on record, so a crash at any point loses
    nothing: the next look, by whichever node owns the shard then, finds the job again.
    """

    name = "ends"

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
        self._pacing = Pacing(longest=LONGEST, share=SHARE)
        self._looked_at: float | None = None

    async def tick(self, now: datetime) -> float:
        """Set the clocks of what is found. Come back at once while there is more, and later if looks take long."""
        del now
        begun = self._clock.monotonic()
        early = 0.0 if self._looked_at is None else self._looked_at + PERIOD - begun
        if early > EARLIEST:
            return early
        if not self._ownership.epochs:
            return PERIOD
        self._looked_at = begun
        shards = sorted(self._ownership.epochs)
        if not await self._store.watches_ends(shards):  # as for most: no rest, because hints may be lost
            return PERIOD
        found = await self._store.read_ended(shards, limit=BATCH)
        rest = self._pacing.rest(self._clock.monotonic() - begun)
        are_set = bool(found) and await self._follow(found)
        if are_set:
            self._wakeups.clocks_changed()
        if are_set and len(found) == BATCH:
            self._looked_at = None
            return 0.0
        return max(PERIOD, rest)

    async def _follow(self, job_ids: Sequence[JobId]) -> bool:
        """Set the clocks of jobs whose runs seem to have ended; return whether any was set."""
        epochs = self._ownership.epochs
        jobs = [job for job in await self._store.get_jobs(job_ids) if job is not None and not job.is_paused]
        lasts = await read_last_fires(self._store, jobs)
        now = self._clock.now()
        following = [
            one
            for job, last in zip(jobs, lasts, strict=True)
            if not last.is_live and (one := await self._plan(job, last, now)) is not None
        ]
        verdicts = await self._store.follow_ends(following, epochs=epochs, now=now)
        fenced = {
            job_shard(one.job_id)
            for one, verdict in zip(following, verdicts, strict=True)
            if verdict is FollowVerdict.FENCED
        }
        if fenced:
            self._ownership.fence(fenced, used=epochs)
        # A clock whose fire is long due lies before what the planner reads each second.
        dues = [
            one.next_fire.due_at
            for one, verdict in zip(following, verdicts, strict=True)
            if verdict is FollowVerdict.SET and one.next_fire is not None
        ]
        if dues:
            self._wakeups.clock_set_late(min(dues))
        return FollowVerdict.SET in verdicts

    async def _plan(self, job: Job, last: LastFire, now: datetime) -> FollowingFire | None:
        """Return where a job's clock is to stand; None if that is not known here."""
        fire_at = None
        try:
            [spec] = await self._calendars.apply_to_jobs([(job.id, job.tenant, job.spec)])
            if spec.trigger is not None and after_end_of(spec.trigger) is not None and job.fires_left != 0:
                fire_at = follow_end(spec.trigger, last, now=now)
            return FollowingFire(
                job_id=job.id, revision=job.revision, next_fire=next_fire(spec, job.id, fire_at)
            )
        except Exception:  # noqa: BLE001 - a calendar is unknown here, or wrong: one job must not hold up others
            _log.exception("end_cannot_be_followed", job=format_job_id(job.id), version=job.version)
            return None
