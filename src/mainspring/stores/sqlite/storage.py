"""How much room the database takes, and how full its disk is."""

from __future__ import annotations

from pathlib import Path

from mainspring.core.storage import Storage
from mainspring.stores._sql.disk import DiskLook
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.statements import fetch_value


class SqliteStorageStore:
    """Implements `StorageStore`."""

    _browser: Database
    _path: Path
    _disk_look: DiskLook

    async def read_storage(self) -> Storage:
        """See `StorageStore`."""
        size: int = await self._browser.call(lambda db: fetch_value(db, "read_storage"))
        try:
            disk = await self._disk_look.look(str(self._path.resolve().parent))
        except TimeoutError:
            return Storage(size=size, history=size, is_disk_slow=True)
        return Storage(size=size, history=size, disk=disk)
