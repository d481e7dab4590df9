"""Fires and fire ranges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from operator import itemgetter

from mainspring.core.ids import FireRangeId, JobId, job_shard
from mainspring.core.model import FireRange, Priority
from mainspring.ports.codec import decode_outline
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
)
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.fire_set import fire_set
from mainspring.stores.postgres.inserts import LaneIds, insert_planned
from mainspring.stores.postgres.rows import (
    EVER,
    columns_of_fire_ranges,
    columns_of_next_fires,
    fire_range_of,
    sparse,
)

_PRIORITIES = tuple(Priority)
_LOST = FireResult(FireStatus.LOST)
_FENCED = FireResult(FireStatus.FENCED)


class PostgresScheduleStore:
    """`ScheduleStore` on PostgreSQL."""

    _connections: Connections
    _lane_ids: LaneIds

    async def read_due(
        self, shards: Sequence[int], *, until: datetime, limit: int, since: datetime | None = None
    ) -> list[DueClock]:
        if not shards:
            return []
        values = {
            "priorities": list(Priority),
            "shards": shards,
            "since": since or EVER,
            "until": until,
            "limit": limit,
        }
        rows = await self._connections.fetch(Role.PLAN, "read_due", is_repeatable=True, **values)
        return [_due_clock(*row) for row in rows]

    async def record_fires(self, fires: Sequence[Fire], *, epochs: Epochs, now: datetime) -> list[FireResult]:
        if not fires:
            return []

        async def work(transaction: Transaction) -> list[FireResult]:
            owned = await hold_shards(transaction, (fire.job_id for fire in fires), epochs)
            allowed = [fire for fire in fires if job_shard(fire.job_id) in owned]
            won_ids = await _win_fires(transaction, allowed)
            won = [fire for fire in allowed if fire.job_id in won_ids]
            fire_ranges = [fire_range for fire in won for fire_range in fire.fire_ranges]
            if fire_ranges:
                await transaction.execute("add_fire_ranges", now=now, **columns_of_fire_ranges(fire_ranges))
            made = await insert_planned(transaction, self._lane_ids, won, now=now)
            fired = {fire.job_id: result for fire, result in zip(won, made, strict=True)}
            return [
                fired.get(fire.job_id, _LOST) if job_shard(fire.job_id) in owned else _FENCED
                for fire in fires
            ]

        results = await self._connections.transact(Role.FIRE, work)
        self._connections.servers.recent.note(now, results)
        return results

    async def fire_outlined(
        self, clocks: Sequence[DueClock], *, epochs: Epochs, now: datetime
    ) -> list[FireResult]:
        if not clocks:
            return []
        results = await fire_set(self._connections, self._lane_ids, clocks, epochs=epochs, now=now)
        self._connections.servers.recent.note(now, results)
        return results

    async def add_fire_ranges(self, fire_ranges: Sequence[NewFireRange], *, now: datetime) -> None:
        if not fire_ranges:
            return

        async def work(transaction: Transaction) -> None:
            await transaction.execute("add_fire_ranges", now=now, **columns_of_fire_ranges(fire_ranges))

        await self._connections.transact(Role.EDIT, work)

    async def read_fire_ranges(
        self, shards: Sequence[int], *, after: FireRangeId = NO_FIRE_RANGE, limit: int
    ) -> list[CatchUpWork]:
        if not shards:
            return []
        rows = await self._connections.fetch(
            Role.WATCH, "read_fire_ranges", is_repeatable=True, shards=shards, after=after, limit=limit
        )
        return [
            CatchUpWork(
                fire_range=fire_range_of(row),
                newest=row["newest"],
                level=row["level"],
                level_at=row["level_at"],
                live=row["live"],
            )
            for row in sorted(rows, key=itemgetter("id"))
        ]

    async def advance_fire_ranges(
        self, steps: Sequence[FireRangeStep], *, epochs: Epochs, now: datetime
    ) -> list[FireResult]:
        if not steps:
            return []

        async def work(transaction: Transaction) -> list[FireResult]:
            owned = await hold_shards(transaction, (step.job_id for step in steps), epochs)
            allowed = [step for step in steps if job_shard(step.job_id) in owned]
            if not allowed:
                return [_FENCED] * len(steps)
            await transaction.fetch("lock_clocks", job_ids=sorted({step.job_id for step in allowed}))
            moved = await _move_cursors(transaction, allowed, now)
            done = [step for step in allowed if moved.get(step.fire_range_id) is step]
            if done:
                await transaction.execute(
                    "keep_permits",
                    job_ids=[step.job_id for step in done],
                    levels=[step.level for step in done],
                    levels_at=[step.level_at for step in done],
                )
            made = await insert_planned(transaction, self._lane_ids, done, now=now)
            fired = {step.fire_range_id: result for step, result in zip(done, made, strict=True)}
            return [_result_of(step, owned, moved, fired) for step in steps]

        results = await self._connections.transact(Role.FIRE, work)
        self._connections.servers.recent.note(now, results)
        return results

    async def list_fire_ranges(self, job_id: JobId, *, limit: int = 100) -> list[FireRange]:
        rows = await self._connections.fetch(
            Role.BROWSE, "list_fire_ranges", is_repeatable=True, job_id=job_id, limit=limit
        )
        return [fire_range_of(row) for row in rows]


def _due_clock(
    job_id: JobId,
    tenant: str,
    version: int,
    priority: int,
    revision: int,
    fire_at: datetime,
    due_at: datetime,
    fired_through: datetime | None,
    run_outline: str | None,
    fires_left: int | None,
) -> DueClock:
    """Make a clock from the columns of `read_due`."""
    return DueClock(
        job_id=job_id,
        tenant=tenant,
        version=version,
        priority=_PRIORITIES[priority],
        revision=revision,
        fire_at=fire_at,
        due_at=due_at,
        fired_through=fired_through,
        outline=decode_outline(run_outline, version),
        fires_left=fires_left,
    )


async def hold_shards(transaction: Transaction, job_ids: Iterable[JobId], epochs: Epochs) -> set[int]:
    """Hold the jobs' shards, and return those that the writer still owns (law 3)."""
    return await hold_these_shards(transaction, map(job_shard, job_ids), epochs)


