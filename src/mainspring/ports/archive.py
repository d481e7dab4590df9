"""The port of the archive: makes files of what the store has copied, and reads them back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import date
from typing import Protocol

from mainspring.core.archive import ArchivedFile, ArchiveKind, RowSum
from mainspring.errors import MainspringError
from mainspring.ports.store.archive import CopySink


class ArchiveUnavailable(MainspringError):
    """The archive cannot be reached now. Nothing is removed from the history meanwhile."""


class ArchiveFull(ArchiveUnavailable):
    """There is no room for a copy, or for the file that is made of it. Nothing is removed meanwhile."""


class ArchiveMismatch(MainspringError):
    """What was made or read back is not what the history has."""


class ArchiveStopped(MainspringError):
    """Nobody waits for the copy any more."""


class ArchiveSpool(CopySink, Protocol):
    """Where a copy lies until a file is made of it."""


class Archive(Protocol):
    """Where files of the history go. Each call may take minutes; it ends soon once it is cancelled."""

    def url_of(self, name: str) -> str:
        """Return the address of a file; it holds no password."""
        ...

    @property
    def url(self) -> str:
        """The address of the archive; it holds no password."""
        ...

    @property
    def part_weight(self) -> int:
        """How much one part may weigh, by `core.archive.weigh`, so that it can be made in the memory that there is."""
        ...

    async def begin(self, day: date, *, installation: str) -> int | None:
        """Make sure that the archive is this installation's, and say what it has of a day.

        The first one to use an archive has it from then on. What is put later is put only if that is still so.

        Returns:
            The highest number of a part of the day; None if the archive does not have the day.

        Raises:
            ArchiveUnavailable: the archive cannot be reached, or is another installation's.
        """
        ...

    def open_spool(self, size: int = 0) -> AbstractAsyncContextManager[ArchiveSpool]:
        """Make room for a copy of about so many bytes; it is removed at the end.

        Raises:
            ArchiveFull: there is no room for it and what is made of it.
        """
        ...

    async def write(
        self, spool: ArchiveSpool, name: str, kind: ArchiveKind, expected: RowSum
    ) -> ArchivedFile:
        """Make a file of a copy, and put it in place of the one with that name.

        Rows that other batches of the day have are left out. Without rows, nothing is put.

        Raises:
            ArchiveMismatch: the copy has not the rows that are expected, or the day is whole and has others under this
                name. Nothing was put.
            ArchiveFull: there is no room for it.
            ArchiveUnavailable: the archive cannot be reached, or is another installation's.
        """
        ...

    async def check(self, name: str, kind: ArchiveKind) -> ArchivedFile:
        """Read a file back from where it lies.

        Raises:
            ArchiveMismatch: it cannot be read as such a file.
            ArchiveUnavailable: the archive cannot be reached, or there is no such file.
        """
        ...

    async def finish(self, day: date, files: Sequence[ArchivedFile]) -> None:
        """Put down what the day consists of, so that readers find it.

        Raises:
            ArchiveUnavailable: the archive cannot be reached.
        """
        ...
