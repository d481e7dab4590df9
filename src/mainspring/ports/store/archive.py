"""The archive's verbs: they copy days of the history out of the store, and say which of them it may lose."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Protocol

from mainspring.core.archive import (
    PART_WEIGHT,
    ArchiveDay,
    ArchiveHome,
    ArchivePart,
    ArchiveRange,
    RowSum,
)
from mainspring.ports.store.nodes import Epochs


class CopySink(Protocol):
    """Takes the rows of a range, as CSV without a header."""

    async def begin(self) -> None:
        """Forget what has come: the rows come from the beginning (again)."""
        ...

    async def write(self, data: bytes) -> None:
        """Take more of it."""
        ...


class ArchiveStore(Protocol):
    """Days of the history, by UTC, and the parts that were written of them.

    A day may be removed once it is verified. The parts of a verified day are never changed or forgotten. A day that
    gets rows after that, because the store's clock was set back, is not verified any more, and gets a further batch of
    parts: see `core.archive.BATCH`.
    """

    async def claim_archive(self, url: str, *, epochs: Epochs) -> str | None:
        """Store where days of the history go: from then on, no server removes one that is not verified.

        Returns:
            What tells this store from others; None, and nothing is stored, if the caller has not the epoch of shard 0.
        """
        ...

    async def read_archive(self) -> ArchiveHome:
        """Return where days of the history go."""
        ...

    async def end_archive(self) -> None:
        """Forget where days of the history go: servers without an archive remove them as they are."""
        ...

    async def find_unarchived_day(self, *, before: datetime) -> date | None:
        """Return the first day that ended at this instant or before it, has rows, and is not verified; None if there
        is none. A day that was dropped and has rows again is found, too.
        """
        ...

    async def outline_archive_day(self, day: date, *, most: int = PART_WEIGHT) -> list[ArchiveRange]:
        """Cut a day that is over into ranges, runs first; together they have all its rows.

        Args:
            most: what a range weighs at most, by `core.archive.weigh`, but for what cannot be cut.
        """
        ...

    async def watch_archive_day(self, day: date) -> None:
        """See to it that rows which come into the day from now on undo what is stored of it: it is written again."""
        ...

    async def copy_archive_range(self, day: date, of: ArchiveRange, sink: CopySink) -> None:
        """Give the rows of a range to a sink, as CSV: `COLUMNS` of `core.archive`, and its `NULL`."""
        ...

    async def count_archive_range(self, day: date, of: ArchiveRange) -> RowSum:
        """Count the rows of a range."""
        ...

    async def may_archive_day(self, day: date, *, epochs: Epochs, number: int = 0) -> bool:
        """Say whether a part of the day may be written, and the caller has the epoch of shard 0.

        That is so if the day is not verified, and the batch of the part not dropped. So what was copied before has all
        rows that there were: such a day has lost none.

        Args:
            number: of the part.
        """
        ...

    async def save_archive_part(self, part: ArchivePart, *, epochs: Epochs) -> bool:
        """Store that a part was written, in place of the one with its number.

        Answers False, and stores nothing, if the day is verified, its batch is dropped, or the caller has not the epoch
        of shard 0.
        """
        ...

    async def list_archive_parts(self, day: date) -> list[ArchivePart]:
        """Return the parts of a day: runs first, by number."""
        ...

    async def verify_archive_day(self, day: date, *, epochs: Epochs, now: datetime) -> bool:
        """Store that all parts of a day were read back and are right, so that the day may be removed.

        Answers False, and changes nothing, if there is none that is only written, as rows have come into the day
        meanwhile, or the caller has not the epoch.
        """
        ...

    async def forget_archive_day(self, day: date, *, epochs: Epochs) -> None:
        """Forget the parts of a day that is not verified, so that it is written anew."""
        ...

    async def drop_archive_days(self, *, epochs: Epochs, now: datetime) -> list[date]:
        """Store of the verified days without rows in the history that these were dropped; return the days."""
        ...

    async def list_archive_days(self, *, before: date | None = None, limit: int) -> Sequence[ArchiveDay]:
        """Return a page of days, the newest first.

        Args:
            before: the last day of the page before.
        """
        ...