async def hold_these_shards(transaction: Transaction, shards: Iterable[int], epochs: Epochs) -> set[int]:
    """Hold shards, and return those that the writer still owns (law 3)."""
    rows = await transaction.fetch("hold_shards", shards=sorted(set(shards)))
    return {row["shard"] for row in rows if epochs.get(row["shard"]) == row["epoch"]}


async def _win_fires(transaction: Transaction, fires: Sequence[Fire]) -> set[JobId]:
    """Move the clocks of the fires that are not stale. Return the jobs whose clocks moved (law 2)."""
    if not fires:
        return set()
    ordered = sorted(fires, key=lambda fire: fire.job_id)
    rows = await transaction.fetch(
        "fire_clocks",
        job_ids=[fire.job_id for fire in ordered],
        revisions=[fire.revision for fire in ordered],
        fires_at=[fire.fire_at for fire in ordered],
        **columns_of_next_fires([fire.next_fire for fire in ordered]),
        fired_throughs=[fire.fired_through for fire in ordered],
        fires_left=sparse([fire.fires_left for fire in ordered]),
    )
    return {row["job_id"] for row in rows}


async def _move_cursors(
    transaction: Transaction, steps: Sequence[FireRangeStep], now: datetime
) -> dict[FireRangeId, FireRangeStep]:
    """Apply the steps.

    Return those that took effect, by fire range. A second step of a fire range in one call is stale.
    """
    first: dict[FireRangeId, FireRangeStep] = {}
    for step in steps:
        first.setdefault(step.fire_range_id, step)
    ordered = sorted(first.values(), key=lambda step: step.fire_range_id)
    rows = await transaction.fetch(
        "advance_fire_ranges",
        fire_range_ids=[step.fire_range_id for step in ordered],
        cursors_from=[step.cursor_from for step in ordered],
        cursors_to=[step.cursor_to for step in ordered],
        are_done=[step.is_done for step in ordered],
        now=now,
    )
    return {row["id"]: first[row["id"]] for row in rows}


def _result_of(
    step: FireRangeStep,
    owned: set[int],
    moved: dict[FireRangeId, FireRangeStep],
    fired: dict[FireRangeId, FireResult],
) -> FireResult:
    if job_shard(step.job_id) not in owned:
        return _FENCED
    return fired[step.fire_range_id] if moved.get(step.fire_range_id) is step else _LOST
