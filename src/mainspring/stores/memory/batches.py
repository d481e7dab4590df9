"""Batches, in memory: when lines have one, and which runs go into it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice

from mainspring.core.batching import MOST_SIZE, LineSize, cut
from mainspring.core.claiming import is_expired
from mainspring.core.holding import LineStop
from mainspring.core.why import BatchFacts
from mainspring.ports.store.limits import MOST_IN_BATCHES, BatchLine, LineKey, LineQuota
from mainspring.stores.memory.index import LAST_ID
from mainspring.stores.memory.lined_up import line_of
from mainspring.stores.memory.rows import RunRow
from mainspring.stores.memory.tables import Tables

_ONE_BY_ONE = LineSize()


def read_batches(tables: Tables, keys: Sequence[LineKey], now: datetime) -> Iterator[BatchLine]:
    """Yield when lines have a batch."""
    for key in keys:
        size = _size_of(tables, key)
        runs = _runs_of(tables, key, size.size, now=now)
        if runs:
            head_at = runs[0].ready_at
            is_over = head_at + size.wait <= now
            full_at = runs[-1].ready_at if len(runs) == size.size and not is_over else None
            yield BatchLine(key, size.ready_at(head_at, full_at), head_at)


def pick_batches(
    tables: Tables, lines: Sequence[LineQuota], quotas: Mapping[LineKey, int], seats: int, now: datetime
) -> tuple[list[tuple[LineKey, list[RunRow]]], dict[LineKey, LineStop]]:
    """Return the batches that start, at most one for each seat, and which lines gave none."""
    batches: list[tuple[LineKey, list[RunRow]]] = []
    stops: dict[LineKey, LineStop] = {}
    count = 0
    for line in lines:
        key, size = line.key, _size_of(tables, line.key)
        most = min(quotas[key], seats - len(batches), max((MOST_IN_BATCHES - count) // size.size, 1))
        if most < 1 or count >= MOST_IN_BATCHES:
            continue
        runs = _runs_of(tables, key, most * size.size, now=now, low=line.low, until=now)
        sizes = cut([run.ready_at for run in runs], size, most, now)
        if not sizes:
            stops[key] = LineStop(key.key_id, is_busy=True)
        for each in sizes:
            batches.append((key, runs[:each]))
            runs = runs[each:]
            count += each
    for key, runs in batches:
        for run in runs:
            tables.limits.keys[key.key_id].holds[run.id] = run.token + 1
    return batches, stops


def wait_for_batch(tables: Tables, run: RunRow, now: datetime) -> BatchFacts | None:
    """Return the batch for which a run waits; None if its job has none, or the run must be alone."""
    if run.crashes or not run.keys:
        return None
    line = line_of(run)
    key = tables.limits.keys[line.key_id]
    size = tables.limits.rules[key.tenant, key.limit].batch
    runs = [] if size is None else _runs_of(tables, line, MOST_SIZE, now=now)
    if size is None or not runs:
        return None
    ready = sum(run.ready_at <= now for run in runs)
    return BatchFacts(size=size.size, ready=ready, until=runs[0].ready_at + size.wait)


def _size_of(tables: Tables, line: LineKey) -> LineSize:
    key = tables.limits.keys.get(line.key_id)
    rule = None if key is None else tables.limits.rules[key.tenant, key.limit]
    return rule.batch if rule is not None and rule.batch is not None else _ONE_BY_ONE


def _runs_of(
    tables: Tables,
    line: LineKey,
    most: int,
    *,
    now: datetime,
    low: datetime | None = None,
    until: datetime | None = None,
) -> list[RunRow]:
    """Return the first runs of a line that have not expired, by `ready_at`."""
    lane = tables.lanes.get(line.lane_id)
    index = None if lane is None else lane.lines.get(line.key_id)
    if index is None:
        return []
    keys = index if until is None else index.between(None if low is None else (low,), (until, LAST_ID))
    found = (tables.runs[run_id] for _, run_id in keys)
    return list(islice((run for run in found if not is_expired(run.expires_at, now)), most))
