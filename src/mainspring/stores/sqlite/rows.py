"""Converts between rows and the model: instants are microseconds, ids of jobs are 16 bytes, lists are JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

import msgspec

from mainspring.core.applying import LiveRun
from mainspring.core.clocks import NextFire
from mainspring.core.ids import FireRangeId, JobId, LaneId, RunId, SessionId
from mainspring.core.model import (
    Attempt,
    FireRange,
    FireRangeKind,
    Job,
    Lane,
    LaneKey,
    Priority,
    Run,
    RunKind,
)
from mainspring.core.preemption import load_mark
from mainspring.core.rates import Bucket, Rate
from mainspring.core.shards import Refusal
from mainspring.core.states import RunState
from mainspring.core.workflows.places import StepPlace
from mainspring.ports.codec import decode_spec
from mainspring.ports.store.claims import ClaimedRun, HeldRun
from mainspring.ports.store.nodes import NodeFacts, NodeState
from mainspring.ports.store.sessions import SessionFacts

Row = tuple[Any, ...]
NamedRow = Any
"""A named tuple with the columns of its query as fields."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_micros(instant: datetime) -> int:
    """Return the microseconds from 1970 to an instant."""
    since = instant - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def to_optional_micros(instant: datetime | None) -> int | None:
    """Return the microseconds from 1970 to an instant, or None for None."""
    return None if instant is None else to_micros(instant)


def values_of_next_fire(next_fire: NextFire | None) -> dict[str, int | None]:
    """Return the values of the columns of a clock's next fire."""
    if next_fire is None:
        return {"next_fire_at": None, "due_at": None}
    return {"next_fire_at": to_micros(next_fire.fire_at), "due_at": to_micros(next_fire.due_at)}


def to_instant(micros: int) -> datetime:
    """Return the instant that is `micros` microseconds after 1970."""
    return _EPOCH + timedelta(microseconds=micros)


def to_optional_instant(micros: int | None) -> datetime | None:
    """Return the instant that is `micros` microseconds after 1970, or None for None."""
    return None if micros is None else _EPOCH + timedelta(microseconds=micros)


def count_micros(duration: timedelta | None) -> int | None:
    """Return a duration in whole microseconds, or None for None."""
    return None if duration is None else duration // timedelta(microseconds=1)


def to_optional_duration(micros: int | None) -> timedelta | None:
    """Return a duration of `micros` microseconds, or None for None."""
    return None if micros is None else timedelta(microseconds=micros)


