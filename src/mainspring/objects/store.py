"""What all places for files have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from mainspring.errors import MainspringError


class ObjectsUnavailable(MainspringError):
    """The place of files cannot be reached, or refuses what is asked of it. The message shows no password."""


class ObjectMissing(ObjectsUnavailable):
    """There is no file with that name."""


class Objects(Protocol):
    """Files by their names. Calls block; each may raise `ObjectsUnavailable`."""

    def put(self, name: str, file: Path) -> None:
        """Put a file in place of the one with that name. Once this returns, the whole file is safe; before, there is
        the old one or none.
        """
        ...

    def put_new(self, name: str, file: Path) -> bool:
        """Put a file if there is none with that name. Answers whether it was put."""
        ...

    def get(self, name: str, file: Path) -> None:
        """Write the file with that name to a path."""
        ...

    def read(self, name: str) -> bytes:
        """Return what a small file holds."""
        ...

    def list(self, folder: str) -> list[str]:
        """Return the names of the files in a folder and in those below it, in order."""
        ...

    def local(self, name: str) -> Path | None:
        """Return the path of a file, if it lies in this machine's file system."""
        ...
