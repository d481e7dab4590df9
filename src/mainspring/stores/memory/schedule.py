"""Fires and fire ranges."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from uuid import UUID

from mainspring.core.clocks import wins_fire
from mainspring.core.ids import FireRangeId, JobId, job_shard
from mainspring.core.model import FireRange, FireRangeKind
from mainspring.core.outlines import outline_of
from mainspring.ports.store.nodes import Epochs
from mainspring.ports.store.schedule import (
    NO_FIRE_RANGE,
    CatchUpWork,
    DueClock,
    Fire,
    FireRangeStep,
    FireResult,
    FireStatus,
    NewFireRange,
    fire_of,
)
from mainspring.stores.memory.rows import FireRangeRow, JobRow
from mainspring.stores.memory.tables import Tables

_LOST = FireResult(FireStatus.LOST)
_FENCED = FireResult(FireStatus.FENCED)
_LAST_UUID = UUID(int=2**128 - 1)


class MemoryScheduleStore:
    """`ScheduleStore` in memory."""

    _tables: Tables

    async def read_due(
        self, shards: Sequence[int], *, until: datetime, limit: int, since: datetime | None = None
    ) -> list[DueClock]:
        tables = self._tables
        wanted = frozenset(shards)
        low = None if since is None else (since,)
        found: list[DueClock] = []
        for index in tables.due.values():
            jobs = (tables.jobs[JobId(uuid)] for _, uuid in index.between(low, (until, _LAST_UUID)))
            found += islice((_due_clock(job) for job in jobs if job_shard(job.id) in wanted), limit)
        return found

    async def record_fires(self, fires: Sequence[Fire], *, epochs: Epochs, now: datetime) -> list[FireResult]:
        return [self._record_fire(fire, epochs, now) for fire in fires]

    def _record_fire(self, fire: Fire, epochs: Epochs, now: datetime) -> FireResult:
        tables = self._tables
        if tables.is_fenced(fire.job_id, epochs):
            return _FENCED
        job = tables.jobs.get(fire.job_id)
        if job is None or not wins_fire(
            job, revision=fire.revision, fire_at=fire.fire_at, fired_through=job.fired_through
        ):
            return _LOST
        tables.set_next_fire(job, fire.next_fire)
        job.fired_through = fire.fired_through
        job.fires_left = fire.fires_left
        for fire_range in fire.fire_ranges:
            tables.add_fire_range(fire_range, now=now)
        return tables.insert_planned(fire.runs, fire.overlap, now=now)

    async def fire_outlined(
        self, clocks: Sequence[DueClock], *, epochs: Epochs, now: datetime
    ) -> list[FireResult]:
        return [self._record_fire(fire_of(clock), epochs, now) for clock in clocks]

    async def add_fire_ranges(self, fire_ranges: Sequence[NewFireRange], *, now: datetime) -> None:
        for fire_range in fire_ranges:
            self._tables.add_fire_range(fire_range, now=now)

    async def read_fire_ranges(
        self, shards: Sequence[int], *, after: FireRangeId = NO_FIRE_RANGE, limit: int
    ) -> list[CatchUpWork]:
        wanted = frozenset(shards)
        jobs = self._tables.jobs
        oldest: dict[JobId, FireRangeRow] = {}
        for fire_range in self._tables.open_fire_ranges.values():
            if fire_range.kind is not FireRangeKind.GAP:
                oldest.setdefault(fire_range.job_id, fire_range)
        found = (
            self._view_work(jobs[fire_range.job_id], fire_range)
            for fire_range in oldest.values()
            if fire_range.id > after
            and fire_range.shard in wanted
            and fire_range.job_id in jobs
            and not jobs[fire_range.job_id].is_paused
        )
        return list(islice(found, limit))

    def _view_work(self, job: JobRow, fire_range: FireRangeRow) -> CatchUpWork:
        return CatchUpWork(
            fire_range=fire_range.view(),
            newest=job.version,
            level=job.level,
            level_at=job.level_at,
            live=self._tables.backfills.caught_up[job.id],
        )

    async def advance_fire_ranges(
        self, steps: Sequence[FireRangeStep], *, epochs: Epochs, now: datetime
    ) -> list[FireResult]:
        return [self._advance_fire_range(step, epochs, now) for step in steps]

    def _advance_fire_range(self, step: FireRangeStep, epochs: Epochs, now: datetime) -> FireResult:
        tables = self._tables
        if tables.is_fenced(step.job_id, epochs):
            return _FENCED
        job = tables.jobs.get(step.job_id)
        fire_range = tables.open_fire_ranges.get(step.fire_range_id)
        if job is None or job.is_paused or fire_range is None or fire_range.cursor_at != step.cursor_from:
            return _LOST
        fire_range.cursor_at = step.cursor_to
        job.level, job.level_at = step.level, step.level_at
        if step.is_done:
            tables.close_fire_range(fire_range, now=now)
        return tables.insert_planned(step.runs, step.overlap, now=now)

    async def list_fire_ranges(self, job_id: JobId, *, limit: int = 100) -> list[FireRange]:
        fire_ranges = self._tables.fire_ranges_of_job.get(job_id, [])
        return [fire_range.view() for fire_range in islice(reversed(fire_ranges), limit)]


def _due_clock(job: JobRow) -> DueClock:
    assert job.next_fire is not None, "a clock without a next fire is not in the index"
    return DueClock(
        job_id=job.id,
        tenant=job.tenant,
        version=job.version,
        priority=job.spec.priority,
        revision=job.revision,
        fire_at=job.next_fire.fire_at,
        due_at=job.next_fire.due_at,
        fired_through=job.fired_through,
        outline=outline_of(job.spec, job.version),
        fires_left=job.fires_left,
    )
