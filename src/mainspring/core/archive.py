"""The archive: what is written of the history before it is removed, and how far that has come.

A day of the history is written in parts, each a file, with a name that follows from what is in it: a part that is
written twice lies in the same place. The day may be removed once all its parts were read back from where they lie, and
hold as many rows and the same sum of ids as the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from itertools import groupby
from typing import Literal

from mainspring.core.values import value

MARGIN = timedelta(hours=1)
"""A day is written this long after its end at the earliest: nothing of it is on its way any more."""
FOLDER = "history/v1"
"""Where everything lies below the archive's address. A file whose columns mean something else gets another number."""
NULL = r"\N"
BATCH = 100_000
"""A day that is in the archive and has rows that are not, gets a batch of parts whose numbers begin at the next
multiple of this. Files that are there are left as they are."""
PART_WEIGHT = 64 << 20
"""Bytes of a copy that become one part, unless something else is asked for."""
WIDE = 4096
"""Bytes of a row in a copy from which on it counts `WIDE_FACTOR` times: what makes a file of rows has two thousand of
them in memory at once."""
WIDE_FACTOR = 4
LINE = 300
"""Bytes that a row takes in a copy without its contents, about."""

ColumnKind = Literal["number", "text", "instant", "bytes", "uuid"]
"""What a column holds: an instant as microseconds since 1970, bytes as hexadecimal after `\\x`."""


class ArchiveKind(StrEnum):
    """What rows a part holds."""

    RUNS = "runs"
    ATTEMPTS = "attempts"


class ArchiveState(StrEnum):
    """How far a part has come."""

    WRITTEN = "WRITTEN"
    VERIFIED = "VERIFIED"
    DROPPED = "DROPPED"


RUN_COLUMNS: tuple[tuple[str, ColumnKind], ...] = (
    ("id", "number"),
    ("job_id", "uuid"),
    ("job", "text"),
    ("version", "number"),
    ("tenant", "text"),
    ("queue", "text"),
    ("route", "text"),
    ("priority", "number"),
    ("kind", "text"),
    ("state", "text"),
    ("reason", "text"),
    ("fire_at", "instant"),
    ("due_at", "instant"),
    ("created_at", "instant"),
    ("started_at", "instant"),
    ("finished_at", "instant"),
    ("attempt", "number"),
    ("token", "number"),
    ("crashes", "number"),
    ("session_id", "number"),
    ("error", "text"),
    ("payload", "bytes"),
    ("result", "bytes"),
    ("output", "text"),
    ("idempotency_key", "text"),
    ("fire_range_id", "number"),
    ("redrive_of", "number"),
    ("trace", "text"),
    ("flow_id", "number"),
    ("step", "number"),
    ("item", "number"),
    ("flow_state", "text"),
)
"""The columns of a run, in the order in which stores copy them; the first is its id.

The trace context and the state of a workflow's run are in hexadecimal; the second one says how its steps have ended,
also those that never ran. The three before it say of which step of which workflow's run a run is.
"""

ATTEMPT_COLUMNS: tuple[tuple[str, ColumnKind], ...] = (
    ("run_id", "number"),
    ("token", "number"),
    ("number", "number"),
    ("outcome", "text"),
    ("worker", "text"),
    ("host", "text"),
    ("started_at", "instant"),
    ("finished_at", "instant"),
    ("error", "text"),
    ("output", "text"),
)
"""The columns of an attempt; the first is the id of its run."""

COLUMNS: dict[ArchiveKind, tuple[tuple[str, ColumnKind], ...]] = {
    ArchiveKind.RUNS: RUN_COLUMNS,
    ArchiveKind.ATTEMPTS: ATTEMPT_COLUMNS,
}


@value()
class ArchiveRange:
    """A piece of a day that becomes one part.

    Attributes:
        number: its place among the day's pieces of its kind, from 0.
        first, end: the store's own bounds, `end` outside.
        first_place, end_place: where the piece begins among the rows at `first`, and ends among those at `end`.
        bytes: about how much a copy of it takes.
    """

    kind: ArchiveKind
    number: int
    first: int
    end: int
    first_place: int = 0
    end_place: int = 0
    bytes: int = 0


@value()
class RowSum:
    """How many rows there are, and the sum of their ids (those of the runs, for attempts)."""

    rows: int = 0
    ids: int = 0

    def __add__(self, other: RowSum) -> RowSum:
        """Add up two."""
        return RowSum(self.rows + other.rows, self.ids + other.ids)


@value(kw_only=True)
class ArchivePart:
    """A file in the archive.

    Attributes:
        url: where it lies.
        sum: of the rows in it. Without rows there is no file.
        first_id, last_id: the lowest and the highest id in it; None if it has no rows.
        bytes: its size.
        digest: SHA-256 of the file.
        changed_at: when it got its state.
        known: of the rows of its range that other files of the day had before.
    """

    day: date
    kind: ArchiveKind
    number: int
    url: str
    sum: RowSum
    first_id: int | None
    last_id: int | None
    digest: bytes
    bytes: int
    changed_at: datetime
    state: ArchiveState = ArchiveState.WRITTEN
    known: RowSum = RowSum()

    @property
    def total(self) -> RowSum:
        """Of all rows of its range."""
        return self.sum + self.known


@value(kw_only=True)
class ArchiveDay:
    """A day of the archive, as the store knows it.

    Attributes:
        state: the least that any of its parts has.
        parts: those that have rows.
        runs, attempts: rows, also those that files of the day had before.
        changed_at: when the last of its parts got its state.
    """

    day: date
    state: ArchiveState
    parts: int
    runs: int
    attempts: int
    bytes: int
    changed_at: datetime


