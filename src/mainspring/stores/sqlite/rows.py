"""Between rows of SQLite and the model: instants are microseconds, ids of jobs are 16 bytes, lists are JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

import msgspec

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
from mainspring.core.settlement import LiveRun
from mainspring.core.shards import Refusal
from mainspring.core.states import RunState
from mainspring.ports.codec import decode_spec
from mainspring.ports.store.claims import HeldRun
from mainspring.ports.store.nodes import NodeFacts, NodeState
from mainspring.ports.store.sessions import SessionFacts

Row = tuple[Any, ...]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_micros(instant: datetime) -> int:
    """Return an instant as microseconds since 1970."""
    since = instant - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def to_optional_micros(instant: datetime | None) -> int | None:
    """Return the same, or None for None."""
    return None if instant is None else to_micros(instant)


def to_instant(micros: int) -> datetime:
    """Return the instant of so many microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=micros)


def to_optional_instant(micros: int | None) -> datetime | None:
    """Return the same, or None for None."""
    return None if micros is None else _EPOCH + timedelta(microseconds=micros)


def count_micros(duration: timedelta | None) -> int | None:
    """Return a duration in whole microseconds, or None for None."""
    return None if duration is None else duration // timedelta(microseconds=1)


def to_optional_duration(micros: int | None) -> timedelta | None:
    """Return the duration of so many microseconds, or None for None."""
    return None if micros is None else timedelta(microseconds=micros)


@lru_cache(maxsize=1024)
def to_millis(duration: timedelta) -> int:
    """Return a duration in whole milliseconds, rounded up, so that no limit gets shorter."""
    return -(-duration // timedelta(milliseconds=1))


def to_json(values: Any) -> str:
    """Return a list, or an object, as the one JSON parameter that `json_each` takes apart."""
    return msgspec.json.encode(values).decode()


def to_hexes(job_ids: Sequence[JobId]) -> str:
    """Return ids of jobs as a JSON list of hexadecimal text, for `unhex`."""
    return to_json([job_id.hex for job_id in job_ids])


@lru_cache(maxsize=16384)
def make_job_id(blob: bytes) -> JobId:
    """Return a job's id."""
    return JobId(UUID(bytes=blob))


def make_job(row: Row) -> Job:
    """Make a job from the columns of `get_jobs`."""
    return Job(
        id=make_job_id(row[0]),
        tenant=row[1],
        spec=decode_spec(row[2]),
        version=row[3],
        revision=row[4],
        is_paused=bool(row[5]),
        next_fire_at=to_optional_instant(row[6]),
        fired_through=to_optional_instant(row[7]),
        created_at=to_instant(row[8]),
        updated_at=to_instant(row[9]),
    )


def make_lane(row: Row) -> Lane:
    """Make a lane from the columns of `read_lanes`."""
    return Lane(
        id=LaneId(row[0]),
        key=LaneKey(row[1], row[2], row[3], Priority(row[4])),
        earliest_ready_at=to_optional_instant(row[5]),
        earliest_quarantined_at=to_optional_instant(row[6]),
    )


def make_held(row: Row) -> HeldRun:
    """Make the facts of a RUNNING run from the columns of `read_held`."""
    return HeldRun(
        run_id=RunId(row[0]),
        token=row[1],
        job_id=make_job_id(row[2]),
        version=row[3],
        attempt=row[4],
        is_quarantined=bool(row[5]),
        quarantined_crashes=row[6],
        is_cancel_requested=bool(row[7]),
        session_id=SessionId(row[8]),
        started_at=to_instant(row[9]),
        deadline_at=to_instant(row[10]),
    )


def make_live(row: Row) -> LiveRun:
    """Make a live run from the columns of `lock_runs` after the first."""
    return LiveRun(
        state=RunState(row[1]),
        token=row[2],
        session_id=None if row[3] is None else SessionId(row[3]),
        attempt=row[4],
        crashes=row[5],
        quarantined_crashes=row[6],
        is_quarantined=bool(row[7]),
        is_cancel_requested=bool(row[8]),
        cancel_reason=row[9],
    )


def make_run(row: Row) -> Run:
    """Make a run from the columns of the view `any_run`."""
    return Run(
        id=RunId(row[0]),
        job_id=make_job_id(row[1]),
        version=row[2],
        lane=LaneKey(row[3], row[4], row[5], Priority(row[6])),
        tenant=row[5],
        kind=RunKind(row[7]),
        state=RunState(row[8]),
        reason=row[9],
        fire_at=to_optional_instant(row[10]),
        due_at=to_instant(row[11]),
        ready_at=to_instant(row[12]),
        created_at=to_instant(row[13]),
        started_at=to_optional_instant(row[14]),
        finished_at=to_optional_instant(row[15]),
        attempt=row[16],
        token=row[17],
        crashes=row[18],
        session_id=None if row[19] is None else SessionId(row[19]),
        is_cancel_requested=bool(row[20]),
        error=row[21],
        payload=row[22],
        result=row[23],
        output=row[24],
        idempotency_key=row[25],
        fire_range_id=None if row[26] is None else FireRangeId(row[26]),
        redrive_of=None if row[27] is None else RunId(row[27]),
    )


def make_attempt(row: Row) -> Attempt:
    """Make an attempt from its columns."""
    return Attempt(
        run_id=RunId(row[0]),
        token=row[1],
        number=row[2],
        outcome=row[3],
        worker=row[4],
        started_at=to_instant(row[5]),
        finished_at=to_instant(row[6]),
        error=row[7],
        output=row[8],
    )


def make_fire_range(row: Row) -> FireRange:
    """Make a fire range from the columns of `read_fire_ranges`."""
    return FireRange(
        id=FireRangeId(row[0]),
        job_id=make_job_id(row[1]),
        tenant=row[2],
        version=row[3],
        kind=FireRangeKind(row[4]),
        from_at=to_instant(row[5]),
        to_at=to_optional_instant(row[6]),
        cursor_at=to_optional_instant(row[7]),
        reason=row[8],
        is_open=bool(row[9]),
        created_at=to_instant(row[10]),
    )


def make_session(row: Row) -> SessionFacts:
    """Make a live session from the columns of `list_sessions`."""
    return SessionFacts(
        id=SessionId(row[0]),
        worker=row[1],
        host=row[2],
        pid=row[3],
        slots=row[4],
        queues=tuple(json.loads(row[5])),
        types=tuple(json.loads(row[6])),
        functions=tuple(json.loads(row[7])),
        labels=tuple(json.loads(row[8])),
        beat_period=to_optional_duration(row[9]),
        beats=row[10],
        started_at=to_instant(row[11]),
        last_beat_at=to_instant(row[12]),
    )


def make_node(row: Row) -> NodeState:
    """Make a node from the columns of `read_cluster` after the first."""
    return NodeState(
        facts=NodeFacts(id=row[0], host=row[1], pid=row[2], version=row[3], tzdata=row[4]),
        beats=row[5],
        period=to_optional_duration(row[6]),
        refusal=None if row[7] is None else Refusal(row[7]),
        started_at=to_instant(row[8]),
        last_beat_at=to_instant(row[9]),
    )
