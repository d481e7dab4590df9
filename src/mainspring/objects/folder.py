"""Files in a folder of this machine, or of a file system that is mounted here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from mainspring.objects.room import FULL, DiskFull, check_room
from mainspring.objects.store import ObjectMissing, ObjectsUnavailable

_PRIVATE = 0o600
_READ_ONLY = 0o400
"""What is whole is replaced, and never written to."""
_PRIVATE_FOLDER = 0o700
_CHUNK = 1 << 20
ROOM = 16 << 20
"""Bytes that stay free on the disk of a folder."""


class _Taken(ObjectsUnavailable):
    """There is a file with that name."""


class FolderObjects:
    """Implements `Objects`. What it makes can be read by this user alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, name: str, file: Path) -> None:
        """See `Objects`."""
        self._put(name, file, Path.replace)

    def put_new(self, name: str, file: Path) -> bool:
        """See `Objects`."""
        if (self._folder / name).exists():
            return False
        try:
            self._put(name, file, os.link)  # which fails if another one was there first
        except _Taken:
            return False
        return True

    def _put(self, name: str, file: Path, place: Callable[[Path, Path], object]) -> None:
        target = self._folder / name
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            make_folders(self._folder, target.parent)
            check_room(target.parent, file.stat().st_size + ROOM)
            try:
                part.unlink(missing_ok=True)  # what a process with the same id has left cannot be written to
                with file.open("rb") as source, part.open("wb") as copy:
                    os.fchmod(copy.fileno(), _PRIVATE)
                    shutil.copyfileobj(source, copy, _CHUNK)
                    copy.flush()
                    os.fchmod(copy.fileno(), _READ_ONLY)
                    os.fsync(copy.fileno())
                place(part, target)
            finally:
                part.unlink(missing_ok=True)
            sync_folder(target.parent)
        except FileExistsError:
            raise _Taken(f"{target} is there") from None
        except OSError as error:
            raise unavailable(error) from None

    def get(self, name: str, file: Path) -> None:
        """See `Objects`."""
        try:
            shutil.copyfile(self._folder / name, file)
        except OSError as error:
            raise unavailable(error) from None

    def read(self, name: str) -> bytes:
        """See `Objects`."""
        try:
            return (self._folder / name).read_bytes()
        except OSError as error:
            raise unavailable(error) from None

    def list(self, folder: str) -> list[str]:
        """See `Objects`. A file that is being written is none yet."""
        start = self._folder / folder
        try:
            if not self._folder.is_dir():
                raise ObjectsUnavailable(f"there is no folder {self._folder}")
            found = [path for path in start.rglob("*") if path.is_file() and not path.name.startswith(".")]
        except OSError as error:
            raise unavailable(error) from None
        return sorted(path.relative_to(self._folder).as_posix() for path in found)

    def local(self, name: str) -> Path | None:
        """See `Objects`."""
        return self._folder / name


def make_folders(first: Path, folder: Path) -> None:
    """Make a folder and those above it, so that a power failure leaves them in place. The first has to be there.

    That way a file system that is not mounted is noticed.

    Raises:
        ObjectsUnavailable: the first is not there.
    """
    if not first.is_dir():
        raise ObjectsUnavailable(f"there is no folder {first}; make it, or mount what it is for")
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)
        sync_folder(each.parent)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder outlast a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unavailable(error: OSError) -> ObjectsUnavailable:
    """Return what an error of the file system means."""
    if error.errno in FULL:
        return DiskFull(f"{error.filename or 'the folder'}: {error.strerror}")
    kind = ObjectMissing if isinstance(error, FileNotFoundError) else ObjectsUnavailable
    return kind(f"{error.filename}: {error.strerror}")
