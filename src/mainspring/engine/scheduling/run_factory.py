"""Makes the run to insert, from a definition and an instant."""

from __future__ import annotations

from datetime import datetime

from mainspring.core.calendars.sieve import labels_of
from mainspring.core.ids import FireRangeId, JobId
from mainspring.core.limits import keys_of
from mainspring.core.model import FireRangeKind, JobSpec, LaneKey, RunKind
from mainspring.core.planning import PlannedRange, jittered
from mainspring.core.triggers import Trigger
from mainspring.ports.store.runs import NewRun
from mainspring.ports.store.schedule import NewFireRange


def make_fired_run(
    spec: JobSpec,
    *,
    job_id: JobId,
    version: int,
    tenant: str,
    fire_at: datetime,
    skip_reason: str | None = None,
) -> NewRun:
    """Make the run of a fire. Its nominal time is `fire_at`; the job's jitter delays its start."""
    due_at = jittered(job_id, fire_at, spec.jitter)
    return NewRun(
        job_id=job_id,
        version=version,
        lane=lane_of(spec, tenant),
        kind=RunKind.SCHEDULED,
        fire_at=fire_at,
        due_at=due_at,
        timeout=spec.timeout,
        expires_at=due_at + spec.expires_after if spec.expires_after is not None else None,
        skip_reason=skip_reason,
        keys=keys_of(job_id, spec) if spec.is_lined_up and skip_reason is None else (),
    )


def make_caught_up_run(
    spec: JobSpec,
    *,
    job_id: JobId,
    version: int,
    tenant: str,
    fire_at: datetime,
    kind: RunKind,
    fire_range_id: FireRangeId,
    now: datetime,
) -> NewRun:
    """Make the run of an old fire. Its nominal time is `fire_at`.

    It is due now, unless the job's jitter still holds it back, and its expiry counts from then.
    """
    due_at = max(now, jittered(job_id, fire_at, spec.jitter))
    return NewRun(
        job_id=job_id,
        version=version,
        lane=lane_of(spec, tenant),
        kind=kind,
        fire_at=fire_at,
        due_at=due_at,
        timeout=spec.timeout,
        fire_range_id=fire_range_id,
        expires_at=due_at + spec.expires_after if spec.expires_after is not None else None,
        keys=keys_of(job_id, spec),
    )


def lane_of(spec: JobSpec, tenant: str) -> LaneKey:
    """Return the lane in which a job's runs wait by default."""
    return LaneKey(spec.queue, spec.route, tenant, spec.priority)


def fire_range_of(
    planned: PlannedRange, *, job_id: JobId, version: int, trigger: Trigger | None
) -> NewFireRange:
    """Make the fire range row for a planned range.

    Args:
        trigger: that by which the range was planned. What is to be caught up goes by the same calendars.
    """
    is_gap = planned.kind is FireRangeKind.GAP
    return NewFireRange(
        job_id=job_id,
        version=version,
        kind=planned.kind,
        from_at=planned.from_at,
        to_at=planned.to_at,
        reason=planned.reason,
        calendars=() if is_gap else labels_of(trigger),
    )
