"""Makes the run to insert, from a definition and an instant."""

from __future__ import annotations

from datetime import datetime

from mainspring.core.calendars.joined import labels_of
from mainspring.core.events.model import Event
from mainspring.core.expiry import QueueExpiries, expiry_of
from mainspring.core.ids import FireRangeId, JobId
from mainspring.core.limits import keys_of
from mainspring.core.model import FireRange, FireRangeKind, JobSpec, LaneKey, Priority, RunKind
from mainspring.core.pauses import NOTHING_PAUSED, LanePauses
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
    expiries: QueueExpiries,
    skip_reason: str | None = None,
    trace: bytes | None = None,
) -> NewRun:
    """Make the run of a fire. Its nominal time is `fire_at`; the job's jitter delays its start.

    Args:
        expiries: the expiries of queues.
        trace: its trace context; None if it is not traced.
    """
    due_at = jittered(job_id, fire_at, spec.jitter)
    return NewRun(
        job_id=job_id,
        version=version,
        lane=lane_of(spec, tenant),
        kind=RunKind.SCHEDULED,
        fire_at=fire_at,
        due_at=due_at,
        timeout=spec.timeout,
        expires_at=expiry_of(spec, due_at, expiries),
        skip_reason=skip_reason,
        keys=keys_of(job_id, spec) if spec.is_lined_up and skip_reason is None else (),
        trace=trace,
    )


def make_event_run(
    spec: JobSpec,
    *,
    job_id: JobId,
    version: int,
    event: Event,
    payload: bytes,
    expiries: QueueExpiries,
    pauses: LanePauses = NOTHING_PAUSED,
    skip_reason: str | None = None,
) -> NewRun:
    """Make the run that an event starts, or the record of one that is skipped. The job's jitter delays its start.

    Args:
        payload: the event, in its envelope.
        skip_reason: why it only leaves a record; None: only if a pause or a blackout says so.

    Raises:
        InvalidInput: the event has not what a key of the job's limits is made of.
    """
    at = event.received_at
    due_at = jittered(job_id, at, spec.jitter)
    reason = skip_reason
    if reason is None:
        reason = reason_to_skip(spec, job_id=job_id, tenant=event.tenant, fire_at=at, pauses=pauses)
    return NewRun(
        job_id=job_id,
        version=version,
        lane=lane_of(spec, event.tenant),
        kind=RunKind.EVENT,
        fire_at=None,
        due_at=due_at,
        timeout=spec.timeout,
        payload=payload,
        expires_at=expiry_of(spec, due_at, expiries),
        skip_reason=reason,
        target_key=event.id,
        keys=keys_of(job_id, spec, payload) if spec.is_lined_up and reason is None else (),
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
    expiries: QueueExpiries,
    now: datetime,
    pauses: LanePauses = NOTHING_PAUSED,
) -> NewRun:
    """Make the run of an old fire. Its nominal time is `fire_at`.

    It is due now, unless the job's jitter still holds it back, and its expiry counts from then. Of a backfill, it does
    not matter which pauses its fires fell into.
    """
    skip_reason = None
    if kind is not RunKind.BACKFILL:
        skip_reason = reason_to_skip(spec, job_id=job_id, tenant=tenant, fire_at=fire_at, pauses=pauses)
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
        expires_at=expiry_of(spec, due_at, expiries),
        skip_reason=skip_reason,
        keys=keys_of(job_id, spec) if skip_reason is None else (),
    )


def reason_to_skip(
    spec: JobSpec, *, job_id: JobId, tenant: str, fire_at: datetime, pauses: LanePauses
) -> str | None:
    """Return why a fire is to be skipped: it fell due in a pause or blackout that skips fires. None: it is not."""
    if not pauses:
        return None
    return pauses.reason_to_skip(lane_of(spec, tenant), jittered(job_id, fire_at, spec.jitter))


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


def make_backfilled_run(
    spec: JobSpec,
    *,
    section: FireRange,
    fire_at: datetime,
    priority: Priority,
    expiries: QueueExpiries,
    now: datetime,
) -> NewRun:
    """Make the run of a backfill. Its nominal time is `fire_at`; it is due now, without a jitter.

    Args:
        section: the backfill's fire range.
        priority: of the lane in which it waits.
    """
    return NewRun(
        job_id=section.job_id,
        version=section.version,
        lane=LaneKey(spec.queue, spec.route, section.tenant, priority),
        kind=RunKind.BACKFILL,
        fire_at=fire_at,
        due_at=now,
        timeout=spec.timeout,
        fire_range_id=section.id,
        expires_at=expiry_of(spec, now, expiries),
        keys=keys_of(section.job_id, spec),
    )
