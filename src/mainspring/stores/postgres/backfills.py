"""Backfills and their steps."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from asyncpg import Record

from mainspring.core.audit import AuditEntry
from mainspring.core.backfill import (
    CHANGEABLE,
    Backfill,
    BackfillChange,
    BackfillDefinition,
    BackfillOptions,
    BackfillState,
    BackfillWork,
    SkipDone,
    VersionTime,
)
from mainspring.core.ids import BackfillId, JobId, RunId, job_shard
from mainspring.core.model import Priority
from mainspring.core.rates import Rate
from mainspring.core.states import RunState
from mainspring.ports.store.backfills import AddedBackfill, BackfillStep, FiresOfRuns, NewBackfill
from mainspring.ports.store.nodes import Epochs
from mainspring.ports.store.schedule import FireResult, FireStatus
from mainspring.stores.postgres.audit import write_audit
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.inserts import LaneIds, insert_planned
from mainspring.stores.postgres.rows import fire_range_of
from mainspring.stores.postgres.schedule import hold_shards

_LOST = FireResult(FireStatus.LOST)
_FENCED = FireResult(FireStatus.FENCED)
_MILLISECOND = timedelta(milliseconds=1)
_FIRST = UUID(int=0)
_LAST = UUID(int=2**128 - 1)


class PostgresBackfillStore:
    """`BackfillStore` on PostgreSQL."""

    _connections: Connections
    _lane_ids: LaneIds

    async def list_version_times(self, job_id: JobId) -> list[VersionTime]:
        rows = await self._connections.fetch(
            Role.READ, "list_version_times", is_repeatable=True, job_id=job_id
        )
        return [VersionTime(row["version"], row["created_at"]) for row in rows]

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
        [row] = await self._connections.fetch(
            Role.BROWSE,
            "read_fires_of_runs",
            is_repeatable=True,
            job_id=job_id,
            from_at=from_at,
            to_at=to_at,
            states=sorted(states),
            after=after,
            limit=limit,
        )
        return FiresOfRuns(frozenset(row["fires"]), None if row["last"] is None else RunId(row["last"]))

    async def add_backfill(
        self, new: NewBackfill, *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> AddedBackfill:
        async def work(transaction: Transaction) -> AddedBackfill:
            if not await transaction.fetch("lock_clocks", job_ids=[new.job_id]):
                return AddedBackfill(is_added=False)
            others = await transaction.fetch(
                "find_backfill_in_way", job_id=new.job_id, from_at=new.from_at, to_at=new.to_at
            )
            if others:
                return AddedBackfill(is_added=False, other=BackfillId(others[0]["id"]))
            await _insert(transaction, new, now)
            await write_audit(transaction, audit, [True])
            return AddedBackfill(is_added=True)

        return await self._connections.transact(Role.EDIT, work)

    async def get_backfills(self, backfill_ids: Sequence[BackfillId]) -> list[Backfill | None]:
        if not backfill_ids:
            return []
        rows = await self._connections.fetch(
            Role.READ, "get_backfills", is_repeatable=True, backfill_ids=list(backfill_ids)
        )
        found = {row["id"]: _backfill_of(row) for row in rows}
        return [found.get(backfill_id) for backfill_id in backfill_ids]

    async def list_backfills(
        self,
        tenant: str,
        *,
        job_id: JobId | None = None,
        before: BackfillId | None = None,
        limit: int = 100,
    ) -> list[Backfill]:
        values: dict[str, object] = {
            "tenant": tenant,
            "before": _LAST if before is None else before,
            "limit": limit,
        }
        name = "list_backfills"
        if job_id is not None:
            name, values["job_id"] = "list_backfills_of_job", job_id
        rows = await self._connections.fetch(Role.BROWSE, name, is_repeatable=True, **values)
        return [_backfill_of(row) for row in rows]

    async def change_backfill(
        self,
        backfill_id: BackfillId,
        change: BackfillChange,
        *,
        now: datetime,
        audit: Sequence[AuditEntry] = (),
    ) -> bool:
        async def work(transaction: Transaction) -> bool:
            changed = await transaction.fetch(
                "change_backfill",
                backfill_id=backfill_id,
                state=change.leads_to,
                states=sorted(CHANGEABLE[change]),
                now=now,
            )
            if changed and change is BackfillChange.CANCEL:
                await transaction.execute("close_sections", backfill_id=backfill_id, now=now)
            await write_audit(transaction, audit, [row["before"] != change.leads_to for row in changed])
            return bool(changed)

        return await self._connections.transact(Role.EDIT, work)

    async def list_waiting_of_backfill(self, backfill_id: BackfillId, *, limit: int) -> list[RunId]:
        rows = await self._connections.fetch(
            Role.WATCH, "list_waiting_of_backfill", is_repeatable=True, backfill_id=backfill_id, limit=limit
        )
        return [RunId(row["id"]) for row in rows]

    async def read_backfill_work(
        self, shards: Sequence[int], *, after: BackfillId | None, limit: int
    ) -> list[BackfillWork]:
        if not shards:
            return []
        rows = await self._connections.fetch(
            Role.WATCH,
            "read_backfill_work",
            is_repeatable=True,
            shards=shards,
            after=_FIRST if after is None else after,
            limit=limit,
        )
        return [
            BackfillWork(
                id=BackfillId(row["backfill_id"]),
                options=_options_of(row),
                section=fire_range_of(row),
                is_last=row["is_last"],
                level=row["level"],
                level_at=row["level_at"],
                live=row["live"],
                is_job_busy=row["is_job_busy"],
            )
            for row in rows
        ]

    async def advance_backfills(
        self, steps: Sequence[BackfillStep], *, epochs: Epochs, now: datetime
    ) -> list[FireResult]:
        if not steps:
            return []

        async def work(transaction: Transaction) -> list[FireResult]:
            owned = await hold_shards(transaction, (step.job_id for step in steps), epochs)
            allowed = [step for step in steps if job_shard(step.job_id) in owned]
            moved = await _move(transaction, allowed, now)
            results = await insert_planned(transaction, self._lane_ids, moved, now=now)
            fired = {step.id: result for step, result in zip(moved, results, strict=True)}
            return [
                fired.get(step.id, _LOST) if job_shard(step.job_id) in owned else _FENCED for step in steps
            ]

        results = await self._connections.transact(Role.FIRE, work)
        self._connections.servers.recent.note(now, results)
        return results


async def _insert(transaction: Transaction, new: NewBackfill, now: datetime) -> None:
    options = new.options
    await transaction.execute(
        "add_backfill",
        backfill_id=new.id,
        shard=job_shard(new.job_id),
        tenant=new.tenant,
        job_id=new.job_id,
        from_at=new.from_at,
        to_at=new.to_at,
        skip_done=options.skip_done,
        definition=options.definition,
        per_count=options.rate.count,
        per_ms=options.rate.per // _MILLISECOND,
        max_live=options.max_live,
        priority=options.priority,
        note=options.note,
        fires=new.fires,
        now=now,
    )
    await transaction.execute(
        "add_sections",
        backfill_id=new.id,
        shard=job_shard(new.job_id),
        job_id=new.job_id,
        versions=[section.version for section in new.sections],
        froms_at=[section.from_at for section in new.sections],
        tos_at=[section.to_at for section in new.sections],
        now=now,
    )


async def _move(transaction: Transaction, steps: Sequence[BackfillStep], now: datetime) -> list[BackfillStep]:
    """Move cursors, and count what they pass. Return the steps that took effect."""
    if not steps:
        return []
    rows = await transaction.fetch("lock_backfills", backfill_ids=sorted(step.id for step in steps))
    is_open = {row["id"] for row in rows if row["state"] == BackfillState.OPEN}
    ready = sorted((step for step in steps if step.id in is_open), key=lambda step: step.fire_range_id)
    rows = await transaction.fetch(
        "advance_sections",
        fire_range_ids=[step.fire_range_id for step in ready],
        cursors_from=[step.cursor_from for step in ready],
        cursors_to=[step.cursor_to for step in ready],
        are_done=[step.is_section_done for step in ready],
        now=now,
    )
    passed = {row["id"] for row in rows}
    moved = [step for step in ready if step.fire_range_id in passed]
    if moved:
        await transaction.execute(
            "count_backfills",
            backfill_ids=[step.id for step in moved],
            counts_made=[len(step.runs) for step in moved],
            counts_skipped=[step.skipped for step in moved],
            levels=[step.level for step in moved],
            levels_at=[step.level_at for step in moved],
            are_done=[step.is_done for step in moved],
            now=now,
        )
    return moved


def _options_of(row: Record) -> BackfillOptions:
    return BackfillOptions(
        skip_done=SkipDone(row["skip_done"]),
        definition=BackfillDefinition(row["definition"]),
        rate=Rate(row["per_count"], row["per_ms"] * _MILLISECOND),
        max_live=row["max_live"],
        priority=Priority(row["priority"]),
        note=row["note"],
    )


def _backfill_of(row: Record) -> Backfill:
    return Backfill(
        id=BackfillId(row["id"]),
        job_id=row["job_id"],
        tenant=row["tenant"],
        from_at=row["from_at"],
        to_at=row["to_at"],
        options=_options_of(row),
        state=BackfillState(row["state"]),
        fires=row["fires"],
        made=row["made"],
        skipped=row["skipped"],
        live=row["live"],
        cursor_at=row["cursor_at"],
        created_at=row["created_at"],
        closed_at=row["closed_at"],
        is_job_paused=row["is_job_paused"],
    )
