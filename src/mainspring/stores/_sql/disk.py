"""Looks how full a disk is, without waiting for one that hangs."""

from __future__ import annotations

import asyncio
import shutil

from mainspring.core.storage import Disk

PATIENCE = 5.0
"""How long a disk may take to answer, in seconds."""


class DiskLook:
    """Looks at one disk, in one thread at most: while a look hangs, those who ask wait for that one.

    Args:
        patience: how long they wait, in seconds.
    """

    def __init__(self, *, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._looking: asyncio.Task[Disk | None] | None = None

    async def look(self, folder: str) -> Disk | None:
        """Return the disk of a folder; None if this machine has no such folder, or may not look at it.

        Raises:
            TimeoutError: the disk has not answered. Nothing is known of it.
        """
        if self._looking is None or self._looking.done():
            # Its own thread: a disk that hangs must not hold up the loop.
            self._looking = asyncio.create_task(asyncio.to_thread(_look_at, folder))
        async with asyncio.timeout(self._patience):
            return await asyncio.shield(self._looking)


def _look_at(folder: str) -> Disk | None:
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None
    return Disk(folder, free=usage.free, size=usage.total)
