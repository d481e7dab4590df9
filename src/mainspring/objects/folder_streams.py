"""Large files in a folder, a piece at a time."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import IO, TypeVar

from mainspring.objects.folder import ROOM, make_folders, sync_folder, unavailable
from mainspring.objects.room import check_room
from mainspring.objects.store import ObjectMissing
from mainspring.objects.streams import ObjectFacts, SignedPut

T = TypeVar("T")
_CHUNK = 1 << 20
_READ_ONLY = 0o400
_THREADS = 4
"""How many pieces are written or read at a time. They are small, so a slow caller holds up nobody."""


class FolderStreams:
    """Implements `ObjectStreams`. What it makes can be read by this user alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="mainspring-files")

    async def write(
        self, name: str, content: AsyncIterator[bytes], *, content_type: str, disposition: str
    ) -> None:
        """See `ObjectStreams`. The file is made under a name of its own, so that two never mix."""
        del content_type, disposition
        target = self._folder / name
        part, file = await self._run(lambda: _begin(self._folder, target))
        try:
            async for chunk in content:
                await self._run(partial(_write, file, chunk, target.parent))
            await self._run(lambda: _finish(file, part, target))
        finally:
            await asyncio.shield(self._run(lambda: _clean_up(file, part)))

    async def read(self, name: str, start: int, stop: int) -> AsyncGenerator[bytes, None]:
        """See `ObjectStreams`."""
        file = await self._run(lambda: (self._folder / name).open("rb"))
        try:
            await self._run(lambda: file.seek(start))
            left = stop - start
            while left > 0:
                chunk = await self._run(partial(file.read, min(left, _CHUNK)))
                if not chunk:
                    return
                left -= len(chunk)
                yield chunk
        finally:
            file.close()

    async def sign_get(self, name: str, lifetime: timedelta) -> str | None:
        """Return None: a folder has no address that others can reach."""
        del name, lifetime
        return None

    async def sign_put(
        self, name: str, lifetime: timedelta, *, content_type: str, disposition: str
    ) -> SignedPut | None:
        """Return None, for the same reason."""
        del name, lifetime, content_type, disposition
        return None

    async def measure(self, name: str) -> ObjectFacts:
        """See `ObjectStreams`."""
        found = await self._run((self._folder / name).stat)
        return ObjectFacts(found.st_size)

    async def delete(self, name: str) -> None:
        """See `ObjectStreams`. Folders that become empty go, too."""
        await self._run(lambda: _delete(self._folder, self._folder / name))

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except OSError as error:
            raise unavailable(error) from None


def _begin(folder: Path, target: Path) -> tuple[Path, IO[bytes]]:
    for is_last in (False, False, True):
        make_folders(folder, target.parent)
        try:
            check_room(target.parent, ROOM)
            descriptor, part = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
        except (FileNotFoundError, ObjectMissing):  # another one has just removed the empty folder
            if is_last:
                raise
        else:
            return Path(part), os.fdopen(descriptor, "wb")
    raise AssertionError("the last try raises")


def _write(file: IO[bytes], chunk: bytes, folder: Path) -> None:
    check_room(folder, len(chunk) + ROOM)
    file.write(chunk)


def _finish(file: IO[bytes], part: Path, target: Path) -> None:
    file.flush()
    os.fchmod(file.fileno(), _READ_ONLY)
    os.fsync(file.fileno())
    part.replace(target)
    sync_folder(target.parent)


def _clean_up(file: IO[bytes], part: Path) -> None:
    with suppress(OSError):
        file.close()
    part.unlink(missing_ok=True)


def _delete(folder: Path, target: Path) -> None:
    folder.stat()  # a file system that is not mounted is no empty one
    for left in _parts(target):
        left.unlink(missing_ok=True)
    target.unlink(missing_ok=True)
    for parent in target.parents:
        if parent == folder:
            return
        try:
            parent.rmdir()
        except FileNotFoundError:
            continue
        except OSError:  # others are in it
            return


def _parts(target: Path) -> list[Path]:
    """Return the files that a process which was killed has left of this one."""
    start = f".{target.name}."
    try:
        return [
            one
            for one in target.parent.iterdir()
            if one.name.startswith(start) and one.name.endswith(".part")
        ]
    except FileNotFoundError:
        return []
