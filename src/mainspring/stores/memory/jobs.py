"""Definitions and their versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import islice

from mainspring.core.audit import AuditEntry
from mainspring.core.clocks import (
    ChangeVerdict,
    ClockMove,
    Decision,
    decide_delete,
    decide_edit,
    decide_pause,
    decide_resume,
)
from mainspring.core.ids import JobId
from mainspring.core.model import FireRangeKind, Job, JobSpec
from mainspring.ports.store.jobs import AddResult, ClockChange, JobEdit, NewJob
from mainspring.ports.store.schedule import NewFireRange
from mainspring.stores.memory.audit import write_audit
from mainspring.stores.memory.ends import watch_ends
from mainspring.stores.memory.limits import are_limits_set, drop_limit_uses, keep_limits
from mainspring.stores.memory.notify import forget_unnoticed
from mainspring.stores.memory.rows import JobRow
from mainspring.stores.memory.tables import Tables


class MemoryJobStore:
    """`JobStore` in memory."""

    _tables: Tables

    async def add_jobs(
        self, jobs: Sequence[NewJob], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[AddResult]:
        results = [self._add_job(new, now) for new in jobs]
        write_audit(self._tables, audit, [result is AddResult.ADDED for result in results])
        return results

    def _add_job(self, new: NewJob, now: datetime) -> AddResult:
        tables = self._tables
        result = judge_add(tables, new)
        if result is not AddResult.ADDED:
            return result
        job = JobRow(
            id=new.id,
            tenant=new.tenant,
            spec=new.spec,
            version=1,
            revision=1,
            is_paused=False,
            next_fire=None,
            fired_through=None,
            created_at=now,
            updated_at=now,
            fires_left=new.spec.max_fires,
        )
        tables.jobs[job.id] = job
        tables.tenants[job.id] = job.tenant
        tables.names[job.tenant, job.spec.name] = job.id
        tables.jobs_of_tenant[job.tenant].add((job.id,))
        tables.versions[job.id, 1] = job.spec
        tables.backfills.version_times[job.id] = [now]
        tables.set_next_fire(job, new.next_fire)
        tables.use_calendars(job.id, new.calendars)
        keep_limits(tables, job.id, job.tenant, job.spec)
        _watch_failures(tables, job)
        watch_ends(tables, job)
        return AddResult.ADDED

    async def edit_jobs(
        self, edits: Sequence[JobEdit], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[ChangeVerdict]:
        results = [self._edit_job(edit, now) for edit in edits]
        write_audit(self._tables, audit, [result is ChangeVerdict.DONE for result in results])
        return results

    def _edit_job(self, edit: JobEdit, now: datetime) -> ChangeVerdict:
        tables = self._tables
        job = tables.jobs.get(edit.job_id)
        decision = judge_edit(tables, edit)
        if job is None or decision.move is None:
            return decision.verdict
        del tables.names[job.tenant, job.spec.name]
        tables.names[job.tenant, edit.spec.name] = job.id
        if job.spec.notify is not None and edit.spec.notify is None:
            forget_unnoticed(tables, job.id)
        job.spec = edit.spec
        job.version += 1
        tables.versions[job.id, job.version] = edit.spec
        tables.backfills.version_times[job.id].append(now)
        tables.use_calendars(job.id, edit.calendars)
        job.fires_left = edit.fires_left
        move_clock(self._tables, job, decision.move, edit.fire_ranges, now)
        keep_limits(tables, job.id, job.tenant, job.spec)
        _watch_failures(tables, job)
        watch_ends(tables, job)
        return decision.verdict

    async def pause_jobs(
        self, changes: Sequence[ClockChange], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[ChangeVerdict]:
        def decide(job: JobRow | None, change: ClockChange) -> Decision:
            return decide_pause(job, revision=change.revision, fire_at=change.fire_at)

        return self._change(changes, decide, now, audit)

    async def resume_jobs(
        self, changes: Sequence[ClockChange], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[ChangeVerdict]:
        def decide(job: JobRow | None, change: ClockChange) -> Decision:
            return decide_resume(
                job, revision=change.revision, fire_at=change.fire_at, next_fire=change.next_fire
            )

        return self._change(changes, decide, now, audit)

    def _change(
        self,
        changes: Sequence[ClockChange],
        decide: Callable[[JobRow | None, ClockChange], Decision],
        now: datetime,
        audit: Sequence[AuditEntry],
    ) -> list[ChangeVerdict]:
        decisions = []
        for change in changes:
            job = self._tables.jobs.get(change.job_id)
            decision = decide(job, change)
            if job is not None and decision.move is not None:
                move_clock(self._tables, job, decision.move, change.fire_ranges, now)
            decisions.append(decision)
        write_audit(self._tables, audit, [decision.move is not None for decision in decisions])
        return [decision.verdict for decision in decisions]

    async def delete_jobs(
        self, changes: Sequence[ClockChange], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[ChangeVerdict]:
        results = [self._delete_job(change, now) for change in changes]
        write_audit(self._tables, audit, [result is ChangeVerdict.DONE for result in results])
        return results

    def _delete_job(self, change: ClockChange, now: datetime) -> ChangeVerdict:
        tables = self._tables
        job = tables.jobs.get(change.job_id)
        decision = decide_delete(job, revision=change.revision, fire_at=change.fire_at)
        if job is not None and decision.move is not None:
            move_clock(self._tables, job, decision.move, change.fire_ranges, now)
            tables.drop_empty_gaps(job.id, now=now)
            for fire_range in tables.fire_ranges_of_job[job.id]:
                if fire_range.is_open:
                    tables.close_fire_range(fire_range, now=now)
            tables.calendars.uses.pop(job.id, None)
            del tables.jobs[job.id]
            del tables.names[job.tenant, job.spec.name]
            tables.jobs_of_tenant[job.tenant].discard((job.id,))
            drop_limit_uses(tables, job.id)
            tables.failure_watch.pop(job.id, None)
            tables.after_end.pop(job.id, None)
            if job.spec.notify is not None:
                forget_unnoticed(tables, job.id)
        return decision.verdict

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


def judge_add(tables: Tables, new: NewJob) -> AddResult:
    """Say what becomes of a new job."""
    if (new.tenant, new.spec.name) in tables.names:
        return AddResult.NAME_TAKEN
    if not tables.is_current(new.calendars):
        return AddResult.CALENDARS_MOVED
    if not are_limits_set(tables, new.tenant, new.spec):
        return AddResult.LIMIT_GONE
    return AddResult.ADDED


def judge_edit(tables: Tables, edit: JobEdit) -> Decision:
    """Say what becomes of an edit."""
    job = tables.jobs.get(edit.job_id)
    return decide_edit(
        job,
        revision=edit.revision,
        fire_at=edit.fire_at,
        next_fire=edit.next_fire,
        ends_gap=edit.ends_gap,
        is_name_taken=job is not None and tables.names.get((job.tenant, edit.spec.name), job.id) != job.id,
        is_current=tables.is_current(edit.calendars)
        and (job is None or are_limits_set(tables, job.tenant, edit.spec)),
    )


def _watch_failures(tables: Tables, job: JobRow) -> None:
    """Have jobs that pause after failures looked at, and no others."""
    if job.spec.pause_after_failures is None:
        tables.failure_watch.pop(job.id, None)
    else:
        tables.failure_watch[job.id] = job


def move_clock(
    tables: Tables, job: JobRow, move: ClockMove, fire_ranges: Sequence[NewFireRange], now: datetime
) -> None:
    """Set the clock, raise its revision, and insert the change's records."""
    if move.ends_gap:
        tables.drop_empty_gaps(job.id, now=now)
        for fire_range in tables.fire_ranges_of_job[job.id]:
            if fire_range.is_open and fire_range.kind is FireRangeKind.GAP:
                tables.close_fire_range(fire_range, now=now)
    job.is_paused = move.is_paused
    if not move.is_paused:
        job.pause_note = None
    job.revision += 1
    job.updated_at = now
    tables.set_next_fire(job, move.next_fire)
    for new in fire_ranges:
        tables.add_fire_range(new, now=now)
