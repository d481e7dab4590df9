"""Converts rows into values, and lists of values into the columns that statements take."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from asyncpg import Record

from mainspring.core.applying import LiveRun
from mainspring.core.clocks import NextFire
from mainspring.core.ids import FireRangeId, JobId, RunId, SessionId, job_shard
from mainspring.core.model import Attempt, FireRange, FireRangeKind, Job, LaneKey, Priority, Run, RunKind
from mainspring.core.preemption import load_mark
from mainspring.core.rates import Bucket, Rate
from mainspring.core.states import RunState
from mainspring.core.workflows.places import StepPlace
from mainspring.ports.codec import decode_spec
from mainspring.ports.store.claims import HeldRun
from mainspring.ports.store.runs import NewRun
from mainspring.ports.store.schedule import NewFireRange
from mainspring.ports.store.sessions import SessionFacts

T = TypeVar("T")

EVER = datetime(1, 1, 1, tzinfo=UTC)
"""Earlier than every instant that a store holds."""

LAST_ID = 2**63 - 1
"""The greatest possible id."""

_MILLISECOND = timedelta(milliseconds=1)


def milliseconds(duration: timedelta) -> int:
    """Return a duration in whole milliseconds, as tables hold it."""
    return duration // _MILLISECOND


def rate_of(row: Record) -> Rate | None:
    """Return the rate of a limit's rule."""
    return None if row["per_count"] is None else Rate(row["per_count"], row["per_ms"] * _MILLISECOND)


def bucket_of(row: Record) -> Bucket | None:
    """Return the permits of a key with its limit's rule; None if that has no rate."""
    rate = rate_of(row)
    if rate is None:
        return None
    return Bucket(rate, row["burst"] or rate.usual_burst, row["level"], row["level_at"])


