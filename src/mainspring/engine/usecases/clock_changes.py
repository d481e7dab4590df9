"""Decides what a pause, a resume, a delete or an edit writes to a job's clock. Nothing here waits."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from mainspring.core.ends import LastFire, after_end_of, follow_edit, follow_pause
from mainspring.core.failures import PAUSED, gap_reason
from mainspring.core.fire_counts import keeps_count, settle_count
from mainspring.core.ids import JobId
from mainspring.core.model import FireRangeKind, Job, JobSpec
from mainspring.core.planning import (
    PlannedRange,
    coming_fire_at,
    first_fire_at,
    kept_fire,
    next_fire,
    overdue_range,
    settle_kept_out,
    settle_overdue,
)
from mainspring.engine.scheduling.run_factory import fire_range_of
from mainspring.engine.scheduling.stopping import open_gap, stop_clock
from mainspring.engine.usecases.scheduled import Scheduled
from mainspring.ports.store.calendars import CalendarUses
from mainspring.ports.store.jobs import ClockChange, JobEdit, NewJob
from mainspring.ports.store.schedule import NewFireRange


def new_job(job_id: JobId, tenant: str, scheduled: Scheduled, now: datetime) -> NewJob:
    """Return a job to insert, whose clock starts now."""
    spec = scheduled.spec
    return NewJob(
        id=job_id,
        tenant=tenant,
        spec=scheduled.own,
        next_fire=next_fire(spec, job_id, first_fire_at(spec.trigger, now=now, since=scheduled.since)),
        calendars=scheduled.calendars,
    )


def added_job(new: NewJob, now: datetime) -> Job:
    """Return a job as the store holds it right after it was added."""
    return Job(
        id=new.id,
        tenant=new.tenant,
        spec=new.spec,
        version=1,
        revision=1,
        is_paused=False,
        next_fire_at=new.next_fire.fire_at if new.next_fire is not None else None,
        fired_through=None,
        created_at=now,
        updated_at=now,
        fires_left=new.spec.max_fires,
    )


def pause_clock(job: Job, spec: JobSpec, now: datetime) -> ClockChange:
    return stop_clock(job, spec, reason=PAUSED, now=now)


def resume_clock(job: Job, spec: JobSpec, last: LastFire, now: datetime) -> ClockChange:
    trigger = spec.trigger
    next_fire_at = job.next_fire_at
    if job.is_paused and (trigger is None or job.fires_left == 0):
        next_fire_at = None
    elif job.is_paused and trigger is not None:
        next_fire_at = (
            coming_fire_at(trigger, now=now, fired_through=job.fired_through)
            if after_end_of(trigger) is None
            else follow_pause(trigger, last, now=now)
        )
    return ClockChange(
        job_id=job.id,
        revision=job.revision,
        fire_at=job.next_fire_at,
        next_fire=next_fire(spec, job.id, next_fire_at),
    )


def delete_clock(job: Job, spec: JobSpec, now: datetime) -> ClockChange:
    kept_out, rest = settle_kept_out(spec.trigger, job.next_fire_at, now=now)
    overdue = overdue_range(spec.trigger, rest, now=now, kind=FireRangeKind.GAP, reason="deleted")
    return ClockChange(
        job_id=job.id,
        revision=job.revision,
        fire_at=job.next_fire_at,
        fire_ranges=_ranges_of(job, spec, kept_out if overdue is None else (*kept_out, overdue)),
    )


def _ranges_of(job: Job, spec: JobSpec, planned: Iterable[PlannedRange]) -> tuple[NewFireRange, ...]:
    """Make the fire ranges by which a definition is settled."""
    return tuple(
        fire_range_of(one, job_id=job.id, version=job.version, trigger=spec.trigger) for one in planned
    )


def edit_clock(
    job: Job,
    spec: JobSpec,
    *,
    before: JobSpec,
    after: JobSpec,
    calendars: CalendarUses | None,
    last: LastFire,
    now: datetime,
    since: datetime | None = None,
) -> JobEdit:
    """Decide an edit. A new trigger, or other calendars, set the clock again; then the old ones settle what was due.

    So does another maximum of fires: the old one tells how many of those that were due still run.

    Args:
        spec: the new definition.
        before, after: the old and the new definition, each with the trigger that its calendars make.
        last: the job's newest fire, if the new trigger counts from its end.
        since: as of `Scheduled`.
    """
    fire_ranges: tuple[NewFireRange, ...] = ()
    is_counting_on = keeps_count(job.spec, spec)
    fires_otherwise = not is_counting_on or spec.calendars != job.spec.calendars
    left = job.fires_left if is_counting_on else spec.max_fires
    if job.is_paused:
        following = None
        if fires_otherwise and left != 0:
            first_at = _first_after_edit(after, last, now, fired_through=None, since=since)
            fire_ranges = open_gap(job, job.version + 1, first_at, reason=gap_reason(job.pause_note))
    elif fires_otherwise and not _is_due_after_end(job, before, after, now):
        owed = settle_overdue(before, job.id, job.next_fire_at, now=now, reason="edited")
        owed, left_of_old = settle_count(before.trigger, owed, job.fires_left)
        fire_ranges = _ranges_of(job, before, owed)
        left = left_of_old if is_counting_on else left
        first_at = _first_after_edit(after, last, now, fired_through=job.fired_through, since=since)
        following = None if left == 0 else next_fire(after, job.id, first_at)
    else:
        following = kept_fire(before, after, job.id, job.next_fire_at, now=now)
    return JobEdit(
        job_id=job.id,
        revision=job.revision,
        fire_at=job.next_fire_at,
        spec=spec,
        next_fire=following,
        fire_ranges=fire_ranges,
        ends_gap=job.is_paused and fires_otherwise,
        calendars=calendars,
        fires_left=left,
    )


def _first_after_edit(
    after: JobSpec,
    last: LastFire,
    now: datetime,
    *,
    fired_through: datetime | None,
    since: datetime | None,
) -> datetime | None:
    """Return the first fire by a new trigger."""
    if after.trigger is None or after_end_of(after.trigger) is None:
        return first_fire_at(after.trigger, now=now, fired_through=fired_through, since=since)
    return follow_edit(after.trigger, last, now=now)


def _is_due_after_end(job: Job, before: JobSpec, after: JobSpec, now: datetime) -> bool:
    """Say whether a fire after the end is due that an edit of the delay meets. It is made as it was planned.

    Settled apart, it would run beside the fire of the new delay, and the schedule never has two runs at a time.
    """
    is_due = job.next_fire_at is not None and job.next_fire_at <= now
    return is_due and after_end_of(before.trigger) is not None and after_end_of(after.trigger) is not None
