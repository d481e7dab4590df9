"""Fires clocks in sets: one statement wins the fires and inserts their runs (ADR 0040)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from asyncpg import Record

from mainspring.core.ids import LaneId, RunId, job_shard
from mainspring.core.model import LaneKey
from mainspring.core.planning import jittered
from mainspring.ports.store.nodes import Epochs
from mainspring.ports.store.schedule import DueClock, FireResult, FireStatus
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.inserts import LaneIds
from mainspring.stores.postgres.rows import common, milliseconds, sparse

_LOST = FireResult(FireStatus.LOST)
_FENCED = FireResult(FireStatus.FENCED)


async def fire_set(
    connections: Connections,
    lane_ids: LaneIds,
    clocks: Sequence[DueClock],
    *,
    epochs: Epochs,
    now: datetime,
) -> list[FireResult]:
    """Win the fires of clocks with an outline, and insert their runs. Return the results in the clocks' order."""
    ordered = sorted(clocks, key=lambda clock: clock.job_id)
    lanes = common(_lanes_of(ordered))
    keys = list(dict.fromkeys(lanes))
    values = _columns_of(ordered, epochs) | {"now": now}
    known = lane_ids.recall(keys)
    if known is not None:
        values |= _columns_of_lanes(lanes, dict(zip(keys, known, strict=True)))
        [row] = await connections.fetch(Role.FIRE, "fire_outlined", is_repeatable=False, **values)
        if row["lanes_held"] == len(known):
            return _results_of(clocks, row)

    async def work(transaction: Transaction) -> Record:
        held = await lane_ids.hold(transaction, keys)
        [row] = await transaction.fetch("fire_outlined", **values | _columns_of_lanes(lanes, held))
        return row

    return _results_of(clocks, await connections.transact(Role.FIRE, work))


def _lanes_of(clocks: Sequence[DueClock]) -> list[LaneKey]:
    """Return the lane of each clock's run. Clocks that share an outline share the lane, too."""
    lanes: list[LaneKey] = []
    known: dict[tuple[int, str, int], LaneKey] = {}
    for clock in clocks:
        outline = clock.outline
        assert outline is not None, "only a clock with an outline fires in a set"
        key = (id(outline), clock.tenant, clock.priority)
        lane = known.get(key)
        if lane is None:
            lane = known[key] = LaneKey(outline.queue, outline.route, clock.tenant, clock.priority)
        lanes.append(lane)
    return lanes


def _columns_of(clocks: Sequence[DueClock], epochs: Epochs) -> dict[str, Any]:
    """Return what the statement takes of the clocks, but for their lanes."""
    outlines = [clock.outline for clock in clocks if clock.outline is not None]
    fires_at = [clock.fire_at for clock in clocks]
    dues_at = [
        jittered(clock.job_id, clock.fire_at, outline.jitter) if outline.jitter else clock.fire_at
        for clock, outline in zip(clocks, outlines, strict=True)
    ]
    shards = sorted({job_shard(clock.job_id) for clock in clocks} & epochs.keys())
    return {
        "shards": shards,
        "epochs": [epochs[shard] for shard in shards],
        "job_ids": [clock.job_id for clock in clocks],
        "revisions": common([clock.revision for clock in clocks]),
        "fires_at": common(fires_at),
        "versions": common([outline.version for outline in outlines]),
        "dues_at": common(dues_at),
        "expiries_at": sparse(
            [
                None if outline.expires_after is None else due_at + outline.expires_after
                for due_at, outline in zip(dues_at, outlines, strict=True)
            ]
        ),
        "timeouts_ms": [milliseconds(timeout) for timeout in common([one.timeout for one in outlines])],
        "traces": sparse([clock.trace for clock in clocks]),
    }


def _columns_of_lanes(lanes: Sequence[LaneKey], ids: Mapping[LaneKey, LaneId]) -> dict[str, list[LaneId]]:
    return {"lane_ids": sorted(ids.values()), "run_lanes": [ids[lane] for lane in lanes]}


def _results_of(clocks: Sequence[DueClock], row: Record) -> list[FireResult]:
    fired: dict[Any, RunId] = dict(zip(row["job_ids"] or (), row["run_ids"] or (), strict=True))
    if len(fired) == len(clocks):
        return [FireResult(FireStatus.FIRED, (fired[clock.job_id],)) for clock in clocks]
    owned = frozenset(row["shards"])
    return [
        FireResult(FireStatus.FIRED, (fired[clock.job_id],))
        if clock.job_id in fired
        else (_LOST if job_shard(clock.job_id) in owned else _FENCED)
        for clock in clocks
    ]
