"""The archive's verbs, on SQLite. Ranges are spans of time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from functools import partial
from uuid import UUID

import apsw

from mainspring.core.archive import (
    COLUMNS,
    LINE,
    PART_WEIGHT,
    ArchiveDay,
    ArchiveHome,
    ArchiveKind,
    ArchivePart,
    ArchiveRange,
    RowSum,
    encode_line,
    first_of_batch,
    last_midnight,
    start_of_day,
    sum_up_days,
    weigh,
)
from mainspring.ports.store.archive import CopySink
from mainspring.ports.store.nodes import Epochs
from mainspring.stores._sql.archive import make_batch, make_part, values_of_part
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.nodes import owns_shard_0
from mainspring.stores.sqlite.rows import Row, to_instant, to_micros
from mainspring.stores.sqlite.statements import (
    execute,
    fetch_row,
    fetch_rows,
    fetch_tuples,
    fetch_value,
    fetch_values,
    iterate,
)

LOOK = 5000
"""Rows whose sizes are read at once: others read in between."""
PAGE = 500
"""Rows that are read at once, at most."""
PAGE_BYTES = 1 << 20
"""Bytes of a copy that are read at once, and one row more."""
_BEYOND = 2**31
"""Greater than the number of any part."""
_EPOCH = date(1970, 1, 1)
_LAST = 4_000_000
_LOWEST = -(2**63)
_WEIGH = {ArchiveKind.RUNS: "weigh_archived_runs", ArchiveKind.ATTEMPTS: "weigh_archived_attempts"}
_COPY = {ArchiveKind.RUNS: "copy_archived_runs", ArchiveKind.ATTEMPTS: "copy_archived_attempts"}
_COUNT = {ArchiveKind.RUNS: "count_archived_runs", ArchiveKind.ATTEMPTS: "count_archived_attempts"}
_Place = tuple[int, int]
"""When a row ended, and its id or that of its row."""


class SqliteArchiveStore:
    """Implements `ArchiveStore`."""

    _browser: Database
    _reader: Database
    _writer: Database

    async def find_unarchived_day(self, *, before: datetime) -> date | None:
        """See `ArchiveStore`."""
        return await self._reader.call(lambda db: find_unarchived(db, before))

    async def outline_archive_day(self, day: date, *, most: int = PART_WEIGHT) -> list[ArchiveRange]:
        """See `ArchiveStore`."""
        return [of for kind in ArchiveKind for of in await self._outline(day, kind, most)]

    async def _outline(self, day: date, kind: ArchiveKind, most: int) -> list[ArchiveRange]:
        since, until = _bounds(day)
        first: _Place = (since, _LOWEST)
        ranges: list[ArchiveRange] = []
        weight = size = 0
        rows: list[Row] = []
        at = first
        while not rows or len(rows) == LOOK:
            values = {"after_at": at[0], "after_id": at[1], "until": until, "line": LINE, "limit": LOOK}
            rows = await self._reader.call(partial(fetch_tuples, name=_WEIGH[kind], values=values))
            if not rows:
                break
            for ended_at, place, row_size in rows:
                if weight and weight + weigh(row_size) > most:
                    ranges.append(_make_range(kind, len(ranges), first, (ended_at, place), size))
                    first, weight, size = (ended_at, place), 0, 0
                weight, size = weight + weigh(row_size), size + row_size
            at = rows[-1][0], rows[-1][1] + 1
        return [*ranges, _make_range(kind, len(ranges), first, (until, _LOWEST), size)] if weight else []

    async def claim_archive(self, url: str, *, epochs: Epochs) -> str | None:
        """See `ArchiveStore`."""

        def work(db: apsw.Connection) -> str | None:
            if not owns_shard_0(db, epochs):
                return None
            _watch(db)
            installation: str = fetch_value(db, "claim_archive", {"url": url})
            return installation

        return await self._writer.call(work)

    async def read_archive(self) -> ArchiveHome:
        """See `ArchiveStore`."""
        row = await self._reader.call(lambda db: fetch_row(db, "read_archive"))
        assert row is not None, "a store has one"
        return ArchiveHome(installation=row.installation, url=row.archive_url)

    async def end_archive(self) -> None:
        """See `ArchiveStore`."""

        def work(db: apsw.Connection) -> None:
            execute(db, "unwatch_ended_runs")
            execute(db, "unwatch_ended_attempts")
            execute(db, "end_archive")

        await self._writer.call(work)

    async def watch_archive_day(self, day: date) -> None:
        """See `ArchiveStore`. Here all days are watched, from the store's first archive on."""
        await self._writer.call(_watch)

    async def copy_archive_range(self, day: date, of: ArchiveRange, sink: CopySink) -> None:
        """See `ArchiveStore`."""
        await sink.begin()
        at: _Place | None = (of.first, of.first_place)
        while at is not None:
            values = {"after_at": at[0], "after_id": at[1], "until": of.end, "until_id": of.end_place}
            lines, at = await self._reader.call(partial(_copy_page, kind=of.kind, values=values))
            if lines:
                await sink.write(lines)

    async def count_archive_range(self, day: date, of: ArchiveRange) -> RowSum:
        """See `ArchiveStore`."""
        values = {"first": of.first, "first_id": of.first_place, "until": of.end, "until_id": of.end_place}
        row = await self._reader.call(lambda db: fetch_row(db, _COUNT[of.kind], values))
        assert row is not None, "a count is a row"
        return RowSum(row.rows, (row.high << 31) + row.low)

    async def may_archive_day(self, day: date, *, epochs: Epochs, number: int = 0) -> bool:
        """See `ArchiveStore`."""
        return await self._reader.call(lambda db: _may_archive(db, day, number, epochs))

    async def save_archive_part(self, part: ArchivePart, *, epochs: Epochs) -> bool:
        """See `ArchiveStore`."""
        values = values_of_part(part)
        values |= {"day": _number(part.day), "changed_at": to_micros(part.changed_at)}

        def work(db: apsw.Connection) -> bool:
            if not _may_archive(db, part.day, part.number, epochs):
                return False
            execute(db, "save_archive_part", values)
            return True

        return await self._writer.call(work)

    async def list_archive_parts(self, day: date) -> list[ArchivePart]:
        """See `ArchiveStore`."""
        values = {"day": _number(day)}
        rows = await self._reader.call(lambda db: fetch_rows(db, "list_archive_parts", values))
        return [make_part(row._asdict(), _day(row.day), to_instant(row.changed_at)) for row in rows]

    async def verify_archive_day(self, day: date, *, epochs: Epochs, now: datetime) -> bool:
        """See `ArchiveStore`."""
        values = {"day": _number(day), "now": to_micros(now)}

        def work(db: apsw.Connection) -> bool:
            if not owns_shard_0(db, epochs):
                return False
            execute(db, "verify_archive_day", values)
            return db.changes() > 0

        return await self._writer.call(work)

    async def forget_archive_day(self, day: date, *, epochs: Epochs) -> None:
        """See `ArchiveStore`."""

        def work(db: apsw.Connection) -> None:
            if owns_shard_0(db, epochs):
                execute(db, "forget_archive_day", {"day": _number(day)})

        await self._writer.call(work)

    async def drop_archive_days(self, *, epochs: Epochs, now: datetime) -> list[date]:
        """See `ArchiveStore`."""

        def work(db: apsw.Connection) -> list[date]:
            if not owns_shard_0(db, epochs):
                return []
            dropped = []
            for number in fetch_values(db, "list_verified_days"):
                since, before = _bounds(_day(number))
                if not fetch_value(db, "holds_history", {"since": since, "before": before}):
                    execute(db, "drop_archive_day", {"day": number, "now": to_micros(now)})
                    dropped.append(_day(number))
            return dropped

        return await self._writer.call(work)

    async def list_archive_days(self, *, before: date | None = None, limit: int) -> Sequence[ArchiveDay]:
        """See `ArchiveStore`."""
        values = {"before": _LAST if before is None else _number(before), "limit": limit}
        rows = await self._browser.call(lambda db: fetch_rows(db, "list_archive_batches", values))
        batches = [make_batch(row._asdict(), _day(row.day), to_instant(row.changed_at)) for row in rows]
        return sum_up_days(batches)