@value(kw_only=True)
class ArchiveHome:
    """Where a store's history goes.

    Attributes:
        installation: tells the store, and copies of it, from others.
        url: the address of its archive; None if it has none.
    """

    installation: str
    url: str | None


def part_name(day: date, kind: ArchiveKind, number: int) -> str:
    """Return where a part lies below the archive's address."""
    prefix = "part" if kind is ArchiveKind.RUNS else "attempts"
    return f"{day_folder(day)}/{prefix}-{number:04}.parquet"


@value(kw_only=True)
class ArchiveBatch:
    """The parts of one kind of a day that were written together.

    Attributes:
        number: of the batch, from 0.
        state: the least that any of its parts has.
        parts: those that have rows.
        rows, known: in its parts; and in files that were there before.
        changed_at: when the last of its parts got its state.
    """

    day: date
    kind: ArchiveKind
    number: int
    state: ArchiveState
    parts: int
    rows: int
    known: int
    bytes: int
    changed_at: datetime


def sum_up_days(batches: Iterable[ArchiveBatch]) -> list[ArchiveDay]:
    """Return the days of batches, which come in the order of their days."""
    return [_sum_up_day(day, list(of_day)) for day, of_day in groupby(batches, key=lambda batch: batch.day)]


def _sum_up_day(day: date, batches: Sequence[ArchiveBatch]) -> ArchiveDay:
    states = list(ArchiveState)
    return ArchiveDay(
        day=day,
        state=min((batch.state for batch in batches), key=states.index),
        parts=sum(batch.parts for batch in batches),
        runs=_count_rows([batch for batch in batches if batch.kind is ArchiveKind.RUNS]),
        attempts=_count_rows([batch for batch in batches if batch.kind is ArchiveKind.ATTEMPTS]),
        bytes=sum(batch.bytes for batch in batches),
        changed_at=max(batch.changed_at for batch in batches),
    )


def _count_rows(batches: Sequence[ArchiveBatch]) -> int:
    """Count the rows of a day once that the store has had: some of what was known is in batches before."""
    rows = elsewhere = 0
    for batch in sorted(batches, key=lambda batch: batch.number):
        elsewhere = max(elsewhere, batch.known - rows)
        rows += batch.rows
    return rows + elsewhere


def number_of(name: str) -> int:
    """Return the number of a part from its name; 0 if it has none."""
    digits = name.rpartition("-")[2].removesuffix(".parquet")
    return int(digits) if digits.isdecimal() else 0


def first_of_batch(number: int) -> int:
    """Return the first number of the batch that a part belongs to."""
    return number // BATCH * BATCH


def next_batch(parts: Sequence[ArchivePart], *, last: int | None = None) -> int:
    """Return the first number of the batch that is written of a day: after all that are settled.

    Args:
        parts: what the store knows of the day.
        last: the highest number of a part that the archive has of the day; None if it has none.
    """
    settled = [part.number for part in parts if part.state is ArchiveState.DROPPED]
    settled += [] if last is None else [last]
    return first_of_batch(max(settled)) + BATCH if settled else 0


def weigh(size: int) -> int:
    """Return how much a row counts that takes so many bytes in a copy."""
    return size * WIDE_FACTOR if size > WIDE else size


def day_folder(day: date) -> str:
    """Return where the parts of a day lie below the archive's address."""
    return f"{FOLDER}/day={day.isoformat()}"


def start_of_day(day: date) -> datetime:
    """Return the first instant of a day in UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def last_midnight(instant: datetime) -> datetime:
    """Return the last midnight in UTC at an instant or before it."""
    return start_of_day(instant.astimezone(UTC).date())


def encode_line(columns: Sequence[object], kinds: Sequence[tuple[str, ColumnKind]]) -> str:
    """Return a row as a line of CSV, as PostgreSQL's COPY writes it when NULL is written as `core.archive.NULL`.

    Args:
        columns: numbers, texts, bytes, instants as microseconds; None is NULL.
    """
    cells = [NULL if cell is None else _encode_cell(cell) for cell, _ in zip(columns, kinds, strict=True)]
    return ",".join(cells) + "\n"


def _encode_cell(cell: object) -> str:
    if isinstance(cell, bytes):
        return f"\\x{cell.hex()}"
    if isinstance(cell, int):
        return str(int(cell))
    text = str(cell).replace('"', '""')
    return f'"{text}"'


@value(kw_only=True)
class ArchivedFile:
    """What a file in the archive is like, as it was made or as it was read back.

    Attributes:
        name: where it lies below the archive's address.
        sum: of the rows in it. Without rows there is no file.
        first_id, last_id: the lowest and the highest id in it; None if it has no rows.
        known: of the rows that were left out, because other files of the day have them.
    """

    name: str
    kind: ArchiveKind
    sum: RowSum
    first_id: int | None
    last_id: int | None
    digest: bytes
    bytes: int
    known: RowSum = RowSum()


def is_as_written(part: ArchivePart, file: ArchivedFile) -> bool:
    """Return whether a file that was read back is the part that was written."""
    return (part.sum, part.bytes, part.digest) == (file.sum, file.bytes, file.digest)


def find_gap(
    ranges: Sequence[ArchiveRange], sums: Sequence[RowSum], parts: Sequence[ArchivePart]
) -> str | None:
    """Return what the parts of a day lack of its ranges, or have too much; None if they are the same.

    Args:
        sums: what the history has in each range.
    """
    for kind in ArchiveKind:
        there = sum((total for of, total in zip(ranges, sums, strict=True) if of.kind is kind), RowSum())
        written = sum((part.total for part in parts if part.kind is kind), RowSum())
        if there != written:
            return f"the history has {there.rows:,} {kind.value}, the archive {written.rows:,}, or others"
    return None
