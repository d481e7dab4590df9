"""Definitions and their versions on SQLite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import apsw

from mainspring.core.ids import JobId, job_shard
from mainspring.core.model import Job, JobSpec
from mainspring.ports.codec import decode_spec, encode_spec
from mainspring.ports.store.jobs import AddResult, ChangeResult, ClockChange, EditResult, JobEdit, NewJob
from mainspring.stores.sqlite.base import Part, execute, fetch_all, fetch_first
from mainspring.stores.sqlite.rows import (
    make_job,
    make_job_id,
    to_hexes,
    to_json,
    to_micros,
    to_optional_micros,
)


class JobPart(Part):
    """Implements `JobStore`."""

    async def add_jobs(self, jobs: Sequence[NewJob], *, now: datetime) -> list[AddResult]:
        """See `JobStore`."""
        if not jobs:
            return []
        at = to_micros(now)
        encoded = [encode_spec(job.spec) for job in jobs]
        return await self._write(
            lambda db: [_add(db, job, spec, at) for job, spec in zip(jobs, encoded, strict=True)]
        )

    async def edit_jobs(self, edits: Sequence[JobEdit], *, now: datetime) -> list[EditResult]:
        """See `JobStore`."""
        if not edits:
            return []
        at = to_micros(now)
        return await self._write(lambda db: [self._edit(db, edit, at) for edit in edits])

    def _edit(self, db: apsw.Connection, edit: JobEdit, now: int) -> EditResult:
        clock = fetch_first(db, "lock_job", {"job_id": edit.job_id.bytes})
        if clock is None:
            return EditResult.MISSING
        tenant, version = clock[0], clock[1] + 1
        holder = fetch_first(db, "find_name", {"tenant": tenant, "name": edit.spec.name})
        is_taken = holder is not None and holder[0] != edit.job_id.bytes
        if not _is_at(clock, edit.revision, edit.fire_at):
            return EditResult.MOVED
        if is_taken:
            return EditResult.NAME_TAKEN
        _move(db, edit.job_id, edit.next_fire_at)
        job_id = edit.job_id.bytes
        values = {"job_id": job_id, "version": version, "spec": encode_spec(edit.spec), "now": now}
        execute(db, "add_version", values)
        execute(db, "rename_job", {"job_id": job_id, "name": edit.spec.name})
        execute(db, "raise_version", {"job_id": job_id, "now": now})
        if edit.ends_gap:
            _end_gap(db, edit.job_id, now)
        self._insert_fire_ranges(db, edit.fire_ranges, now)
        return EditResult.EDITED

    async def pause_jobs(self, changes: Sequence[ClockChange], *, now: datetime) -> list[ChangeResult]:
        """See `JobStore`."""
        return await self._change(changes, now, self._pause)

    def _pause(self, db: apsw.Connection, change: ClockChange, *, is_paused: bool, now: int) -> None:
        del is_paused
        _move(db, change.job_id, None)
        execute(db, "set_paused", {"job_id": change.job_id.bytes, "is_paused": True, "now": now})
        self._insert_fire_ranges(db, change.fire_ranges, now)

    async def resume_jobs(self, changes: Sequence[ClockChange], *, now: datetime) -> list[ChangeResult]:
        """See `JobStore`."""
        return await self._change(changes, now, self._resume)

    def _resume(self, db: apsw.Connection, change: ClockChange, *, is_paused: bool, now: int) -> None:
        if not is_paused:
            return
        _move(db, change.job_id, change.next_fire_at)
        execute(db, "set_paused", {"job_id": change.job_id.bytes, "is_paused": False, "now": now})
        _end_gap(db, change.job_id, now)
        self._insert_fire_ranges(db, change.fire_ranges, now)

    async def delete_jobs(self, changes: Sequence[ClockChange], *, now: datetime) -> list[ChangeResult]:
        """See `JobStore`."""
        return await self._change(changes, now, self._delete)

    def _delete(self, db: apsw.Connection, change: ClockChange, *, is_paused: bool, now: int) -> None:
        del is_paused
        values = {"job_id": change.job_id.bytes, "now": now}
        execute(db, "delete_clock", {"job_id": change.job_id.bytes})
        execute(db, "delete_job", values)
        execute(db, "drop_empty_gap", values)
        execute(db, "close_fire_range", values)
        self._insert_fire_ranges(db, change.fire_ranges, now)

    async def _change(
        self, changes: Sequence[ClockChange], now: datetime, verb: Callable[..., None]
    ) -> list[ChangeResult]:
        if not changes:
            return []
        at = to_micros(now)

        def work(db: apsw.Connection) -> list[ChangeResult]:
            results = []
            for change in changes:
                clock = fetch_first(db, "lock_job", {"job_id": change.job_id.bytes})
                if clock is None:
                    results.append(ChangeResult.MISSING)
                elif verb == self._pause and clock[2]:
                    results.append(ChangeResult.DONE)  # whatever was read before: it is what was wanted
                elif not _is_at(clock, change.revision, change.fire_at):
                    results.append(ChangeResult.MOVED)
                else:
                    verb(db, change, is_paused=bool(clock[2]), now=at)
                    results.append(ChangeResult.DONE)
            return results

        return await self._write(work)

    async def get_jobs(self, job_ids: Sequence[JobId]) -> list[Job | None]:
        """See `JobStore`."""
        if not job_ids:
            return []
        values = {"job_ids": to_hexes(job_ids)}
        rows = await self._read(lambda db: fetch_all(db, "get_jobs", values))
        found = {job.id: job for job in map(make_job, rows)}
        return [found.get(job_id) for job_id in job_ids]

    async def find_jobs(self, tenant: str, names: Sequence[str]) -> list[Job | None]:
        """See `JobStore`."""
        if not names:
            return []
        values = {"tenant": tenant, "names": to_json(names)}
        rows = await self._read(lambda db: fetch_all(db, "find_jobs", values))
        found = {job.spec.name: job for job in map(make_job, rows)}
        return [found.get(name) for name in names]

    async def list_jobs(self, tenant: str, *, after: JobId | None = None, limit: int = 100) -> list[Job]:
        """See `JobStore`."""
        values = {"tenant": tenant, "after": after.bytes if after is not None else b"", "limit": limit}
        rows = await self._read(lambda db: fetch_all(db, "list_jobs", values))
        return [make_job(row) for row in rows]

    async def read_versions(self, keys: Sequence[tuple[JobId, int]]) -> list[JobSpec | None]:
        """See `JobStore`."""
        if not keys:
            return []
        values = {"keys": to_json([[job_id.hex, version] for job_id, version in keys])}
        rows = await self._read(lambda db: fetch_all(db, "read_versions", values))
        found = {(make_job_id(row[0]), row[1]): decode_spec(row[2]) for row in rows}
        return [found.get(key) for key in keys]


def _add(db: apsw.Connection, job: NewJob, spec: bytes, now: int) -> AddResult:
    if fetch_first(db, "find_name", {"tenant": job.tenant, "name": job.spec.name}) is not None:
        return AddResult.NAME_TAKEN
    shard, job_id = job_shard(job.id), job.id.bytes
    values = {"job_id": job_id, "shard": shard, "tenant": job.tenant, "name": job.spec.name, "now": now}
    execute(db, "add_job", values)
    execute(db, "add_version", {"job_id": job_id, "version": 1, "spec": spec, "now": now})
    next_fire_at = to_optional_micros(job.next_fire_at)
    execute(db, "add_clock", {"job_id": job_id, "shard": shard, "next_fire_at": next_fire_at})
    return AddResult.ADDED


def _is_at(clock: tuple[object, ...], revision: int, fire_at: datetime | None) -> bool:
    return clock[3] == revision and clock[4] == to_optional_micros(fire_at)


def _end_gap(db: apsw.Connection, job_id: JobId, now: int) -> None:
    values = {"job_id": job_id.bytes, "now": now}
    execute(db, "drop_empty_gap", values)
    execute(db, "close_gap", values)


def _move(db: apsw.Connection, job_id: JobId, next_fire_at: datetime | None) -> None:
    values = {"job_id": job_id.bytes, "next_fire_at": to_optional_micros(next_fire_at)}
    execute(db, "move_clock", values)