def job_of(row: Record) -> Job:
    return Job(
        id=row["id"],
        tenant=row["tenant"],
        spec=decode_spec(row["spec"]),
        version=row["version"],
        revision=row["revision"],
        is_paused=row["is_paused"],
        next_fire_at=row["next_fire_at"],
        fired_through=row["fired_through"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        fires_left=row["fires_left"],
        pause_note=row["pause_note"] if row["is_paused"] else None,
        owner=row["owner"],
        undefined_since=row["undefined_since"],
    )


def run_of(row: Record) -> Run:
    return Run(
        id=row["id"],
        job_id=row["job_id"],
        version=row["version"],
        tenant=row["tenant"],
        lane=LaneKey(row["queue"], row["route"], row["tenant"], Priority(row["priority"])),
        kind=RunKind(row["kind"]),
        state=RunState(row["state"]),
        fire_at=row["fire_at"],
        due_at=row["due_at"],
        ready_at=row["ready_at"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        attempt=row["attempt"],
        token=row["token"],
        crashes=row["crashes"],
        session_id=row["session_id"],
        is_cancel_requested=row["is_cancel_requested"],
        reason=row["reason"],
        error=row["error"],
        payload=row["payload"],
        result=row["result"],
        output=row["output"],
        idempotency_key=row["target_key"],
        fire_range_id=row["fire_range_id"],
        redrive_of=row["redrive_of"],
        trace=row["trace"],
        place=None if row["flow_id"] is None else StepPlace(row["flow_id"], row["step"], row["item"]),
    )


def session_of(row: Record) -> SessionFacts:
    return SessionFacts(
        id=SessionId(row["id"]),
        worker=row["worker"],
        host=row["host"],
        pid=row["pid"],
        slots=row["slots"],
        queues=tuple(row["queues"]),
        types=tuple(row["types"]),
        functions=tuple(row["functions"]),
        labels=tuple(row["labels"]),
        beat_period=row["beat_period"],
        beats=row["beats"],
        started_at=row["started_at"],
        last_beat_at=row["last_beat_at"],
        tenant=row["tenant"],
    )


def held_of(row: Record) -> HeldRun:
    return HeldRun(
        run_id=RunId(row["id"]),
        token=row["token"],
        job_id=JobId(row["job_id"]),
        version=row["version"],
        attempt=row["attempt"],
        is_quarantined=row["is_quarantined"],
        quarantined_crashes=row["quarantined_crashes"],
        is_cancel_requested=row["is_cancel_requested"],
        session_id=SessionId(row["session_id"]),
        started_at=row["started_at"],
        deadline_at=row["deadline_at"],
        mark=load_mark(row["preemption"]),
        trace=row["trace"],
    )


def live_of(row: Record) -> LiveRun:
    """Make a live run from the columns of `lock_runs`."""
    return LiveRun(
        state=RunState(row["state"]),
        token=row["token"],
        session_id=row["session_id"],
        attempt=row["attempt"],
        crashes=row["crashes"],
        quarantined_crashes=row["quarantined_crashes"],
        is_quarantined=row["is_quarantined"],
        is_cancel_requested=row["is_cancel_requested"],
        cancel_reason=row["cancel_reason"],
    )


def attempt_of(row: Record) -> Attempt:
    return Attempt(**dict(row))


def fire_range_of(row: Record) -> FireRange:
    return FireRange(
        id=FireRangeId(row["id"]),
        job_id=row["job_id"],
        tenant=row["tenant"],
        version=row["version"],
        kind=FireRangeKind(row["kind"]),
        from_at=row["from_at"],
        to_at=row["to_at"],
        cursor_at=row["cursor_at"],
        reason=row["reason"],
        is_open=row["closed_at"] is None,
        created_at=row["created_at"],
        calendars=tuple((row["calendars"] or "").split()),
    )


def sparse(column: list[T]) -> list[T]:
    """Return an empty column if all of its values are None: `unnest` fills short arrays up with NULL."""
    return [] if column.count(None) == len(column) else column  # type: ignore[arg-type] # None is what is counted


def common(column: list[T]) -> list[T]:
    """Return only the first value of a column if all are the same: the statement fills the column up."""
    return column[:1] if column.count(column[0]) == len(column) else column


def columns_of_lanes(lanes: Sequence[LaneKey]) -> dict[str, list[Any]]:
    return {
        "queues": [lane.queue for lane in lanes],
        "routes": [lane.route for lane in lanes],
        "tenants": [lane.tenant for lane in lanes],
        "priorities": [int(lane.priority) for lane in lanes],
    }


def columns_of_runs(runs: Sequence[NewRun]) -> dict[str, Any]:
    """Return the columns of runs (at least one) that `submit_runs` and `insert_runs` take, except their lanes."""
    job_ids = common([run.job_id for run in runs])
    return {
        "count": len(runs),
        "shards": [run.shard for run in runs[: len(job_ids)]],
        "job_ids": job_ids,
        "versions": common([run.version for run in runs]),
        "kinds": common([run.kind for run in runs]),
        "fires_at": sparse([run.fire_at for run in runs]),
        "dues_at": common([run.due_at for run in runs]),
        "expiries_at": sparse([run.expires_at for run in runs]),
        "timeouts_ms": [timeout // _MILLISECOND for timeout in common([run.timeout for run in runs])],
        "payloads": sparse([run.payload for run in runs]),
        "target_keys": sparse([run.target_key for run in runs]),
        "fire_range_ids": sparse([run.fire_range_id for run in runs]),
        "traces": sparse([run.trace for run in runs]),
    }


def values_of_run(run: NewRun) -> dict[str, Any]:
    """Return what `submit_one` and `submit_claimed` take of a run, except its lane."""
    return {
        "shard": run.shard,
        "job_id": run.job_id,
        "version": run.version,
        "newest_version": run.version if run.must_be_newest else None,
        "kind": run.kind,
        "fire_at": run.fire_at,
        "due_at": run.due_at,
        "expires_at": run.expires_at,
        "timeout_ms": milliseconds(run.timeout),
        "payload": run.payload,
        "target_key": run.target_key,
        "fire_range_id": run.fire_range_id,
        "trace": run.trace,
    }


def columns_of_next_fires(next_fires: Sequence[NextFire | None]) -> dict[str, list[datetime | None]]:
    return {
        "next_fires_at": [None if one is None else one.fire_at for one in next_fires],
        "dues_at": [None if one is None else one.due_at for one in next_fires],
    }


def columns_of_fire_ranges(fire_ranges: Sequence[NewFireRange]) -> dict[str, list[Any]]:
    return {
        "job_ids": [fire_range.job_id for fire_range in fire_ranges],
        "versions": [fire_range.version for fire_range in fire_ranges],
        "shards": [job_shard(fire_range.job_id) for fire_range in fire_ranges],
        "kinds": [fire_range.kind for fire_range in fire_ranges],
        "froms_at": [fire_range.from_at for fire_range in fire_ranges],
        "tos_at": [fire_range.to_at for fire_range in fire_ranges],
        "reasons": [fire_range.reason for fire_range in fire_ranges],
        "calendars": [" ".join(fire_range.calendars) or None for fire_range in fire_ranges],
    }
