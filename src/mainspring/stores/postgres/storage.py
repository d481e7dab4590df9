"""How much room the database takes, and how full its disk is."""

from __future__ import annotations

import asyncio
import shutil

from mainspring.core.storage import Disk, Storage
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections


class PostgresStorageStore:
    """`StorageStore` on PostgreSQL."""

    _connections: Connections

    async def read_storage(self) -> Storage:
        [row] = await self._connections.fetch(Role.BROWSE, "read_storage", is_repeatable=True)
        disk = None if row["folder"] is None else await asyncio.to_thread(look_at_folder, row["folder"])
        return Storage(size=row["size"], history=row["history"], rows=row["history_rows"], disk=disk)


def look_at_folder(folder: str) -> Disk | None:
    """Return the disk of a server's folder; None if this machine has no such folder, as the server's may be another."""
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None
    return Disk(folder, free=usage.free, size=usage.total)