def _watch(db: apsw.Connection) -> None:
    execute(db, "watch_ended_runs")
    execute(db, "watch_ended_attempts")


def find_unarchived(db: apsw.Connection, before: datetime) -> date | None:
    """Return the first day that ended at this instant or before it, has rows, and is not verified."""
    since, end = _LOWEST, to_micros(before)
    while (day := _first_day(db, since, end)) is not None:
        _, since = _bounds(day)
        if since > end:
            return None
        if not _is_archived(db, day, _BEYOND):  # one that was dropped has rows again
            return day
    return None


def bound_by_archive(db: apsw.Connection, before: datetime) -> datetime:
    """Return the instant before which the history may go, of what is over at another one."""
    if fetch_rows(db, "read_archive")[0].archive_url is None:
        return before
    whole = last_midnight(before)
    waiting = find_unarchived(db, whole)
    return whole if waiting is None else start_of_day(waiting)


def _may_archive(db: apsw.Connection, day: date, number: int, epochs: Epochs) -> bool:
    return owns_shard_0(db, epochs) and not _is_archived(db, day, first_of_batch(number))


def _is_archived(db: apsw.Connection, day: date, first: int) -> bool:
    return bool(fetch_value(db, "is_archived", {"day": _number(day), "first": first}))


def _first_day(db: apsw.Connection, since: int, before: int) -> date | None:
    values = {"since": since, "before": before}
    found = [fetch_value(db, name, values) for name in ("find_ended_run", "find_ended_attempt")]
    instants = [instant for instant in found if instant is not None]
    return to_instant(min(instants)).date() if instants else None


def _copy_page(db: apsw.Connection, kind: ArchiveKind, values: dict[str, int]) -> tuple[bytes, _Place | None]:
    """Return the lines of a page, and where the next one begins; None if there is no more."""
    columns = COLUMNS[kind]
    ended = [name for name, _ in columns].index("finished_at")
    lines: list[bytes] = []
    size = 0
    for row in iterate(db, _COPY[kind], values | {"limit": PAGE}):
        cells = (row[0], UUID(bytes=row[1]), *row[2:]) if kind is ArchiveKind.RUNS else row[: len(columns)]
        lines.append(encode_line(cells, columns).encode())
        size += len(lines[-1])
        if len(lines) == PAGE or size >= PAGE_BYTES:
            place = row[0] if kind is ArchiveKind.RUNS else row[-1]
            return b"".join(lines), (row[ended], place + 1)
    return b"".join(lines), None


def _make_range(kind: ArchiveKind, number: int, first: _Place, end: _Place, size: int) -> ArchiveRange:
    return ArchiveRange(kind, number, first[0], end[0], first_place=first[1], end_place=end[1], bytes=size)


def _bounds(day: date) -> tuple[int, int]:
    since = to_micros(start_of_day(day))
    return since, since + to_micros(start_of_day(_EPOCH + timedelta(days=1)))


def _number(day: date) -> int:
    return (day - _EPOCH).days


def _day(number: int) -> date:
    return _EPOCH + timedelta(days=number)
