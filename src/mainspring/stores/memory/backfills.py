"""Backfills and their steps."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from itertools import islice

from mainspring.core.audit import AuditEntry
from mainspring.core.backfill import (
    CHANGEABLE,
    Backfill,
    BackfillChange,
    BackfillState,
    BackfillWork,
    VersionTime,
)
from mainspring.core.ids import BackfillId, JobId, RunId, job_shard
from mainspring.core.model import FireRangeKind
from mainspring.core.states import LIVE_STATES, READY_STATES, RunState
from mainspring.ports.store.backfills import (
    AddedBackfill,
    BackfillStep,
    FiresOfRuns,
    NewBackfill,
)
from mainspring.ports.store.nodes import Epochs
from mainspring.ports.store.schedule import FireResult, FireStatus, NewFireRange
from mainspring.stores.memory.audit import write_audit
from mainspring.stores.memory.rows import BackfillRow, FireRangeRow, RunRow
from mainspring.stores.memory.tables import Tables

_LOST = FireResult(FireStatus.LOST)
_FENCED = FireResult(FireStatus.FENCED)
_CLOSED = frozenset({BackfillState.DONE, BackfillState.CANCELLED})


class MemoryBackfillStore:
    """`BackfillStore` in memory."""

    _tables: Tables

    async def list_version_times(self, job_id: JobId) -> list[VersionTime]:
        times = self._tables.backfills.version_times.get(job_id, [])
        return [VersionTime(version, at) for version, at in enumerate(times, 1)]

    async def read_fires_of_runs(
        self,
        job_id: JobId,
        *,
        from_at: datetime,
        to_at: datetime,
        states: Collection[RunState],
        after: RunId,
        limit: int,
    ) -> FiresOfRuns:
        tables = self._tables
        keys = islice(tables.runs_of_job[job_id].above((after,)), limit)
        runs = [tables.runs[key[0]] for key in keys]
        fires = frozenset(
            run.fire_at
            for run in runs
            if run.fire_at is not None and from_at <= run.fire_at <= to_at and run.state in states
        )
        return FiresOfRuns(fires, runs[-1].id if runs else None)

    async def add_backfill(
        self, new: NewBackfill, *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> AddedBackfill:
        tables = self._tables
        if new.job_id not in tables.jobs:
            return AddedBackfill(is_added=False)
        for other in tables.backfills.rows.values():
            if (
                other.new.job_id == new.job_id
                and other.state not in _CLOSED
                and other.new.from_at < new.to_at
                and other.new.to_at > new.from_at
            ):
                return AddedBackfill(is_added=False, other=other.new.id)
        sections = [
            tables.add_section(
                NewFireRange(
                    job_id=new.job_id,
                    version=section.version,
                    kind=FireRangeKind.BACKFILL,
                    from_at=section.from_at,
                    to_at=section.to_at,
                    reason="backfill",
                ),
                now=now,
            ).id
            for section in new.sections
        ]
        tables.backfills.rows[new.id] = BackfillRow(
            new=new, state=BackfillState.OPEN, sections=sections, created_at=now
        )
        write_audit(tables, audit, [True])
        return AddedBackfill(is_added=True)

    async def get_backfills(self, backfill_ids: Sequence[BackfillId]) -> list[Backfill | None]:
        rows = (self._tables.backfills.rows.get(backfill_id) for backfill_id in backfill_ids)
        return [None if row is None else self._view_backfill(row) for row in rows]

    async def list_backfills(
        self,
        tenant: str,
        *,
        job_id: JobId | None = None,
        before: BackfillId | None = None,
        limit: int = 100,
    ) -> list[Backfill]:
        found = [
            row
            for row in self._tables.backfills.rows.values()
            if row.new.tenant == tenant
            and (job_id is None or row.new.job_id == job_id)
            and (before is None or row.new.id < before)
        ]
        newest = sorted(found, key=lambda row: row.new.id, reverse=True)
        return [self._view_backfill(row) for row in newest[:limit]]

    async def change_backfill(
        self,
        backfill_id: BackfillId,
        change: BackfillChange,
        *,
        now: datetime,
        audit: Sequence[AuditEntry] = (),
    ) -> bool:
        row = self._tables.backfills.rows.get(backfill_id)
        if row is None or row.new.job_id not in self._tables.jobs or row.state not in CHANGEABLE[change]:
            return False
        is_change = row.state is not change.leads_to
        row.state = change.leads_to
        if row.state is BackfillState.CANCELLED:
            row.closed_at = row.closed_at or now
            for section in self._sections_of(row):
                if section.is_open:
                    section.closed_at = now
        write_audit(self._tables, audit, [is_change])
        return True

    async def list_waiting_of_backfill(self, backfill_id: BackfillId, *, limit: int) -> list[RunId]:
        row = self._tables.backfills.rows.get(backfill_id)
        runs = () if row is None else self._live_of_backfill(row)
        return [run.id for run in islice((run for run in runs if run.state in READY_STATES), limit)]

    async def read_backfill_work(
        self, shards: Sequence[int], *, after: BackfillId | None, limit: int
    ) -> list[BackfillWork]:
        tables = self._tables
        wanted = frozenset(shards)
        found: list[BackfillWork] = []
        for row in sorted(tables.backfills.rows.values(), key=lambda row: row.new.id):
            job = tables.jobs.get(row.new.job_id)
            if (
                row.state is not BackfillState.OPEN
                or (after is not None and row.new.id <= after)
                or job_shard(row.new.job_id) not in wanted
                or job is None
                or job.is_paused
            ):
                continue
            section, *others = [one for one in self._sections_of(row) if one.is_open]
            found.append(
                BackfillWork(
                    id=row.new.id,
                    options=row.new.options,
                    section=section.view(),
                    is_last=not others,
                    level=row.level,
                    level_at=row.level_at,
                    live=sum(1 for _ in self._live_of_backfill(row)),
                    is_job_busy=tables.live_of_job[job.id] > 0,
                )
            )
            if len(found) == limit:
                break
        return found

    async def advance_backfills(
        self, steps: Sequence[BackfillStep], *, epochs: Epochs, now: datetime
    ) -> list[FireResult]:
        return [self._advance_backfill(step, epochs, now) for step in steps]

    def _advance_backfill(self, step: BackfillStep, epochs: Epochs, now: datetime) -> FireResult:
        tables = self._tables
        if tables.is_fenced(step.job_id, epochs):
            return _FENCED
        row, job = tables.backfills.rows.get(step.id), tables.jobs.get(step.job_id)
        section = tables.fire_ranges.get(step.fire_range_id)
        if row is None or row.state is not BackfillState.OPEN or job is None or job.is_paused:
            return _LOST
        if section is None or not section.is_open or section.cursor_at != step.cursor_from:
            return _LOST
        section.cursor_at = step.cursor_to
        if step.is_section_done:
            section.closed_at = now
        row.made += len(step.runs)
        row.skipped += step.skipped
        row.level, row.level_at = step.level, step.level_at
        if step.is_done:
            row.state, row.closed_at = BackfillState.DONE, now
        return tables.insert_planned(step.runs, step.overlap, now=now)

    def _sections_of(self, row: BackfillRow) -> list[FireRangeRow]:
        found = (self._tables.fire_ranges.get(section) for section in row.sections)
        return [section for section in found if section is not None]

    def _live_of_backfill(self, row: BackfillRow) -> Iterator[RunRow]:
        runs = self._tables.runs
        sections = set(row.sections)
        for key in self._tables.runs_of_job[row.new.job_id].above(None):
            run = runs[key[0]]
            if run.fire_range_id in sections and run.state in LIVE_STATES:
                yield run

    def _view_backfill(self, row: BackfillRow) -> Backfill:
        new, job = row.new, self._tables.jobs.get(row.new.job_id)
        is_gone = job is None and row.state is not BackfillState.DONE
        cursors = [one.cursor_at for one in self._sections_of(row) if one.cursor_at is not None]
        closings = [one.closed_at for one in self._sections_of(row) if one.closed_at is not None]
        return Backfill(
            id=new.id,
            job_id=new.job_id,
            tenant=new.tenant,
            from_at=new.from_at,
            to_at=new.to_at,
            options=new.options,
            state=BackfillState.CANCELLED if is_gone else row.state,
            fires=new.fires,
            made=row.made,
            skipped=row.skipped,
            live=sum(1 for _ in self._live_of_backfill(row)),
            cursor_at=max(cursors, default=None),
            created_at=row.created_at,
            closed_at=max(closings, default=None) if is_gone and row.closed_at is None else row.closed_at,
            is_job_paused=job is not None and job.is_paused,
        )
