"""Sets the clocks of jobs by new versions of the calendars that they follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import structlog

from mainspring.core.calendars.joined import clock_trigger
from mainspring.core.calendars.preview import next_made
from mainspring.core.clocks import ChangeVerdict
from mainspring.core.ends import after_end_of
from mainspring.core.failures import gap_reason
from mainspring.core.fire_counts import settle_count
from mainspring.core.ids import JobId, format_job_id
from mainspring.core.model import Job, JobSpec
from mainspring.core.planning import coming_fire_at, first_fire_at, next_fire, settle_overdue
from mainspring.core.triggers import Once, UnknownTrigger
from mainspring.core.values import value
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.engine.scheduling.run_factory import fire_range_of
from mainspring.engine.scheduling.stopping import open_gap
from mainspring.ports.clock import Clock, Waiter
from mainspring.ports.store import Store
from mainspring.ports.store.calendars import CalendarUses, Replan
from mainspring.ports.store.schedule import NewFireRange

_log = structlog.get_logger(__name__)
BATCH = 500
"""Jobs in one transaction."""
PERIOD = 5.0
_STALLS = 3
"""Batches in a row of which no job could be set, after which the rest is left to the next round."""
REASON = "calendar"
"""Of fires that were due by the old versions but not yet made, which are caught up."""


@value()
class Replanned:
    """What became of the jobs of changed calendars.

    Attributes:
        jobs: those whose clocks go by the new versions now.
        moved: those of them whose next fire is another one.
        is_done: no job is left behind.
    """

    jobs: int = 0
    moved: int = 0
    is_done: bool = False


class Replanner:
    """Finds jobs whose clocks go by older versions than they should, and sets them. Fires that were made stay."""

    def __init__(self, store: Store, calendars: CalendarReader, *, clock: Clock, wakeups: Wakeups) -> None:
        self._store = store
        self._calendars = calendars
        self._clock = clock
        self._wakeups = wakeups

    async def replan(self) -> Replanned:
        """Set the clocks of all jobs that are behind, some hundred in a transaction."""
        total, stalls = Replanned(), 0
        while stalls < _STALLS:
            job_ids = await self._store.list_unsettled_jobs(limit=BATCH)
            if not job_ids:
                await self._store.settle_calendars()
                return replace(total, is_done=True)
            done = await self._replan(job_ids)
            stalls = 0 if done.jobs else stalls + 1
            total = Replanned(total.jobs + done.jobs, total.moved + done.moved)
        return total

    async def replan_all(self) -> bool:
        """Do the same, and say whether no job is left."""
        return (await self.replan()).is_done

    async def _replan(self, job_ids: Sequence[JobId]) -> Replanned:
        found = [job for job in await self._store.get_jobs(job_ids) if job is not None]
        before = await self._specs_before(found)
        now = self._clock.now()
        plans: list[Replan] = []
        moves: list[bool] = []
        for job, old in zip(found, before, strict=True):
            if old is None:
                continue
            try:
                uses = await self._calendars.choose(job.tenant, job.spec.calendars)
                new = await self._calendars.apply(job.tenant, job.spec, uses.uses)
                plan = make_replan(job, old, new, uses, now)
            except Exception:  # noqa: BLE001 - a fault in one job must not hold up others
                _log.exception("job_cannot_be_replanned", job=format_job_id(job.id))
                continue
            plans.append(plan)
            then = next_made(new.trigger, None if plan.next_fire is None else plan.next_fire.fire_at)
            moves.append(next_made(old.trigger, job.next_fire_at) != then)
        verdicts = await self._store.replan_jobs(plans, now=now)
        done = [verdict is ChangeVerdict.DONE for verdict in verdicts]
        if any(done):
            self._wakeups.clocks_changed()
        return Replanned(
            sum(done), sum(is_done and is_moved for is_done, is_moved in zip(done, moves, strict=True))
        )

    async def _specs_before(self, jobs: Sequence[Job]) -> list[JobSpec | None]:
        """Return the definitions by which clocks were set; None where a calendar or a zone is unknown here."""
        try:
            return [*await self._calendars.apply_to_jobs([(job.id, job.tenant, job.spec) for job in jobs])]
        except ValueError:
            if len(jobs) > 1:  # one by one, so that none holds up others
                return [spec for job in jobs for spec in await self._specs_before([job])]
            _log.exception("calendars_cannot_be_read", job=format_job_id(jobs[0].id), version=jobs[0].version)
            return [None]


def make_replan(job: Job, old: JobSpec, new: JobSpec, calendars: CalendarUses, now: datetime) -> Replan:
    """Decide where a clock stands by new versions. What was due by the old ones is settled as for an edit.

    Args:
        old, new: the job's definition, with the trigger that the old and the new versions make.
    """
    fire_at, following, ends_gap = job.next_fire_at, None, False
    left = job.fires_left
    fire_ranges: tuple[NewFireRange, ...] = ()
    is_fired = fire_at is None and isinstance(job.spec.trigger, Once) and job.fired_through is not None
    is_over = left == 0 or (is_fired and not job.is_paused)
    if is_over:
        pass
    elif job.is_paused:
        gap = _make_other_gap(job, old, new, now)
        fire_ranges, ends_gap = gap or (), gap is not None
    elif isinstance(new.trigger, UnknownTrigger) or after_end_of(new.trigger) is not None:
        # Only a process that knows the type can tell its fires, or none can: what is due is due.
        following = next_fire(new, job.id, fire_at)
    else:
        owed = settle_overdue(old, job.id, fire_at, now=now, reason=REASON)
        owed, left = settle_count(old.trigger, owed, left)
        fire_ranges = tuple(
            fire_range_of(one, job_id=job.id, version=job.version, trigger=old.trigger) for one in owed
        )
        first_at = first_fire_at(new.trigger, now=now, fired_through=job.fired_through)
        following = None if left == 0 else next_fire(new, job.id, first_at)
    return Replan(
        job_id=job.id,
        revision=job.revision,
        fire_at=fire_at,
        next_fire=following,
        calendars=calendars,
        fire_ranges=fire_ranges,
        ends_gap=ends_gap,
        fires_left=left,
    )


def _make_other_gap(job: Job, old: JobSpec, new: JobSpec, now: datetime) -> tuple[NewFireRange, ...] | None:
    """Return the gap that records the fires of a paused job from now on; None: the open one goes on to do so.

    The first of other fires may come before the one at which the open gap starts, and would be on no record (law 4).
    """
    if old.trigger is None or new.trigger is None or isinstance(new.trigger, UnknownTrigger):
        return None
    if clock_trigger(new.trigger) == clock_trigger(old.trigger):
        return None
    first_at = coming_fire_at(new.trigger, now=now, fired_through=job.fired_through)
    return open_gap(job, job.version, first_at, reason=gap_reason(job.pause_note))


class CalendarFollower:
    """Goes on with what a write of a calendar has left undone: its process may have died."""

    name = "calendars"

    def __init__(self, store: Store, replanner: Replanner, *, ownership: Ownership, waiter: Waiter) -> None:
        self._store = store
        self._replanner = replanner
        self._settled: int | None = None
        self._ownership = ownership
        self.waiter = waiter

    async def tick(self, now: datetime) -> float:
        """Look for jobs that are behind, if a calendar was written. The owner of the first shard does so, for all."""
        del now
        if 0 not in self._ownership.epochs:
            self._settled = None
            return PERIOD
        revision = await self._store.read_calendar_revision()
        if revision != self._settled and await self._replanner.replan_all():
            self._settled = revision
        return PERIOD
