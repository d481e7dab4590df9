"""The archive: what is written of the history before it is removed, and how far that has come.

A day of the history is written in parts, each a file, with a name that follows from what is in it: a part that is
written twice lies in the same place. The day may be removed once all its parts were read back from where they lie, and
hold as many rows and the same sum of ids as the history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Literal

from mainspring.core.values import value

MARGIN = timedelta(hours=1)
"""A day is written this long after its end at the earliest: nothing of it is on its way any more."""
FOLDER = "history/v1"
"""Where everything lies below the archive's address. A file whose columns mean something else gets another number."""
NULL = r"\N"
BATCH = 100_000
"""A day that was dropped and has rows again, as the store's clock was ahead, gets a batch of parts whose numbers begin
at the next multiple of this."""

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
)
"""The columns of a run, in the order in which stores copy them; the first is its id.

The trace context is in hexadecimal.
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
    """

    kind: ArchiveKind
    number: int
    first: int
    end: int


@value()
class RowSum:
    """How many rows there are, and the sum of their ids (those of the runs, for attempts)."""

    rows: int = 0
    ids: int = 0

    def __add__(self, other: RowSum) -> RowSum:
        """Add up two."""
        return RowSum(self.rows + other.rows, self.ids + other.ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePart:
    """A file in the archive.

    Attributes:
        url: where it lies.
        sum: of the rows in it.
        first_id, last_id: the lowest and the highest id in it; None if it has no rows.
        bytes: its size.
        digest: SHA-256 of the file.
        changed_at: when it got its state.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveDay:
    """A day of the archive, as the store knows it.

    Attributes:
        state: the least that any of its parts has.
        runs, attempts: rows.
        changed_at: when the last of its parts got its state.
    """

    day: date
    state: ArchiveState
    parts: int
    runs: int
    attempts: int
    bytes: int
    changed_at: datetime


def part_name(day: date, kind: ArchiveKind, number: int) -> str:
    """Return where a part lies below the archive's address."""
    prefix = "part" if kind is ArchiveKind.RUNS else "attempts"
    return f"{day_folder(day)}/{prefix}-{number:04}.parquet"


def first_of_batch(number: int) -> int:
    """Return the first number of the batch that a part belongs to."""
    return number // BATCH * BATCH


def next_batch(parts: Sequence[ArchivePart]) -> int:
    """Return the first number of the batch that is written of a day, from its parts: after those that were dropped."""
    dropped = [part.number for part in parts if part.state is ArchiveState.DROPPED]
    return first_of_batch(max(dropped)) + BATCH if dropped else 0


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedFile:
    """What a file in the archive is like, as it was made or as it was read back.

    Attributes:
        name: where it lies below the archive's address.
        first_id, last_id: the lowest and the highest id in it; None if it has no rows.
    """

    name: str
    kind: ArchiveKind
    sum: RowSum
    first_id: int | None
    last_id: int | None
    digest: bytes
    bytes: int


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
        written = sum((part.sum for part in parts if part.kind is kind), RowSum())
        if there != written:
            return f"the history has {there.rows:,} {kind.value}, the archive {written.rows:,}, or others"
    return None
