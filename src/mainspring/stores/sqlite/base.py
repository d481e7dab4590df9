"""What every part of the SQLite store uses: its queries, and the two lanes that carry calls out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import apsw
from apsw.ext import query_info

from mainspring.core.ids import JobId, RunId, job_shard, make_run_id
from mainspring.core.model import LaneKey
from mainspring.ports.store.nodes import Epochs
from mainspring.ports.store.runs import NewRun
from mainspring.ports.store.schedule import NewFireRange
from mainspring.stores._sql.queries import load_queries
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.rows import NamedRow, Row, to_json, to_micros, to_millis, to_optional_micros

R = TypeVar("R")
Values = Row | Mapping[str, Any]
_NAMES: dict[str, list[str]] = {}
"""The columns of queries, found when they are first asked for."""
SQL = {name: query.text for name, query in load_queries("mainspring.stores.sqlite").items()}


class Part:
    """Base of the store's parts."""

    _writer: Database
    _reader: Database

    def __init__(self) -> None:
        # Known to the writer thread only; emptied when a transaction is rolled back or lanes are pruned.
        self._lane_ids: dict[LaneKey, int] = {}

    async def _write(self, work: Callable[[apsw.Connection], R]) -> R:
        return await self._writer.call(work)

    async def _read(self, work: Callable[[apsw.Connection], R]) -> R:
        return await self._reader.call(work)

    def _lane_id(self, db: apsw.Connection, key: LaneKey) -> int:
        known = self._lane_ids.get(key)
        if known is None:
            values = (key.queue, key.route, key.tenant, int(key.priority))
            row = fetch_first(db, "find_lane", values) or fetch_first(db, "intern_lane", values)
            assert row is not None
            known = self._lane_ids[key] = row[0]
        return known

    def _insert_runs(self, db: apsw.Connection, runs: Sequence[NewRun], now: int) -> list[RunId]:
        """Insert runs as PENDING (or as SKIPPED records) and return their ids in order."""
        if not runs:
            return []
        row = fetch_first(db, "reserve_run_ids", (len(runs),))
        assert row is not None
        ids: list[RunId] = []
        live: list[Row] = []
        skipped: list[Row] = []
        job_id, job, shard = None, b"", 0
        lane, lane_id = None, 0
        for sequence, run in enumerate(runs, row[0] - len(runs) + 1):
            if run.job_id is not job_id:  # a call's runs are mostly of one job and of one lane
                job_id, job, shard = run.job_id, run.job_id.bytes, job_shard(run.job_id)
            run_id = make_run_id(sequence, shard)
            ids.append(run_id)
            if run.skip_reason is not None:
                skipped.append(_skipped_row(run, run_id, job, now))
                continue
            if run.lane is not lane:
                lane, lane_id = run.lane, self._lane_id(db, run.lane)
            live.append(
                (
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
                )
            )
        execute_many(db, "insert_run", live)
        execute_many(db, "insert_skipped", skipped)
        return ids

    def _insert_fire_ranges(self, db: apsw.Connection, fire_ranges: Sequence[NewFireRange], now: int) -> None:
        values = [
            {
                "job_id": fire_range.job_id.bytes,
                "version": fire_range.version,
                "shard": job_shard(fire_range.job_id),
                "kind": fire_range.kind,
                "from_at": to_micros(fire_range.from_at),
                "to_at": to_optional_micros(fire_range.to_at),
                "reason": fire_range.reason,
                "now": now,
            }
            for fire_range in fire_ranges
        ]
        execute_many(db, "add_fire_range", values)

    def _fenced_shards(self, db: apsw.Connection, job_ids: list[JobId], epochs: Epochs) -> set[int]:
        """Return the shards of these jobs for which the writer's epoch is not the store's (law 3)."""
        shards = sorted({job_shard(job_id) for job_id in job_ids})
        current: dict[int, int] = {
            row[0]: row[1] for row in fetch_all(db, "hold_shards", {"shards": to_json(shards)})
        }
        return {shard for shard in shards if epochs.get(shard) != current.get(shard)}


def fetch_all(db: apsw.Connection, name: str, values: Values = ()) -> list[Row]:
    """Return all rows of a query."""
    return cast("list[Row]", db.execute(SQL[name], values).fetchall())


def fetch_named(db: apsw.Connection, name: str, values: Values = ()) -> list[NamedRow]:
    """Return all rows of a query, their columns by name."""
    names = _NAMES.get(name)
    if names is None:
        names = _NAMES[name] = [column[0] for column in query_info(db, SQL[name]).description]
    return [dict(zip(names, row, strict=True)) for row in fetch_all(db, name, values)]


def fetch_first(db: apsw.Connection, name: str, values: Values = ()) -> Row | None:
    """Return the first row of a query, or None."""
    found = fetch_all(db, name, values)
    return found[0] if found else None


def execute(db: apsw.Connection, name: str, values: Values = ()) -> None:
    """Carry out a statement that returns nothing."""
    db.execute(SQL[name], values)


def execute_many(db: apsw.Connection, name: str, values: Sequence[Values]) -> None:
    """Carry out a statement once for each set of values."""
    if values:
        db.executemany(SQL[name], values)


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
    )
