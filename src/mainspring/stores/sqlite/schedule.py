"""Fires and fire ranges, on SQLite."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

import apsw

from mainspring.core.admission import OVERLAP
from mainspring.core.clocks import NextFire
from mainspring.core.ids import FireRangeId, JobId, RunId, job_shard
from mainspring.core.model import FireRange, Overlap, Priority
from mainspring.core.overlap import LiveOfJob, judge_overlap
from mainspring.ports.codec import decode_outline
from mainspring.ports.store.events import EventStart
from mainspring.ports.store.nodes import Epochs
from mainspring.ports.store.runs import NewRun
from mainspring.ports.store.schedule import (
    NO_FIRE_RANGE,
    CatchUpWork,
    DueClock,
    Fire,
    FireRangeStep,
    FireResult,
    FireStatus,
    NewFireRange,
    outlined_run,
)
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.inserts import InternedLanes, insert_fire_ranges, insert_runs
from mainspring.stores.sqlite.rows import (
    Row,
    make_fire_range,
    make_job_id,
    to_instant,
    to_json,
    to_micros,
    to_optional_instant,
    to_optional_micros,
    values_of_next_fire,
)
from mainspring.stores.sqlite.runs import cancel_run
from mainspring.stores.sqlite.statements import execute, fetch_rows, fetch_tuples, fetch_value

T = TypeVar("T", Fire, FireRangeStep)

_EARLIEST = -(2**62)


class SqliteScheduleStore:
    """Implements `ScheduleStore`."""

    _browser: Database
    _reader: Database
    _writer: Database
    _lane_ids: InternedLanes

    async def read_due(
        self, shards: Sequence[int], *, until: datetime, limit: int, since: datetime | None = None
    ) -> list[DueClock]:
        """See `ScheduleStore`."""
        values = {
            "shards": to_json(list(shards)),
            "since": _EARLIEST if since is None else to_micros(since),
            "until": to_micros(until),
            "limit": limit,
        }

        def read(db: apsw.Connection) -> list[Row]:
            return [
                row
                for priority in Priority
                for row in fetch_tuples(db, "read_due", values | {"priority": priority.value})
            ]

        return [_due_clock(*row) for row in await self._reader.call(read)]

    async def record_fires(self, fires: Sequence[Fire], *, epochs: Epochs, now: datetime) -> list[FireResult]:
        """See `ScheduleStore`."""
        return await self._fenced(fires, epochs, to_micros(now), self._fire)

    def _fire(self, db: apsw.Connection, fire: Fire, now: int) -> FireResult:
        if not _win(db, fire, fire.next_fire, fire.fired_through):
            return FireResult(FireStatus.LOST)
        insert_fire_ranges(db, fire.fire_ranges, now)
        return insert_planned(db, self._lane_ids, fire, now)

    async def fire_outlined(
        self, clocks: Sequence[DueClock], *, epochs: Epochs, now: datetime
    ) -> list[FireResult]:
        """See `ScheduleStore`."""
        if not clocks:
            return []
        runs = [outlined_run(clock) for clock in clocks]
        at = to_micros(now)

        def work(db: apsw.Connection) -> list[FireResult]:
            fenced = find_fenced_shards(db, [clock.job_id for clock in clocks], epochs)
            won: list[NewRun] = []
            results: list[FireResult | None] = []
            for clock, run in zip(clocks, runs, strict=True):
                if job_shard(clock.job_id) in fenced:
                    results.append(FireResult(FireStatus.FENCED))
                elif not _win(db, clock, None, clock.fire_at):
                    results.append(FireResult(FireStatus.LOST))
                else:
                    results.append(None)
                    won.append(run)
            ids = iter(insert_runs(db, self._lane_ids, won, at))
            return [
                FireResult(FireStatus.FIRED, (next(ids),)) if result is None else result for result in results
            ]

        return await self._writer.call(work)

    async def advance_fire_ranges(
        self, steps: Sequence[FireRangeStep], *, epochs: Epochs, now: datetime
    ) -> list[FireResult]:
        """See `ScheduleStore`."""
        return await self._fenced(steps, epochs, to_micros(now), self._advance)

    def _advance(self, db: apsw.Connection, step: FireRangeStep, now: int) -> FireResult:
        values = {
            "fire_range_id": step.fire_range_id,
            "cursor_from": to_optional_micros(step.cursor_from),
            "cursor_to": to_micros(step.cursor_to),
            "is_done": step.is_done,
            "now": now,
        }
        if fetch_value(db, "advance_fire_range", values) is None:
            return FireResult(FireStatus.LOST)
        level_at = to_optional_micros(step.level_at)
        execute(db, "keep_permits", {"job_id": step.job_id.bytes, "level": step.level, "level_at": level_at})
        return insert_planned(db, self._lane_ids, step, now)

    async def _fenced(
        self,
        writes: Sequence[T],
        epochs: Epochs,
        now: int,
        verb: Callable[[apsw.Connection, T, int], FireResult],
    ) -> list[FireResult]:
        if not writes:
            return []

        def work(db: apsw.Connection) -> list[FireResult]:
            fenced = find_fenced_shards(db, [write.job_id for write in writes], epochs)
            return [
                FireResult(FireStatus.FENCED) if job_shard(write.job_id) in fenced else verb(db, write, now)
                for write in writes
            ]

        return await self._writer.call(work)

    async def add_fire_ranges(self, fire_ranges: Sequence[NewFireRange], *, now: datetime) -> None:
        """See `ScheduleStore`."""
        if fire_ranges:
            await self._writer.call(lambda db: insert_fire_ranges(db, list(fire_ranges), to_micros(now)))

    async def read_fire_ranges(
        self, shards: Sequence[int], *, after: FireRangeId = NO_FIRE_RANGE, limit: int
    ) -> list[CatchUpWork]:
        """See `ScheduleStore`."""
        values = {"shards": to_json(list(shards)), "after": after, "limit": limit}
        rows = await self._reader.call(lambda db: fetch_rows(db, "read_fire_ranges", values))
        return [
            CatchUpWork(
                fire_range=make_fire_range(row),
                newest=row.newest,
                level=row.level,
                level_at=to_optional_instant(row.level_at),
                live=row.live,
            )
            for row in rows
        ]

    async def list_fire_ranges(self, job_id: JobId, *, limit: int = 100) -> list[FireRange]:
        """See `ScheduleStore`."""
        values = {"job_id": job_id.bytes, "limit": limit}
        rows = await self._browser.call(lambda db: fetch_rows(db, "list_fire_ranges", values))
        return [make_fire_range(row) for row in rows]


def insert_planned(
    db: apsw.Connection, lane_ids: InternedLanes, plan: Fire | FireRangeStep | EventStart, now: int
) -> FireResult:
    """Insert the runs of a fire, of a fire range's step, or of an event, and cancel what has to make way for them."""
    runs: Sequence[NewRun] = plan.runs
    cancels: tuple[RunId, ...] = ()
    if runs and plan.overlap is not Overlap.ALLOW:
        live = _read_live(db, plan.job_id, plan.overlap, now)
        judged = judge_overlap(plan.overlap, [(run.fire_at, run.skip_reason) for run in runs], live)
        cancels = judged.cancels
        for run_id in cancels:
            cancel_run(db, run_id, OVERLAP, now)
        runs = [
            run if run.skip_reason == reason else replace(run, skip_reason=reason)
            for run, reason in zip(runs, judged.reasons, strict=True)
        ]
    ids = insert_runs(db, lane_ids, runs, now)
    went_live = (run_id for run_id, run in zip(ids, runs, strict=True) if run.skip_reason is None)
    return FireResult(FireStatus.FIRED, tuple(went_live), cancels)


