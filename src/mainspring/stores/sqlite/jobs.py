"""Jobs, their versions and the changes of their clocks, on SQLite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import apsw

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
from mainspring.core.ids import JobId, job_shard
from mainspring.core.model import Job, JobSpec
from mainspring.core.triggers import AtStart
from mainspring.ports.codec import decode_spec, encode_outline, encode_spec
from mainspring.ports.store.jobs import AddResult, ClockChange, JobEdit, NewJob
from mainspring.stores.sqlite.audit import write_audit
from mainspring.stores.sqlite.calendar_uses import are_current, use_calendars
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.ends import watch_ends
from mainspring.stores.sqlite.events import keep_listener
from mainspring.stores.sqlite.failures import watch_failures
from mainspring.stores.sqlite.inserts import insert_fire_ranges
from mainspring.stores.sqlite.job_clocks import move_clock, set_paused
from mainspring.stores.sqlite.limits import are_limits_set, keep_limits
from mainspring.stores.sqlite.locked import LockedJob, lock_job
from mainspring.stores.sqlite.notify import drop_notify, keep_notify
from mainspring.stores.sqlite.rows import (
    make_job,
    make_job_id,
    to_hexes,
    to_json,
    to_micros,
    values_of_next_fire,
)
from mainspring.stores.sqlite.statements import execute, fetch_rows, fetch_tuples, fetch_value


class SqliteJobStore:
    """Implements `JobStore`."""

    _browser: Database
    _reader: Database
    _writer: Database

    async def add_jobs(
        self, jobs: Sequence[NewJob], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[AddResult]:
        """See `JobStore`."""
        if not jobs:
            return []
        at = to_micros(now)
        encoded = [encode_spec(job.spec) for job in jobs]

        def work(db: apsw.Connection) -> list[AddResult]:
            results = [add_job(db, job, spec, at) for job, spec in zip(jobs, encoded, strict=True)]
            write_audit(db, audit, [result is AddResult.ADDED for result in results])
            return results

        return await self._writer.call(work)

    async def edit_jobs(
        self, edits: Sequence[JobEdit], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[ChangeVerdict]:
        """See `JobStore`."""
        if not edits:
            return []
        at = to_micros(now)

        def work(db: apsw.Connection) -> list[ChangeVerdict]:
            verdicts = [edit_job(db, edit, at) for edit in edits]
            write_audit(db, audit, [verdict is ChangeVerdict.DONE for verdict in verdicts])
            return verdicts

        return await self._writer.call(work)

    async def pause_jobs(
        self, changes: Sequence[ClockChange], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[ChangeVerdict]:
        """See `JobStore`."""
        return await self._change(changes, now, audit, pause_job)

    async def resume_jobs(
        self, changes: Sequence[ClockChange], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[ChangeVerdict]:
        """See `JobStore`."""

        def decide(job: LockedJob | None, change: ClockChange) -> Decision:
            return decide_resume(
                job, revision=change.revision, fire_at=change.fire_at, next_fire=change.next_fire
            )

        return await self._change(
            changes, now, audit, lambda db, change, at: _change_job(db, change, at, decide, _pause_or_resume)
        )

    async def delete_jobs(
        self, changes: Sequence[ClockChange], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[ChangeVerdict]:
        """See `JobStore`."""
        return await self._change(changes, now, audit, delete_job)

    async def _change(
        self,
        changes: Sequence[ClockChange],
        now: datetime,
        audit: Sequence[AuditEntry],
        change_job: Callable[[apsw.Connection, ClockChange, int], Decision],
    ) -> list[ChangeVerdict]:
        if not changes:
            return []
        at = to_micros(now)

        def work(db: apsw.Connection) -> list[ChangeVerdict]:
            decisions = [change_job(db, change, at) for change in changes]
            write_audit(db, audit, [decision.move is not None for decision in decisions])
            return [decision.verdict for decision in decisions]

        return await self._writer.call(work)

    async def get_jobs(self, job_ids: Sequence[JobId]) -> list[Job | None]:
        """See `JobStore`."""
        if not job_ids:
            return []
        values = {"job_ids": to_hexes(job_ids)}
        rows = await self._reader.call(lambda db: fetch_tuples(db, "get_jobs", values))
        found = {job.id: job for job in map(make_job, rows)}
        return [found.get(job_id) for job_id in job_ids]

    async def find_jobs(self, tenant: str, names: Sequence[str]) -> list[Job | None]:
        """See `JobStore`."""
        if not names:
            return []
        values = {"tenant": tenant, "names": to_json(names)}
        rows = await self._reader.call(lambda db: fetch_tuples(db, "find_jobs", values))
        found = {job.spec.name: job for job in map(make_job, rows)}
        return [found.get(name) for name in names]

    async def list_jobs(self, tenant: str, *, after: JobId | None = None, limit: int = 100) -> list[Job]:
        """See `JobStore`."""
        values = {"tenant": tenant, "after": after.bytes if after is not None else b"", "limit": limit}
        rows = await self._browser.call(lambda db: fetch_tuples(db, "list_jobs", values))
        return [make_job(row) for row in rows]

    async def read_versions(self, keys: Sequence[tuple[JobId, int]]) -> list[JobSpec | None]:
        """See `JobStore`."""
        if not keys:
            return []
        values = {"keys": to_json([[job_id.hex, version] for job_id, version in keys])}
        rows = await self._reader.call(lambda db: fetch_rows(db, "read_versions", values))
        found = {(make_job_id(row.job_id), row.version): decode_spec(row.spec) for row in rows}
        return [found.get(key) for key in keys]


def add_job(db: apsw.Connection, job: NewJob, spec: bytes, now: int) -> AddResult:
    """Add a job within a transaction."""
    if fetch_value(db, "find_name", {"tenant": job.tenant, "name": job.spec.name}) is not None:
        return AddResult.NAME_TAKEN
    if not are_current(db, job.calendars):
        return AddResult.CALENDARS_MOVED
    if not are_limits_set(db, job.tenant, job.spec):
        return AddResult.LIMIT_GONE
    shard, job_id = job_shard(job.id), job.id.bytes
    values = {"job_id": job_id, "shard": shard, "tenant": job.tenant, "name": job.spec.name, "now": now}
    execute(db, "add_job", values)
    execute(db, "add_version", {"job_id": job_id, "version": 1, "spec": spec, "now": now})
    clock = {
        "job_id": job_id,
        "shard": shard,
        "priority": job.spec.priority.value,
        "run_outline": encode_outline(job.spec, 1),
        "fires_left": job.spec.max_fires,
    }
    execute(db, "add_clock", clock | values_of_next_fire(job.next_fire))
    use_calendars(db, job.id, job.tenant, job.calendars, is_new=True)
    if job.spec.is_lined_up:
        keep_limits(db, job.id, job.tenant, job.spec, is_new=True)
    watch_failures(db, job.id, job.spec, is_new=True)
    keep_notify(db, job.id, job.spec, is_new=True)
    _watch_starts(db, job.id, job.spec, is_new=True)
    watch_ends(db, job.id, job.spec, is_new=True)
    keep_listener(db, job.id, job.tenant, job.spec, is_new=True)
    return AddResult.ADDED


def edit_job(db: apsw.Connection, edit: JobEdit, now: int) -> ChangeVerdict:
    """Edit a job within a transaction."""
    job = lock_job(db, edit.job_id)
    decision = decide_edit(
        job,
        revision=edit.revision,
        fire_at=edit.fire_at,
        next_fire=edit.next_fire,
        ends_gap=edit.ends_gap,
        is_name_taken=job is not None and _is_taken(db, job.tenant, edit),
        is_current=are_current(db, edit.calendars)
        and (job is None or are_limits_set(db, job.tenant, edit.spec)),
    )
    if job is None or decision.move is None:
        return decision.verdict
    job_id = edit.job_id.bytes
    values = {"job_id": job_id, "version": job.version + 1, "spec": encode_spec(edit.spec), "now": now}
    execute(db, "add_version", values)
    execute(db, "rename_job", {"job_id": job_id, "name": edit.spec.name})
    execute(db, "raise_version", {"job_id": job_id, "now": now})
    outline = {
        "priority": edit.spec.priority.value,
        "run_outline": encode_outline(edit.spec, job.version + 1),
    }
    move_clock(db, edit, decision.move, now, outline)
    use_calendars(db, edit.job_id, job.tenant, edit.calendars)
    keep_limits(db, edit.job_id, job.tenant, edit.spec, is_new=False)
    watch_failures(db, edit.job_id, edit.spec, is_new=False)
    keep_notify(db, edit.job_id, edit.spec, is_new=False)
    _watch_starts(db, edit.job_id, edit.spec, is_new=False)
    watch_ends(db, edit.job_id, edit.spec, is_new=False)
    keep_listener(db, edit.job_id, job.tenant, edit.spec, is_new=False)
    return decision.verdict


def pause_job(db: apsw.Connection, change: ClockChange, now: int) -> Decision:
    """Pause a job within a transaction."""

    def decide(job: LockedJob | None, change: ClockChange) -> Decision:
        return decide_pause(job, revision=change.revision, fire_at=change.fire_at)

    return _change_job(db, change, now, decide, _pause_or_resume)


def delete_job(db: apsw.Connection, change: ClockChange, now: int) -> Decision:
    """Delete a job within a transaction."""

    def decide(job: LockedJob | None, change: ClockChange) -> Decision:
        return decide_delete(job, revision=change.revision, fire_at=change.fire_at)

    return _change_job(db, change, now, decide, _delete)


def _change_job(
    db: apsw.Connection,
    change: ClockChange,
    now: int,
    decide: Callable[[LockedJob | None, ClockChange], Decision],
    write: Callable[[apsw.Connection, ClockChange, ClockMove, int], None],
) -> Decision:
    decision = decide(lock_job(db, change.job_id), change)
    if decision.move is not None:
        write(db, change, decision.move, now)
    return decision


def _pause_or_resume(db: apsw.Connection, change: ClockChange, move: ClockMove, now: int) -> None:
    set_paused(db, change.job_id, is_paused=move.is_paused, note=None, now=now)
    move_clock(db, change, move, now)


def _delete(db: apsw.Connection, change: ClockChange, move: ClockMove, now: int) -> None:
    del move  # the clock is deleted
    values = {"job_id": change.job_id.bytes, "now": now}
    insert_fire_ranges(db, change.fire_ranges, now)
    execute(db, "drop_empty_gap", values)
    execute(db, "close_fire_range", values)
    execute(db, "delete_clock", {"job_id": change.job_id.bytes})
    execute(db, "remove_calendar_uses", {"job_ids": to_hexes([change.job_id])})
    execute(db, "delete_job", values)
    execute(db, "drop_limit_uses", {"job_id": change.job_id.bytes})
    execute(db, "unwatch_failures", {"job_id": change.job_id.bytes})
    drop_notify(db, change.job_id)
    execute(db, "unwatch_starts", {"job_id": change.job_id.bytes})
    execute(db, "unwatch_ends", {"job_id": change.job_id.bytes})
    execute(db, "drop_listener", {"job_id": change.job_id.bytes})


def _watch_starts(db: apsw.Connection, job_id: JobId, spec: JobSpec, *, is_new: bool) -> None:
    """Note whether a job fires when the cluster starts."""
    if isinstance(spec.trigger, AtStart):
        execute(db, "watch_starts", {"job_id": job_id.bytes})
    elif not is_new:
        execute(db, "unwatch_starts", {"job_id": job_id.bytes})


def _is_taken(db: apsw.Connection, tenant: str, edit: JobEdit) -> bool:
    holder = fetch_value(db, "find_name", {"tenant": tenant, "name": edit.spec.name})
    return holder is not None and holder != edit.job_id.bytes
