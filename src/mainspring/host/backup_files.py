"""The two files of a backup: made for this user alone, by one backup at a time."""

from __future__ import annotations

import fcntl
import glob
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mainspring.core.values import value
from mainspring.errors import Conflict, InvalidInput, StoreUnavailable

_PRIVATE = 0o600
_OURS = os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_MARK_BYTES = 8
MANIFEST_END = ".manifest.json"


def manifest_of(file: Path) -> Path:
    """Return where the manifest of a backup lies: beside it."""
    return file.with_name(f"{file.name}{MANIFEST_END}")


@value()
class ReservedFiles:
    """The names of a backup, which no other one takes meanwhile.

    Attributes:
        part: an empty file, into which the backup is written.
    """

    file: Path
    part: Path
    _manifest: int

    def finish(self, manifest: bytes) -> None:
        """Give the file its name. It outlasts a power cut then, with its manifest.

        Raises:
            StoreUnavailable: the files cannot be written.
        """
        try:
            # First the manifest: without the file it is of no use, but nobody takes it for a backup either.
            os.ftruncate(self._manifest, 0)
            with os.fdopen(os.dup(self._manifest), "wb") as written:
                written.write(manifest)
            os.fsync(self._manifest)
            self.part.replace(self.file)
            for path in (self.file, self.file.parent):
                _sync(path)
        except OSError as error:
            raise StoreUnavailable(f"{self.file} cannot be written: {error.strerror}") from error


@contextmanager
def reserve(file: Path) -> Iterator[ReservedFiles]:
    """Take the names of a backup. If it does not finish, its files go.

    The manifest is there from the start, and locked. One without its file and without a lock is what a killed backup
    has left.

    Raises:
        InvalidInput: they cannot be written.
        Conflict: there is such a file, or another backup writes it.
    """
    _refuse_present(file)
    manifest = _lock_manifest(manifest_of(file))
    try:
        _refuse_present(file)  # once more: the other backup has perhaps just ended
        for left in file.parent.glob(f"{glob.escape(file.name)}.{'[0-9a-f]' * 2 * _MARK_BYTES}.part"):
            left.unlink(missing_ok=True)
        part = file.with_name(f"{file.name}.{secrets.token_hex(_MARK_BYTES)}.part")
        try:
            os.close(_open(part, os.O_WRONLY | os.O_EXCL))
            yield ReservedFiles(file, part, manifest)
        finally:
            part.unlink(missing_ok=True)
            if not os.path.lexists(file):
                manifest_of(file).unlink(missing_ok=True)
    finally:
        os.close(manifest)


def _refuse_present(file: Path) -> None:
    if os.path.lexists(file):
        raise Conflict("file", f"{file} is there; name another one, or remove it")


def _lock_manifest(path: Path) -> int:
    """Open and lock a manifest; return its descriptor. Whoever fails removes it, and then it is made once more."""
    while True:
        descriptor = _open(path, os.O_RDWR)
        try:
            found = os.fstat(descriptor)
            if found.st_uid != os.geteuid():
                raise Conflict("file", f"{path} is there and belongs to another user; name another file")
            _lock(descriptor, path)
            with suppress(FileNotFoundError):
                if os.path.samestat(found, path.lstat()):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Conflict("file", f"another backup writes {path}; name another file") from None
    except OSError:
        return  # a file system without locks


def _open(path: Path, flags: int) -> int:
    """Open a file that only this user may read: jobs and payloads are in it."""
    try:
        return os.open(path, flags | _OURS, _PRIVATE)
    except OSError as error:
        raise InvalidInput("file", f"{path} cannot be written: {error.strerror}") from None


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