@lru_cache(maxsize=1024)
def to_millis(duration: timedelta) -> int:
    """Return a duration in whole milliseconds, rounded up so that no limit gets shorter."""
    return -(-duration // timedelta(milliseconds=1))


def to_json(values: Any) -> str:
    """Encode a list or an object as one JSON parameter, which `json_each` reads."""
    return msgspec.json.encode(values).decode()


def to_hexes(job_ids: Sequence[JobId]) -> str:
    """Encode ids of jobs as a JSON list of hexadecimal strings, which `unhex` reads."""
    return to_json([job_id.hex for job_id in job_ids])


@lru_cache(maxsize=16384)
def make_job_id(blob: bytes) -> JobId:
    """Return a job's id from its 16 bytes."""
    return JobId(UUID(bytes=blob))


def make_job(row: Row) -> Job:
    """Make a job from the fragment `job_columns`."""
    (
        job_id,
        tenant,
        spec,
        version,
        revision,
        is_paused,
        next_fire_at,
        fired_through,
        created_at,
        updated_at,
        fires_left,
        pause_note,
        owner,
        undefined_since,
    ) = row
    return Job(
        id=make_job_id(job_id),
        tenant=tenant,
        spec=decode_spec(spec),
        version=version,
        revision=revision,
        is_paused=bool(is_paused),
        next_fire_at=to_optional_instant(next_fire_at),
        fired_through=to_optional_instant(fired_through),
        created_at=to_instant(created_at),
        updated_at=to_instant(updated_at),
        fires_left=fires_left,
        pause_note=pause_note if is_paused else None,
        owner=owner,
        undefined_since=to_optional_instant(undefined_since),
    )


def make_lane(row: NamedRow) -> Lane:
    """Make a lane from the columns of `read_lanes`."""
    return Lane(
        id=LaneId(row.id),
        key=make_lane_key(row),
        earliest_ready_at=to_optional_instant(row.earliest_ready_at),
        earliest_quarantined_at=to_optional_instant(row.earliest_quarantined_at),
    )


def make_lane_key(row: NamedRow) -> LaneKey:
    """Make a lane's key from columns of the table."""
    return LaneKey(row.queue, row.route, row.tenant, Priority(row.priority))


def make_rate(row: NamedRow) -> Rate | None:
    """Make the rate of a limit's rule."""
    return None if row.per_count is None else Rate(row.per_count, timedelta(milliseconds=row.per_ms))


def make_bucket(row: NamedRow) -> Bucket | None:
    """Make the permits of a key with its limit's rule; None if that has no rate."""
    rate = make_rate(row)
    if rate is None:
        return None
    return Bucket(rate, row.burst or rate.usual_burst, row.level, to_optional_instant(row.level_at))


def make_held(row: NamedRow) -> HeldRun:
    """Make a RUNNING run from the fragment `held_columns`."""
    return HeldRun(
        run_id=RunId(row.id),
        token=row.token,
        job_id=make_job_id(row.job_id),
        version=row.version,
        attempt=row.attempt,
        is_quarantined=bool(row.is_quarantined),
        quarantined_crashes=row.quarantined_crashes,
        is_cancel_requested=bool(row.is_cancel_requested),
        session_id=SessionId(row.session_id),
        started_at=to_instant(row.started_at),
        deadline_at=to_instant(row.deadline_at),
        mark=load_mark(row.preemption),
        trace=row.trace,
    )


def make_live(row: NamedRow) -> LiveRun:
    """Make a live run from the columns of `lock_runs`."""
    return LiveRun(
        state=RunState(row.state),
        token=row.token,
        session_id=row.session_id,
        attempt=row.attempt,
        crashes=row.crashes,
        quarantined_crashes=row.quarantined_crashes,
        is_quarantined=bool(row.is_quarantined),
        is_cancel_requested=bool(row.is_cancel_requested),
        cancel_reason=row.cancel_reason,
    )


def make_run(row: NamedRow) -> Run:
    """Make a run from the columns of the view `any_run`."""
    return Run(
        id=RunId(row.id),
        job_id=make_job_id(row.job_id),
        version=row.version,
        lane=LaneKey(row.queue, row.route, row.tenant, Priority(row.priority)),
        tenant=row.tenant,
        kind=RunKind(row.kind),
        state=RunState(row.state),
        reason=row.reason,
        fire_at=to_optional_instant(row.fire_at),
        due_at=to_instant(row.due_at),
        ready_at=to_instant(row.ready_at),
        created_at=to_instant(row.created_at),
        started_at=to_optional_instant(row.started_at),
        finished_at=to_optional_instant(row.finished_at),
        attempt=row.attempt,
        token=row.token,
        crashes=row.crashes,
        session_id=row.session_id,
        is_cancel_requested=bool(row.is_cancel_requested),
        error=row.error,
        payload=row.payload,
        result=row.result,
        output=row.output,
        idempotency_key=row.target_key,
        fire_range_id=row.fire_range_id,
        redrive_of=row.redrive_of,
        trace=row.trace,
        place=None if row.flow_id is None else StepPlace(RunId(row.flow_id), row.step, row.item),
    )


def make_claimed(row: Row, *, is_repeat: bool) -> ClaimedRun:
    """Make a lease from the fragment `claimed_columns`, `is_cancel_requested` and the tenant.

    Args:
        is_repeat: whether the row was read after its claim. Before the claim, its token is one behind.
    """
    (
        run_id,
        token,
        job_id,
        version,
        attempt,
        fire_at,
        due_at,
        payload,
        key,
        was_quarantined,
        trace,
        is_cancelled,
        tenant,
    ) = row
    return ClaimedRun(
        run_id,
        token if is_repeat else token + 1,
        make_job_id(job_id),
        version,
        attempt,
        to_optional_instant(fire_at),
        to_instant(due_at),
        payload,
        key,
        bool(was_quarantined) and is_repeat,
        trace,
        bool(is_cancelled),
        tenant,
    )


def make_attempt(row: NamedRow) -> Attempt:
    """Make an attempt from the columns of `list_attempts`."""
    instants = {"started_at": to_instant(row.started_at), "finished_at": to_instant(row.finished_at)}
    return Attempt(**row._asdict() | instants)


def make_fire_range(row: NamedRow) -> FireRange:
    """Make a fire range from the fragment `fire_range_columns` and the tenant."""
    return FireRange(
        id=FireRangeId(row.id),
        job_id=make_job_id(row.job_id),
        tenant=row.tenant,
        version=row.version,
        kind=FireRangeKind(row.kind),
        from_at=to_instant(row.from_at),
        to_at=to_optional_instant(row.to_at),
        cursor_at=to_optional_instant(row.cursor_at),
        reason=row.reason,
        is_open=row.closed_at is None,
        created_at=to_instant(row.created_at),
        calendars=tuple((row.calendars or "").split()),
    )


def make_session(row: NamedRow) -> SessionFacts:
    """Make a live session from the columns of `list_sessions`."""
    return SessionFacts(
        id=SessionId(row.id),
        worker=row.worker,
        host=row.host,
        pid=row.pid,
        slots=row.slots,
        queues=tuple(json.loads(row.queues)),
        types=tuple(json.loads(row.types)),
        functions=tuple(json.loads(row.functions)),
        labels=tuple(json.loads(row.labels)),
        beat_period=to_optional_duration(row.beat_period),
        beats=row.beats,
        started_at=to_instant(row.started_at),
        last_beat_at=to_instant(row.last_beat_at),
        tenant=row.tenant,
    )


def make_node(row: NamedRow) -> NodeState:
    """Make a node from the columns of `read_cluster`."""
    return NodeState(
        facts=NodeFacts(id=row.id, host=row.host, pid=row.pid, version=row.version, tzdata=row.tzdata),
        beats=row.beats,
        period=to_optional_duration(row.period),
        refusal=None if row.refusal is None else Refusal(row.refusal),
        started_at=to_instant(row.started_at),
        last_beat_at=to_instant(row.last_beat_at),
        served=row.served,
        is_member=bool(row.is_member),
    )
