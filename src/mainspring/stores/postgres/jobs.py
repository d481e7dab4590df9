"""Definitions and their versions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

import asyncpg

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
from mainspring.stores.postgres.audit import write_audit
from mainspring.stores.postgres.calendar_uses import find_moved, use_calendars
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.ends import watch_ends
from mainspring.stores.postgres.events import keep_listeners
from mainspring.stores.postgres.job_clocks import (
    Jobs,
    LockedClock,
    add_fire_ranges,
    lock_jobs,
    move_clocks,
    set_paused,
)
from mainspring.stores.postgres.limits import find_unset, keep_limits
from mainspring.stores.postgres.notify import drop_notify, keep_notify
from mainspring.stores.postgres.rows import columns_of_next_fires, job_of, sparse

_BEFORE_ALL = UUID(int=0)


class PostgresJobStore:
    """`JobStore` on PostgreSQL."""

    _connections: Connections

    async def add_jobs(
        self, jobs: Sequence[NewJob], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[AddResult]:
        if not jobs:
            return []

        async def work(transaction: Transaction) -> list[AddResult]:
            results = await add_jobs(transaction, jobs, now)
            await write_audit(transaction, audit, [result is AddResult.ADDED for result in results])
            return results

        return await self._connections.transact(Role.EDIT, work)

    async def edit_jobs(
        self, edits: Sequence[JobEdit], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[ChangeVerdict]:
        if not edits:
            return []

        async def work(transaction: Transaction) -> list[ChangeVerdict]:
            verdicts = await edit_jobs(transaction, edits, now)
            await write_audit(transaction, audit, [verdict is ChangeVerdict.DONE for verdict in verdicts])
            return verdicts

        # If another caller took the name since it was looked up, the unique index refuses it; the next try sees it.
        return await self._connections.transact(Role.EDIT, work, retry_on=(asyncpg.UniqueViolationError,))

    async def pause_jobs(
        self, changes: Sequence[ClockChange], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[ChangeVerdict]:
        return await self._change(changes, pause_jobs, now, audit)

    async def resume_jobs(
        self, changes: Sequence[ClockChange], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[ChangeVerdict]:
        def decide(job: LockedClock | None, change: ClockChange) -> Decision:
            return decide_resume(
                job, revision=change.revision, fire_at=change.fire_at, next_fire=change.next_fire
            )

        write = partial(set_paused, is_paused=False)
        return await self._change(changes, partial(_change_jobs, decide=decide, write=write), now, audit)

    async def delete_jobs(
        self, changes: Sequence[ClockChange], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[ChangeVerdict]:
        return await self._change(changes, delete_jobs, now, audit)

    async def _change(
        self,
        changes: Sequence[ClockChange],
        change_jobs: Callable[[Transaction, Sequence[ClockChange], datetime], Awaitable[list[Decision]]],
        now: datetime,
        audit: Sequence[AuditEntry],
    ) -> list[ChangeVerdict]:
        if not changes:
            return []

        async def work(transaction: Transaction) -> list[ChangeVerdict]:
            decisions = await change_jobs(transaction, changes, now)
            await write_audit(transaction, audit, [decision.move is not None for decision in decisions])
            return [decision.verdict for decision in decisions]

        return await self._connections.transact(Role.EDIT, work)

    async def get_jobs(self, job_ids: Sequence[JobId]) -> list[Job | None]:
        if not job_ids:
            return []
        rows = await self._connections.fetch(Role.READ, "get_jobs", is_repeatable=True, job_ids=job_ids)
        found = {row["id"]: job_of(row) for row in rows}
        return [found.get(job_id) for job_id in job_ids]

    async def find_jobs(self, tenant: str, names: Sequence[str]) -> list[Job | None]:
        if not names:
            return []
        rows = await self._connections.fetch(
            Role.READ, "find_jobs", is_repeatable=True, tenant=tenant, names=names
        )
        jobs = [job_of(row) for row in rows]
        found = {job.spec.name: job for job in jobs}
        return [found.get(name) for name in names]

    async def list_jobs(self, tenant: str, *, after: JobId | None = None, limit: int = 100) -> list[Job]:
        rows = await self._connections.fetch(
            Role.BROWSE,
            "list_jobs",
            is_repeatable=True,
            tenant=tenant,
            after=after or _BEFORE_ALL,
            limit=limit,
        )
        return [job_of(row) for row in rows]

    async def read_versions(self, keys: Sequence[tuple[JobId, int]]) -> list[JobSpec | None]:
        if not keys:
            return []
        job_ids, versions = zip(*keys, strict=True)
        rows = await self._connections.fetch(
            Role.WATCH, "read_versions", is_repeatable=True, job_ids=job_ids, versions=versions
        )
        found = {(row["job_id"], row["version"]): decode_spec(row["spec"]) for row in rows}
        return [found.get(key) for key in keys]


async def add_jobs(transaction: Transaction, jobs: Sequence[NewJob], now: datetime) -> list[AddResult]:
    """Add jobs within a transaction."""
    moved = await find_moved(transaction, {job.id: job.calendars for job in jobs})
    unset = await find_unset(transaction, [(job.id, job.tenant, job.spec) for job in jobs])
    fit = [job for job in jobs if job.id not in moved | unset]
    # Sorting is stable: of two jobs with one name, the first is added.
    ordered = sorted(fit, key=lambda job: (job.tenant, job.spec.name))
    rows = await transaction.fetch(
        "add_jobs",
        job_ids=[job.id for job in ordered],
        shards=[job_shard(job.id) for job in ordered],
        tenants=[job.tenant for job in ordered],
        names=[job.spec.name for job in ordered],
        now=now,
    )
    ids = {row["id"] for row in rows}
    added = [job for job in jobs if job.id in ids]
    await _add_versions(transaction, [(job.id, 1, job.spec) for job in added], now)
    await _add_clocks(transaction, added)
    await use_calendars(transaction, [(job.id, job.tenant, job.calendars) for job in added], are_new=True)
    limited = [(job.id, job.tenant, job.spec) for job in added if job.spec.is_lined_up]
    if limited:
        await keep_limits(transaction, limited, are_new=True)
    await _watch_failures(transaction, {job.id: job.spec for job in added}, are_new=True)
    await keep_notify(transaction, {job.id: job.spec for job in added}, are_new=True)
    await _watch_starts(transaction, {job.id: job.spec for job in added}, are_new=True)
    await watch_ends(transaction, {job.id: job.spec for job in added}, are_new=True)
    await keep_listeners(transaction, [(job.id, job.tenant, job.spec) for job in added], are_new=True)
    missed = dict.fromkeys(unset, AddResult.LIMIT_GONE)
    missed |= dict.fromkeys(moved, AddResult.CALENDARS_MOVED)
    return [AddResult.ADDED if job.id in ids else missed.get(job.id, AddResult.NAME_TAKEN) for job in jobs]


async def edit_jobs(transaction: Transaction, edits: Sequence[JobEdit], now: datetime) -> list[ChangeVerdict]:
    """Edit jobs within a transaction."""
    locked = await lock_jobs(transaction, [edit.job_id for edit in edits])
    moved = await find_moved(transaction, {edit.job_id: edit.calendars for edit in edits})
    known = [(edit.job_id, edit.spec) for edit in edits if edit.job_id in locked]
    moved |= await find_unset(transaction, [(job_id, locked[job_id].tenant, spec) for job_id, spec in known])
    owners = await _find_owners(transaction, edits, locked)
    decided = [
        (edit, _decide_edit(edit, locked.get(edit.job_id), owners, edit.job_id not in moved))
        for edit in edits
    ]
    done = [(edit, decision.move) for edit, decision in decided if decision.move is not None]
    for edit, _ in done:  # one by one: a name may move from one job to another within the call
        if locked[edit.job_id].name != edit.spec.name:
            await transaction.execute("rename_job", job_id=edit.job_id, name=edit.spec.name)
    await _keep_versions(transaction, [edit for edit, _ in done], locked, now)
    versions = {edit.job_id: locked[edit.job_id].version + 1 for edit, _ in done}
    await move_clocks(transaction, done, now, versions)
    await use_calendars(
        transaction, [(edit.job_id, locked[edit.job_id].tenant, edit.calendars) for edit, _ in done]
    )
    edited = [(edit.job_id, locked[edit.job_id].tenant, edit.spec) for edit, _ in done]
    if edited:
        await keep_limits(transaction, edited, are_new=False)
        specs = {edit.job_id: edit.spec for edit, _ in done}
        await _watch_failures(transaction, specs, are_new=False)
        await keep_notify(transaction, specs, are_new=False)
        await _watch_starts(transaction, specs, are_new=False)
        await watch_ends(transaction, specs, are_new=False)
        await keep_listeners(transaction, edited, are_new=False)
    return [decision.verdict for _, decision in decided]


async def pause_jobs(
    transaction: Transaction, changes: Sequence[ClockChange], now: datetime
) -> list[Decision]:
    """Pause jobs within a transaction."""

    def decide(job: LockedClock | None, change: ClockChange) -> Decision:
        return decide_pause(job, revision=change.revision, fire_at=change.fire_at)

    return await _change_jobs(transaction, changes, now, decide, partial(set_paused, is_paused=True))


async def delete_jobs(
    transaction: Transaction, changes: Sequence[ClockChange], now: datetime
) -> list[Decision]:
    """Delete jobs within a transaction."""

    def decide(job: LockedClock | None, change: ClockChange) -> Decision:
        there = None if job is None or job.is_deleted else job
        decision = decide_delete(there, revision=change.revision, fire_at=change.fire_at)
        if there is not None and decision.move is not None:
            there.is_deleted = True
        return decision

    return await _change_jobs(transaction, changes, now, decide, _delete)


async def _change_jobs(
    transaction: Transaction,
    changes: Sequence[ClockChange],
    now: datetime,
    decide: Callable[[LockedClock | None, ClockChange], Decision],
    write: Callable[[Transaction, Sequence[tuple[ClockChange, ClockMove]], datetime], Awaitable[None]],
) -> list[Decision]:
    locked = await lock_jobs(transaction, [change.job_id for change in changes])
    decisions: list[Decision] = []
    done: list[tuple[ClockChange, ClockMove]] = []
    for change in changes:
        job = locked.get(change.job_id)
        decision = decide(job, change)
        if job is not None and decision.move is not None:
            job.move(decision.move)
            done.append((change, decision.move))
        decisions.append(decision)
    if done:
        await write(transaction, done, now)
    return decisions


async def _find_owners(
    transaction: Transaction, edits: Sequence[JobEdit], locked: Jobs
) -> dict[tuple[str, str], JobId]:
    """Return the jobs that own the names that the edits ask for."""
    renamed = [edit for edit in edits if edit.job_id in locked and locked[edit.job_id].name != edit.spec.name]
    if not renamed:
        return {}
    rows = await transaction.fetch(
        "find_names",
        tenants=[locked[edit.job_id].tenant for edit in renamed],
        names=[edit.spec.name for edit in renamed],
    )
    return {(row["tenant"], row["name"]): row["id"] for row in rows}


def _decide_edit(
    edit: JobEdit, job: LockedClock | None, owners: dict[tuple[str, str], JobId], is_current: bool
) -> Decision:
    decision = decide_edit(
        job,
        revision=edit.revision,
        fire_at=edit.fire_at,
        next_fire=edit.next_fire,
        ends_gap=edit.ends_gap,
        is_name_taken=job is not None
        and owners.get((job.tenant, edit.spec.name), edit.job_id) != edit.job_id,
        is_current=is_current,
    )
    if job is not None and decision.move is not None:
        if job.name != edit.spec.name:
            owners.pop((job.tenant, job.name), None)
            owners[job.tenant, edit.spec.name] = edit.job_id
        job.move(decision.move)
    return decision


async def _delete(
    transaction: Transaction, done: Sequence[tuple[ClockChange, ClockMove]], now: datetime
) -> None:
    job_ids = [change.job_id for change, _ in done]
    await add_fire_ranges(
        transaction, [fire_range for change, _ in done for fire_range in change.fire_ranges], now
    )
    await transaction.execute("drop_empty_gaps", job_ids=job_ids, now=now)
    await transaction.execute("close_fire_ranges", job_ids=job_ids, now=now)
    await transaction.execute("delete_jobs", job_ids=job_ids, now=now)
    await transaction.execute("delete_clocks", job_ids=job_ids)
    await transaction.execute("remove_calendar_uses", job_ids=job_ids)
    await transaction.execute("drop_limit_uses", job_ids=job_ids)
    await transaction.execute("unwatch_failures", job_ids=job_ids)
    await drop_notify(transaction, job_ids)
    await transaction.execute("unwatch_starts", job_ids=job_ids)
    await transaction.execute("unwatch_ends", job_ids=job_ids)
    await transaction.execute("drop_listeners", job_ids=job_ids)


async def _add_clocks(transaction: Transaction, jobs: Sequence[NewJob]) -> None:
    await transaction.execute(
        "add_clocks",
        job_ids=[job.id for job in jobs],
        shards=[job_shard(job.id) for job in jobs],
        priorities=[job.spec.priority for job in jobs],
        run_outlines=sparse([encode_outline(job.spec, 1) for job in jobs]),
        fires_left=sparse([job.spec.max_fires for job in jobs]),
        **columns_of_next_fires([job.next_fire for job in jobs]),
    )


async def _watch_failures(transaction: Transaction, specs: Mapping[JobId, JobSpec], *, are_new: bool) -> None:
    """Note after how many failed runs in a row jobs are paused, or that they never are."""
    watched = {
        job_id: spec.pause_after_failures
        for job_id, spec in sorted(specs.items())
        if spec.pause_after_failures is not None
    }
    if watched:
        await transaction.execute(
            "watch_failures",
            job_ids=list(watched),
            shards=[job_shard(job_id) for job_id in watched],
            thresholds=list(watched.values()),
        )
    if not are_new and (others := sorted(specs.keys() - watched.keys())):
        await transaction.execute("unwatch_failures", job_ids=others)


async def _watch_starts(transaction: Transaction, specs: Mapping[JobId, JobSpec], *, are_new: bool) -> None:
    """Note which jobs fire when the cluster starts."""
    starting = [job_id for job_id, spec in sorted(specs.items()) if isinstance(spec.trigger, AtStart)]
    if starting:
        await transaction.execute("watch_starts", job_ids=starting)
    if not are_new and (others := sorted(specs.keys() - set(starting))):
        await transaction.execute("unwatch_starts", job_ids=others)


async def _keep_versions(
    transaction: Transaction, edits: Sequence[JobEdit], locked: Jobs, now: datetime
) -> None:
    job_ids = sorted(edit.job_id for edit in edits)
    await transaction.execute("raise_versions", job_ids=job_ids, now=now)
    versions = [(edit.job_id, locked[edit.job_id].version + 1, edit.spec) for edit in edits]
    await _add_versions(transaction, versions, now)


async def _add_versions(
    transaction: Transaction, versions: Sequence[tuple[JobId, int, JobSpec]], now: datetime
) -> None:
    await transaction.execute(
        "add_versions",
        job_ids=[job_id for job_id, _, _ in versions],
        versions=[version for _, version, _ in versions],
        specs=[encode_spec(spec) for _, _, spec in versions],
        now=now,
    )
