"""How much room the database takes, and how full its disk is."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from mainspring.core.storage import Disk, Storage
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.statements import fetch_value


class SqliteStorageStore:
    """Implements `StorageStore`."""

    _browser: Database
    _path: Path

    async def read_storage(self) -> Storage:
        """See `StorageStore`."""
        size: int = await self._browser.call(lambda db: fetch_value(db, "read_storage"))
        folder = self._path.resolve().parent
        # Its own thread: a disk that hangs must not hold up the loop.
        disk = await asyncio.to_thread(_look_at, folder)
        return Storage(size=size, history=size, disk=disk)


def _look_at(folder: Path) -> Disk | None:
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None
    return Disk(str(folder), free=usage.free, size=usage.total)
