"""The folders in which commands leave files behind, and how these are kept when a command has ended."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pwd
import stat
import tempfile
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

from mainspring.core.artifacts import MOST_ARTIFACTS
from mainspring.core.outcomes import Failure
from mainspring.errors import InvalidInput, MainspringError
from mainspring.executors._files import AttemptFiles
from mainspring.executors._text import ERROR_LIMIT, clean, seconds
from mainspring.executors._trees import remove_tree
from mainspring.ports.executor import AttemptContext, Success

VARIABLE = "MAINSPRING_ARTIFACTS"
_PREFIX = "mainspring-artifacts-"
_LOCK = ".lock"
_ODD = "holds {!r}, which is no plain file of its own; copy what it leads to"
_DEEPEST = 100
"""Folders in each other; the name of a file could not tell more."""
_TRAVERSABLE = 0o711
"""Commands may run as other users; each reaches its own folder, and cannot list the others."""


class ArtifactFolders:
    """Makes a folder for each command, and keeps what is in it.

    A worker that was killed leaves its folders. The next one removes them: it gets the lock that the dead one had.

    Args:
        files: takes the files.
    """

    def __init__(self, files: AttemptFiles) -> None:
        self._files = files
        _sweep()
        self._base = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock = (self._base / _LOCK).open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._base.chmod(_TRAVERSABLE)

    def make(self, user: str | None) -> Path:
        """Make a folder that belongs to the user of a command.

        Raises:
            OSError: it cannot be made, or there is no such user.
        """
        folder = Path(tempfile.mkdtemp(dir=self._base))
        if user is not None and os.geteuid() == 0:
            try:
                owner = pwd.getpwnam(user)
            except (KeyError, UnicodeEncodeError):
                return folder  # the command cannot be started, which says so
            os.chown(folder, owner.pw_uid, owner.pw_gid)
        return folder

    async def keep(
        self, context: AttemptContext, folder: Path, outcome: Success | Failure, *, until: float
    ) -> Success | Failure:
        """Keep the files in a folder. Return the outcome, which is a failure if one of them could not be kept.

        Args:
            until: the loop's time at which the attempt's time is over.
        """
        try:
            with os.scandir(folder) as entries:
                is_empty = next(entries, None) is None
            if is_empty:
                return outcome
            async with asyncio.timeout_at(until):
                await self._keep_each(context, folder)
        except TimeoutError:
            text = f"timed out after {seconds(context.timeout)} while its files were being kept"
            return _failed(outcome, text, is_timeout=True)
        except InvalidInput as error:
            return _failed(outcome, str(error), is_retryable=False)
        except (MainspringError, OSError) as error:
            return _failed(outcome, f"its files could not be kept: {error}")
        return outcome

    async def _keep_each(self, context: AttemptContext, folder: Path) -> None:
        with contextlib.closing(_open_each(folder)) as found:
            for name, descriptor in found:
                try:
                    await self._files.keep(context, name, Path(f"/proc/self/fd/{descriptor}"), None)
                except InvalidInput as error:
                    message = f"the file {name[:80]!r} of {VARIABLE} cannot be kept: {error.message}"
                    raise InvalidInput(error.field, message) from None

    async def remove(self, folder: Path) -> None:
        """Remove a folder with all that is in it."""
        if not _remove_empty(folder):
            await asyncio.to_thread(remove_tree, folder)

    async def stop(self) -> None:
        """Remove all folders."""
        await asyncio.to_thread(remove_tree, self._base)
        self._lock.close()


def _remove_empty(folder: Path) -> bool:
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


def _open_each(folder: Path) -> Generator[tuple[str, int], None, None]:
    """Yield the name and a descriptor of each plain file. A link is refused: it may lead to what is not the command's.

    Raises:
        InvalidInput: there is something else than plain files and folders, or there are too many.
    """
    count = 0
    for root, folders, names, place in os.fwalk(folder, follow_symlinks=False):
        count += len(folders) + len(names)
        if count > MOST_ARTIFACTS:
            raise InvalidInput(VARIABLE, f"holds more than {MOST_ARTIFACTS:,} files and folders; pack them")
        if root.count("/") - str(folder).count("/") > _DEEPEST:
            raise InvalidInput(VARIABLE, f"holds folders in each other, deeper than {_DEEPEST} folders")
        folders.sort()
        for name in folders:
            if stat.S_ISLNK(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode):
                raise InvalidInput(VARIABLE, _ODD.format(os.path.relpath(f"{root}/{name}", folder)[:80]))
        for name in sorted(names):
            shown = os.path.relpath(f"{root}/{name}", folder)
            descriptor = _open(name, place, shown)
            try:
                yield shown, descriptor
            finally:
                os.close(descriptor)


def _open(name: str, place: int, shown: str) -> int:
    what = _ODD.format(shown[:80])
    if not stat.S_ISREG(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode):
        raise InvalidInput(VARIABLE, what)
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place)
    except OSError as error:
        raise InvalidInput(
            VARIABLE, f"holds {shown[:80]!r}, which cannot be read: {error.strerror}"
        ) from None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        os.close(descriptor)
        raise InvalidInput(VARIABLE, what)
    return descriptor


def _failed(
    outcome: Success | Failure, text: str, *, is_timeout: bool = False, is_retryable: bool = True
) -> Failure:
    if isinstance(outcome, Failure):
        return replace(outcome, error=clean(f"{outcome.error}; besides, {text}", ERROR_LIMIT))
    return Failure(
        error=clean(text, ERROR_LIMIT),
        output=outcome.output,
        result=outcome.result,
        is_timeout=is_timeout,
        is_retryable=is_retryable,
    )


def _sweep() -> None:
    """Remove the folders of workers of this user that were killed."""
    for base in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            if base.is_symlink() or base.stat().st_uid != os.geteuid():
                continue
            with (base / _LOCK).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(base)
        except OSError:  # it is in use, or somebody else removes it
            continue