def _due_clock(
    job_id: bytes,
    tenant: str,
    version: int,
    priority: int,
    revision: int,
    fire_at: int,
    due_at: int,
    fired_through: int | None,
    run_outline: str | None,
    fires_left: int | None,
) -> DueClock:
    """Make a clock from the columns of `read_due`."""
    return DueClock(
        job_id=make_job_id(job_id),
        tenant=tenant,
        version=version,
        priority=Priority(priority),
        revision=revision,
        fire_at=to_instant(fire_at),
        due_at=to_instant(due_at),
        fired_through=to_optional_instant(fired_through),
        outline=decode_outline(run_outline, version),
        fires_left=fires_left,
    )


def _win(
    db: apsw.Connection, clock: Fire | DueClock, next_fire: NextFire | None, fired_through: datetime
) -> bool:
    """Move a clock on from its fire, if it still stands there (law 2)."""
    values = {
        "job_id": clock.job_id.bytes,
        "revision": clock.revision,
        "fire_at": to_micros(clock.fire_at),
        **values_of_next_fire(next_fire),
        "fired_through": to_micros(fired_through),
        "fires_left": clock.fires_left,
    }
    return fetch_value(db, "fire_clock", values) is not None


def _read_live(db: apsw.Connection, job_id: JobId, overlap: Overlap, now: int) -> LiveOfJob:
    """Return what an overlap policy asks for."""
    job = {"job_id": job_id.bytes}
    if overlap is Overlap.SKIP:
        return LiveOfJob(is_any=fetch_value(db, "find_busy_job", job) is not None)
    if overlap is Overlap.QUEUE_ONE:
        waiting = fetch_value(db, "find_waiting_job", {**job, "now": now})
        return LiveOfJob(is_any_waiting=waiting is not None)
    if overlap is Overlap.CANCEL_RUNNING:
        rows = fetch_rows(db, "list_live_of_job", job)
        return LiveOfJob(runs=tuple((RunId(row.id), to_optional_instant(row.fire_at)) for row in rows))
    return LiveOfJob()


def find_fenced_shards(db: apsw.Connection, job_ids: Sequence[JobId], epochs: Epochs) -> set[int]:
    """Return the shards of these jobs that the writer owns no longer: its epoch is not the store's (law 3)."""
    return find_fenced(db, map(job_shard, job_ids), epochs)


def find_fenced(db: apsw.Connection, shards: Iterable[int], epochs: Epochs) -> set[int]:
    """Return those of these shards that the writer owns no longer: its epoch is not the store's (law 3)."""
    looked = sorted(set(shards))
    rows = fetch_rows(db, "hold_shards", {"shards": to_json(looked)})
    current: dict[int, int] = {row.shard: row.epoch for row in rows}
    return {shard for shard in looked if epochs.get(shard) != current.get(shard)}
