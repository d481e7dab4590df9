"""Decides what a pause writes to a job's clock, whoever pauses: a user, or the job itself after failures."""

from __future__ import annotations

from datetime import datetime

from mainspring.core.model import FireRangeKind, Job, JobSpec
from mainspring.core.planning import settle_kept_out
from mainspring.core.triggers import AtStart
from mainspring.engine.scheduling.run_factory import fire_range_of
from mainspring.ports.store.jobs import ClockChange
from mainspring.ports.store.schedule import NewFireRange


def stop_clock(job: Job, spec: JobSpec, *, reason: str, now: datetime) -> ClockChange:
    """Return the pause of a job at `now`, with the records of its fires.

    What its calendars have kept out so far is settled first, as theirs. The gap starts at the first fire that is not
    made. That fire may be due already, and the gap is then its record (law 4). Of a job at start, it is the record of
    that fire alone: the starts within the pause are recorded as they come.

    Args:
        spec: with the trigger that its calendars make.
        reason: that of the gap.
    """
    kept_out, first_at = settle_kept_out(spec.trigger, job.next_fire_at, now=now)
    settled = (
        fire_range_of(one, job_id=job.id, version=job.version, trigger=spec.trigger) for one in kept_out
    )
    until = first_at if isinstance(spec.trigger, AtStart) else None
    return ClockChange(
        job_id=job.id,
        revision=job.revision,
        fire_at=job.next_fire_at,
        fire_ranges=(*settled, *open_gap(job, job.version, first_at, until, reason=reason)),
    )


def open_gap(
    job: Job, version: int, from_at: datetime | None, until: datetime | None = None, *, reason: str
) -> tuple[NewFireRange, ...]:
    """Make the fire range that records the fires of a pause, from the first one on. Empty if there are none.

    Args:
        until: its last fire; None leaves it open.
    """
    if from_at is None:
        return ()
    fire_range = NewFireRange(
        job_id=job.id,
        version=version,
        kind=FireRangeKind.GAP,
        from_at=from_at,
        to_at=until,
        reason=reason,
    )
    return (fire_range,)
