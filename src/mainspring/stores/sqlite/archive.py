"""The archive's verbs, on SQLite. Ranges are spans of time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from functools import partial
from uuid import UUID

import apsw

from mainspring.core.archive import (
    COLUMNS,
    ArchiveDay,
    ArchiveKind,
    ArchivePart,
    ArchiveRange,
    RowSum,
    encode_line,
    first_of_batch,
    start_of_day,
)
from mainspring.ports.store.archive import CopySink
from mainspring.ports.store.nodes import Epochs
from mainspring.stores._sql.archive import make_day, make_part, values_of_part
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.nodes import owns_shard_0
from mainspring.stores.sqlite.rows import to_instant, to_micros
from mainspring.stores.sqlite.statements import (
    execute,
    fetch_row,
    fetch_rows,
    fetch_tuples,
    fetch_value,
    fetch_values,
)

ROWS = 100_000
"""Rows of a range, but for those that end at one instant."""
PAGE = 50
"""Rows that are read at once, each with up to 130 kB and more: others read in between."""
_BEYOND = 2**31
"""Greater than the number of any part."""
_EPOCH = date(1970, 1, 1)
_LAST = 4_000_000
_LOWEST = -(2**63)
_CUT = {ArchiveKind.RUNS: "cut_archived_runs", ArchiveKind.ATTEMPTS: "cut_archived_attempts"}
_COPY = {ArchiveKind.RUNS: "copy_archived_runs", ArchiveKind.ATTEMPTS: "copy_archived_attempts"}
_COUNT = {ArchiveKind.RUNS: "count_archived_runs", ArchiveKind.ATTEMPTS: "count_archived_attempts"}


class SqliteArchiveStore:
    """Implements `ArchiveStore`."""

    _browser: Database
    _reader: Database
    _writer: Database

    async def find_unarchived_day(self, *, before: datetime) -> date | None:
        """See `ArchiveStore`."""
        return await self._reader.call(lambda db: find_unarchived(db, before))

    async def outline_archive_day(self, day: date) -> list[ArchiveRange]:
        """See `ArchiveStore`."""
        ranges = []
        for kind in ArchiveKind:
            since, before = _bounds(day)
            number = 0
            while since < before:
                values = {"since": since, "before": before, "step": ROWS}
                work = partial(fetch_value, name=_CUT[kind], values=values)
                cut: int | None = await self._reader.call(work)
                end = before if cut is None else max(cut, since + 1)
                ranges.append(ArchiveRange(kind, number, since, end))
                number, since = number + 1, end
        return [of for of in ranges if (await self.count_archive_range(day, of)).rows or of.number]

    async def copy_archive_range(self, day: date, of: ArchiveRange, sink: CopySink) -> None:
        """See `ArchiveStore`."""
        await sink.begin()
        after, after_id = of.first, _LOWEST
        while True:
            values = {"after_at": after, "after_id": after_id, "until": of.end, "limit": PAGE}
            lines, last = await self._reader.call(partial(_copy_page, kind=of.kind, values=values))
            if lines:
                await sink.write(lines)
            if last is None:
                return
            after, after_id = last

    async def count_archive_range(self, day: date, of: ArchiveRange) -> RowSum:
        """See `ArchiveStore`."""
        values = {"first": of.first, "until": of.end}
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
        rows = await self._browser.call(lambda db: fetch_rows(db, "list_archive_days", values))
        return [make_day(row._asdict(), _day(row.day), to_instant(row.changed_at)) for row in rows]


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


def _may_archive(db: apsw.Connection, day: date, number: int, epochs: Epochs) -> bool:
    return owns_shard_0(db, epochs) and not _is_archived(db, day, first_of_batch(number))


def _is_archived(db: apsw.Connection, day: date, first: int) -> bool:
    return bool(fetch_value(db, "is_archived", {"day": _number(day), "first": first}))


def _first_day(db: apsw.Connection, since: int, before: int) -> date | None:
    values = {"since": since, "before": before}
    found = [fetch_value(db, name, values) for name in ("find_ended_run", "find_ended_attempt")]
    instants = [instant for instant in found if instant is not None]
    return to_instant(min(instants)).date() if instants else None


def _copy_page(
    db: apsw.Connection, kind: ArchiveKind, values: dict[str, int]
) -> tuple[bytes, tuple[int, int] | None]:
    """Return the lines of a page, and where the next one begins; None if there is no more."""
    rows = fetch_tuples(db, _COPY[kind], values)
    columns = COLUMNS[kind]
    if kind is ArchiveKind.RUNS:
        rows = [(row[0], UUID(bytes=row[1]), *row[2:]) for row in rows]
    lines = "".join(encode_line(row[: len(columns)], columns) for row in rows).encode()
    if len(rows) < values["limit"]:
        return lines, None
    ended = [name for name, _ in columns].index("finished_at")
    place = rows[-1][0] if kind is ArchiveKind.RUNS else rows[-1][-1]
    return lines, (rows[-1][ended], place)


def _bounds(day: date) -> tuple[int, int]:
    since = to_micros(start_of_day(day))
    return since, since + to_micros(start_of_day(_EPOCH + timedelta(days=1)))


def _number(day: date) -> int:
    return (day - _EPOCH).days


def _day(number: int) -> date:
    return _EPOCH + timedelta(days=number)
