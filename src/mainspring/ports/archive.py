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

    def open_spool(self) -> AbstractAsyncContextManager[ArchiveSpool]:
        """Make room for a copy; it is removed at the end."""
        ...

    async def write(
        self, spool: ArchiveSpool, name: str, kind: ArchiveKind, expected: RowSum
    ) -> ArchivedFile:
        """Make a file of a copy, and put it in place of the one with that name.

        Raises:
            ArchiveMismatch: the copy has not the rows that are expected. Nothing was put.
            ArchiveUnavailable: the archive cannot be reached.
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
