"""What pausing, resuming and deleting a job does to its clock, and the records that it leaves."""

from __future__ import annotations

from datetime import datetime

from mainspring.core.model import FireRangeKind, Job
from mainspring.core.planning import next_fire, overdue_range
from mainspring.engine.scheduling.run_factory import fire_range_of
from mainspring.ports.store.jobs import ClockChange
from mainspring.ports.store.schedule import NewFireRange


def pause(job: Job, now: datetime) -> ClockChange:
    """Stop a clock."""
    del now
    # It starts at the first fire that is not made. That fire may be due already, and this is then its record (law 4).
    fire_ranges = paused_fire_range(job, job.version, job.next_fire_at)
    return ClockChange(
        job_id=job.id, revision=job.revision, fire_at=job.next_fire_at, fire_ranges=fire_ranges
    )


def paused_fire_range(job: Job, version: int, from_at: datetime | None) -> tuple[NewFireRange, ...]:
    """Make the open fire range that records the fires of a pause, from the first one on. Empty if there are none."""
    if from_at is None:
        return ()
    fire_range = NewFireRange(
        job_id=job.id, version=version, kind=FireRangeKind.GAP, from_at=from_at, to_at=None, reason="paused"
    )
    return (fire_range,)


def resume(job: Job, now: datetime) -> ClockChange:
    """Start a clock again, from now on."""
    trigger = job.spec.trigger
    next_fire_at = job.next_fire_at
    if job.is_paused:
        # After `fired_through`, even if the store's clock was set back: an earlier fire could never be won.
        after = now if job.fired_through is None else max(now, job.fired_through)
        next_fire_at = trigger.next_after(after) if trigger is not None else None
    return ClockChange(
        job_id=job.id,
        revision=job.revision,
        fire_at=job.next_fire_at,
        next_fire=next_fire(job.spec, job.id, next_fire_at),
    )


def delete(job: Job, now: datetime) -> ClockChange:
    """Remove a clock."""
    overdue = overdue_range(
        job.spec.trigger, job.next_fire_at, now=now, kind=FireRangeKind.GAP, reason="deleted"
    )
    fire_ranges = (fire_range_of(overdue, job_id=job.id, version=job.version),) if overdue is not None else ()
    return ClockChange(
        job_id=job.id, revision=job.revision, fire_at=job.next_fire_at, fire_ranges=fire_ranges
    )
