"""Inserts runs and fire ranges, for submissions, fires, steps of fire ranges and changes of jobs."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from mainspring.core.ids import RunId, SessionId, job_shard, make_run_id
from mainspring.core.model import LaneKey
from mainspring.ports.store.runs import NewRun
from mainspring.ports.store.schedule import NewFireRange
from mainspring.stores.sqlite.keys import intern_keys
from mainspring.stores.sqlite.rows import Row, to_micros, to_millis, to_optional_micros
from mainspring.stores.sqlite.statements import execute, execute_many, fetch_value


class InternedLanes:
    """The ids of lanes, once interned. Only the writer thread uses it.

    Clear it when a transaction is rolled back, and when lanes are pruned.
    """

    def __init__(self) -> None:
        self._ids: dict[LaneKey, int] = {}

    def intern(self, db: apsw.Connection, key: LaneKey) -> int:
        """Return a lane's id; insert the lane if it does not exist."""
        known = self._ids.get(key)
        if known is None:
            values = (key.queue, key.route, key.tenant, int(key.priority))
            known = fetch_value(db, "find_lane", values)
            if known is None:
                known = fetch_value(db, "intern_lane", values)
            self._ids[key] = known
        return known

    def find(self, db: apsw.Connection, key: LaneKey) -> int | None:
        """Return a lane's id; None if the lane does not exist."""
        known = self._ids.get(key)
        if known is None:
            known = fetch_value(db, "find_lane", (key.queue, key.route, key.tenant, int(key.priority)))
        return known

    def clear(self) -> None:
        """Forget all ids."""
        self._ids.clear()


def insert_claimed(
    db: apsw.Connection, lane_id: int, run: NewRun, now: int, *, session_id: SessionId, number: int
) -> RunId:
    """Insert a run as RUNNING, and return its id."""
    run_id = make_run_id(fetch_value(db, "reserve_run_ids", (1,)), run.shard)
    row = _live_row(run, run_id, run.job_id.bytes, lane_id, now)
    execute(db, "submit_claimed", (*row, session_id, number))
    return run_id


def insert_runs(
    db: apsw.Connection, lane_ids: InternedLanes, runs: Sequence[NewRun], now: int
) -> list[RunId]:
    """Insert runs as PENDING, or as SKIPPED records if they have a reason, and return their ids in order."""
    if not runs:
        return []
    last = fetch_value(db, "reserve_run_ids", (len(runs),))
    ids: list[RunId] = []
    live: list[Row] = []
    skipped: list[Row] = []
    job_id, job, shard, lane, lane_id = None, b"", 0, None, 0
    for sequence, run in enumerate(runs, last - len(runs) + 1):
        if run.job_id is not job_id:  # most calls insert runs of one job and one lane
            job_id, job, shard = run.job_id, run.job_id.bytes, run.shard
        run_id = make_run_id(sequence, shard)
        ids.append(run_id)
        if run.skip_reason is not None:
            skipped.append(_skipped_row(run, run_id, job, now))
            continue
        if run.lane is not lane:
            lane, lane_id = run.lane, lane_ids.intern(db, run.lane)
        row = _live_row(run, run_id, job, lane_id, now)
        if run.keys:
            execute(db, "insert_lined_up", (*row, *intern_keys(db, run)))
        else:
            live.append(row)
    execute_many(db, "insert_run", live)
    execute_many(db, "insert_skipped", skipped)
    return ids


def insert_steps(db: apsw.Connection, lane_ids: InternedLanes, runs: Sequence[NewRun], now: int) -> None:
    """Insert runs of steps."""
    if not runs:
        return
    last = fetch_value(db, "reserve_run_ids", (len(runs),))
    rows: list[Row] = []
    for sequence, run in enumerate(runs, last - len(runs) + 1):
        run_id = make_run_id(sequence, run.shard)
        row = _live_row(run, run_id, run.job_id.bytes, lane_ids.intern(db, run.lane), now)
        assert run.place is not None
        keys = intern_keys(db, run) if run.keys else (None, None, None)
        rows.append((*row, run.place.flow_id, run.place.step, run.place.item, *keys))
    execute_many(db, "insert_step", rows)


def _live_row(run: NewRun, run_id: RunId, job: bytes, lane_id: int, now: int) -> Row:
    return (
        run_id,
        job,
        run.version,
        lane_id,
        run.kind,
        to_optional_micros(run.fire_at),
        to_micros(run.due_at),
        now,
        to_optional_micros(run.expires_at),
        to_millis(run.timeout),
        run.payload,
        run.target_key,
        run.fire_range_id,
        run.trace,
    )


def _skipped_row(run: NewRun, run_id: RunId, job: bytes, now: int) -> Row:
    lane = run.lane
    return (
        run_id,
        job,
        run.version,
        lane.queue,
        lane.route,
        lane.tenant,
        int(lane.priority),
        run.kind,
        run.skip_reason,
        to_optional_micros(run.fire_at),
        to_micros(run.due_at),
        now,
        run.payload,
        run.target_key,
        run.fire_range_id,
        run.trace,
    )


def insert_fire_ranges(db: apsw.Connection, fire_ranges: Sequence[NewFireRange], now: int) -> None:
    """Insert fire ranges; gaps that have an end are inserted as finished records."""
    values = [
        {
            "job_id": fire_range.job_id.bytes,
            "version": fire_range.version,
            "shard": job_shard(fire_range.job_id),
            "kind": fire_range.kind,
            "from_at": to_micros(fire_range.from_at),
            "to_at": to_optional_micros(fire_range.to_at),
            "reason": fire_range.reason,
            "calendars": " ".join(fire_range.calendars) or None,
            "now": now,
        }
        for fire_range in fire_ranges
    ]
    execute_many(db, "add_fire_range", values)
