"""Definitions and their versions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice

from mainspring.core.ids import JobId
from mainspring.core.model import FireRangeKind, Job, JobSpec
from mainspring.ports.store.jobs import AddResult, ChangeResult, ClockChange, EditResult, JobEdit, NewJob
from mainspring.ports.store.schedule import NewFireRange
from mainspring.stores.memory.rows import JobRow
from mainspring.stores.memory.tables import Tables


class JobVerbs:
    """`JobStore` in memory."""

    _tables: Tables

    async def add_jobs(self, jobs: Sequence[NewJob], *, now: datetime) -> list[AddResult]:
        return [self._add_job(new, now) for new in jobs]

    def _add_job(self, new: NewJob, now: datetime) -> AddResult:
        tables = self._tables
        if (new.tenant, new.spec.name) in tables.names:
            return AddResult.NAME_TAKEN
        job = JobRow(
            id=new.id,
            tenant=new.tenant,
            spec=new.spec,
            version=1,
            revision=1,
            is_paused=False,
            next_fire_at=None,
            fired_through=None,
            created_at=now,
            updated_at=now,
        )
        tables.jobs[job.id] = job
        tables.tenants[job.id] = job.tenant
        tables.names[job.tenant, job.spec.name] = job.id
        tables.jobs_of_tenant[job.tenant].add((job.id,))
        tables.versions[job.id, 1] = job.spec
        tables.set_next_fire(job, new.next_fire_at)
        return AddResult.ADDED

    async def edit_jobs(self, edits: Sequence[JobEdit], *, now: datetime) -> list[EditResult]:
        return [self._edit_job(edit, now) for edit in edits]

    def _edit_job(self, edit: JobEdit, now: datetime) -> EditResult:
        tables = self._tables
        job = tables.jobs.get(edit.job_id)
        if job is None:
            return EditResult.MISSING
        if _has_moved(job, edit.revision, edit.fire_at):
            return EditResult.MOVED
        if tables.names.get((job.tenant, edit.spec.name), job.id) != job.id:
            return EditResult.NAME_TAKEN
        del tables.names[job.tenant, job.spec.name]
        tables.names[job.tenant, edit.spec.name] = job.id
        job.spec = edit.spec
        job.version += 1
        tables.versions[job.id, job.version] = edit.spec
        next_fire_at = None if job.is_paused else edit.next_fire_at
        if edit.ends_gap:
            self._end_gaps(job, now)
        self._move_clock(job, next_fire_at, edit.fire_ranges, now)
        return EditResult.EDITED

    async def pause_jobs(self, changes: Sequence[ClockChange], *, now: datetime) -> list[ChangeResult]:
        return [self._pause_job(change, now) for change in changes]

    def _pause_job(self, change: ClockChange, now: datetime) -> ChangeResult:
        job = self._tables.jobs.get(change.job_id)
        if job is None:
            return ChangeResult.MISSING
        if job.is_paused:
            return ChangeResult.DONE
        if _has_moved(job, change.revision, change.fire_at):
            return ChangeResult.MOVED
        job.is_paused = True
        self._move_clock(job, None, change.fire_ranges, now)
        return ChangeResult.DONE

    async def resume_jobs(self, changes: Sequence[ClockChange], *, now: datetime) -> list[ChangeResult]:
        return [self._resume_job(change, now) for change in changes]

    def _resume_job(self, change: ClockChange, now: datetime) -> ChangeResult:
        job = self._tables.jobs.get(change.job_id)
        if job is None:
            return ChangeResult.MISSING
        if _has_moved(job, change.revision, change.fire_at):
            return ChangeResult.MOVED
        job.is_paused = False
        self._end_gaps(job, now)
        self._move_clock(job, change.next_fire_at, change.fire_ranges, now)
        return ChangeResult.DONE

    def _end_gaps(self, job: JobRow, now: datetime) -> None:
        self._tables.drop_empty_gaps(job.id, now=now)
        for fire_range in self._tables.fire_ranges_of_job[job.id]:
            if fire_range.is_open and fire_range.kind is FireRangeKind.GAP:
                self._tables.close_fire_range(fire_range, now=now)

    def _move_clock(
        self, job: JobRow, next_fire_at: datetime | None, fire_ranges: Sequence[NewFireRange], now: datetime
    ) -> None:
        """Set the clock, raise its revision and keep the change's records."""
        job.revision += 1
        job.updated_at = now
        self._tables.set_next_fire(job, next_fire_at)
        for fire_range in fire_ranges:
            self._tables.add_fire_range(fire_range, now=now)

    async def delete_jobs(self, changes: Sequence[ClockChange], *, now: datetime) -> list[ChangeResult]:
        return [self._delete_job(change, now) for change in changes]

    def _delete_job(self, change: ClockChange, now: datetime) -> ChangeResult:
        tables = self._tables
        job = tables.jobs.get(change.job_id)
        if job is None:
            return ChangeResult.MISSING
        if _has_moved(job, change.revision, change.fire_at):
            return ChangeResult.MOVED
        self._move_clock(job, None, change.fire_ranges, now)
        tables.drop_empty_gaps(job.id, now=now)
        for fire_range in tables.fire_ranges_of_job[job.id]:
            if fire_range.is_open:
                tables.close_fire_range(fire_range, now=now)
        del tables.jobs[job.id]
        del tables.names[job.tenant, job.spec.name]
        tables.jobs_of_tenant[job.tenant].discard((job.id,))
        return ChangeResult.DONE

    async def get_jobs(self, job_ids: Sequence[JobId]) -> list[Job | None]:
        rows = (self._tables.jobs.get(job_id) for job_id in job_ids)
        return [row.view() if row is not None else None for row in rows]

    async def find_jobs(self, tenant: str, names: Sequence[str]) -> list[Job | None]:
        ids = (self._tables.names.get((tenant, name)) for name in names)
        return [self._tables.jobs[job_id].view() if job_id is not None else None for job_id in ids]

    async def list_jobs(self, tenant: str, *, after: JobId | None = None, limit: int = 100) -> list[Job]:
        keys = self._tables.jobs_of_tenant[tenant].above(None if after is None else (after,))
        return [self._tables.jobs[JobId(key[0])].view() for key in islice(keys, limit)]

    async def read_versions(self, keys: Sequence[tuple[JobId, int]]) -> list[JobSpec | None]:
        return [self._tables.versions.get(key) for key in keys]


def _has_moved(job: JobRow, revision: int, fire_at: datetime | None) -> bool:
    return job.revision != revision or job.next_fire_at != fire_at
