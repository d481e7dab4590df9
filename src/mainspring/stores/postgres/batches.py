"""Batches, on PostgreSQL: when lines have one, and which runs go into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from asyncpg import Record

from mainspring.core.batching import LineSize, cut
from mainspring.core.holding import LineStop
from mainspring.core.ids import KeyId, RunId
from mainspring.ports.store.limits import MOST_IN_BATCHES, BatchLine, LineKey, LineQuota
from mainspring.stores.postgres.connection import Transaction


def batch_line_of(row: Record) -> BatchLine:
    """Return when a line has a batch."""
    key = LineKey(row["key_id"], row["lane_id"])
    return BatchLine(key, size_of(row).ready_at(row["head_at"], row["full_at"]), row["head_at"])


@dataclass(slots=True)
class PickedBatches:
    """What is to start.

    Attributes:
        rows: of the runs, batch after batch.
        calls: the line of each run, and the place of its batch among all of them.
        stops: the lines that give nothing.
    """

    rows: list[Record] = field(default_factory=list)
    calls: dict[RunId, tuple[LineKey, int]] = field(default_factory=dict)
    stops: dict[LineKey, LineStop] = field(default_factory=dict)


async def pick_batches(
    transaction: Transaction, lines: Sequence[LineQuota], seats: int, now: datetime
) -> PickedBatches:
    """Lock the runs of lines that have a batch, at most one batch for each seat.

    The keys are locked first. So a claim sees all runs that the one before has left, and takes as many as there are.
    """
    key_ids = sorted({line.key.key_id for line in lines})
    found = await transaction.fetch("lock_batches", key_ids=key_ids)
    sizes = {row["id"]: size_of(row) for row in found}
    picked = PickedBatches()
    for line in lines:
        if line.key.key_id not in sizes:
            picked.stops[line.key] = LineStop(line.key.key_id, is_busy=True)
    wanted = _share(lines, sizes, seats)
    ready = await _pick(transaction, wanted, sizes, now) if wanted else {}
    used = 0
    for line, most in wanted:
        rows, left = ready.get(line.key, []), min(most, seats - used)
        if left < 1:
            break
        cuts = cut([row["ready_at"] for row in rows], sizes[line.key.key_id], left, now)
        if not cuts:
            picked.stops[line.key] = LineStop(line.key.key_id, is_busy=True)
        for each in cuts:
            picked.rows += rows[:each]
            picked.calls.update((row["id"], (line.key, used)) for row in rows[:each])
            rows = rows[each:]
            used += 1
    return picked


def _share(
    lines: Sequence[LineQuota], sizes: Mapping[KeyId, LineSize], seats: int
) -> list[tuple[LineQuota, int]]:
    """Return from which lines to pick, and how many batches of each, so that not many more runs are locked than go."""
    wanted: list[tuple[LineQuota, int]] = []
    count = 0
    for line in lines:
        if line.key.key_id not in sizes or line.quota < 1:
            continue
        if count >= MOST_IN_BATCHES:
            break
        size = sizes[line.key.key_id].size
        most = min(line.quota, seats, max((MOST_IN_BATCHES - count) // size, 1))
        wanted.append((line, most))
        count += most * size
    return wanted


async def _pick(
    transaction: Transaction,
    wanted: Sequence[tuple[LineQuota, int]],
    sizes: Mapping[KeyId, LineSize],
    now: datetime,
) -> dict[LineKey, list[Record]]:
    quotas = [most * sizes[line.key.key_id].size for line, most in wanted]
    rows = await transaction.fetch(
        "pick_lined_up",
        key_ids=[line.key.key_id for line, _ in wanted],
        lane_ids=[line.key.lane_id for line, _ in wanted],
        lows=[line.low for line, _ in wanted],
        quotas=quotas,
        limit=sum(quotas),
        now=now,
    )
    picked: dict[LineKey, list[Record]] = {}
    for row in rows:
        picked.setdefault(LineKey(row["key_id"], row["lane_id"]), []).append(row)
    return picked


def size_of(row: Record) -> LineSize:
    """Return what a row of a rule says about batches."""
    if row["batch_size"] is None:
        return LineSize()
    return LineSize(row["batch_size"], timedelta(milliseconds=row["batch_wait_ms"]))
