"""Batches, on SQLite: when lines have one, and which runs go into it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import apsw

from mainspring.core.batching import LineSize, cut
from mainspring.core.holding import LineStop
from mainspring.ports.store.limits import MOST_IN_BATCHES, BatchLine, LineKey, LineQuota
from mainspring.stores.sqlite.rows import NamedRow, to_instant, to_micros
from mainspring.stores.sqlite.statements import fetch_row, fetch_rows, fetch_value


def read_batches(db: apsw.Connection, keys: Sequence[LineKey], now: datetime) -> Iterator[BatchLine]:
    """Yield when lines have a batch."""
    at = to_micros(now)
    for key in keys:
        head = fetch_row(db, "read_batch", {**key._asdict(), "now": at})
        if head is None:
            continue
        size, head_at, full_at = size_of(head), to_instant(head.ready_at), None
        if head_at + size.wait > now:
            place = {**key._asdict(), "now": at, "before": size.size - 1}
            full_at = fetch_value(db, "read_filling", place)
        filled_at = None if full_at is None else to_instant(full_at)
        yield BatchLine(key, size.ready_at(head_at, filled_at), head_at)


def pick_batches(
    db: apsw.Connection,
    lines: Sequence[LineQuota],
    quotas: Mapping[LineKey, int],
    seats: int,
    now: datetime,
) -> tuple[list[tuple[LineKey, list[NamedRow]]], dict[LineKey, LineStop]]:
    """Return the batches that start, at most one for each seat, and which lines gave none."""
    batches: list[tuple[LineKey, list[NamedRow]]] = []
    stops: dict[LineKey, LineStop] = {}
    count = 0
    for line in lines:
        key = line.key
        if len(batches) >= seats or count >= MOST_IN_BATCHES or quotas[key] < 1:
            continue
        row = fetch_row(db, "read_size", {"key_id": key.key_id})
        size = LineSize() if row is None else size_of(row)
        most = min(quotas[key], seats - len(batches), max((MOST_IN_BATCHES - count) // size.size, 1))
        values = {"low": to_micros(line.low), "now": to_micros(now), "limit": most * size.size}
        rows = fetch_rows(db, "pick_lined_up", {**key._asdict(), **values})
        sizes = cut([to_instant(row.ready_at) for row in rows], size, most, now)
        if not sizes:
            stops[key] = LineStop(key.key_id, is_busy=True)
        for each in sizes:
            batches.append((key, rows[:each]))
            rows = rows[each:]
            count += each
    return batches, stops


def size_of(row: NamedRow) -> LineSize:
    """Return what a row of a rule says about batches."""
    if row.batch_size is None:
        return LineSize()
    return LineSize(row.batch_size, timedelta(milliseconds=row.batch_wait_ms))
