"""How much room the database takes, and how full its disk is."""

from __future__ import annotations

from dataclasses import replace

from mainspring.core.storage import Storage
from mainspring.stores._sql.disk import DiskLook
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections


class PostgresStorageStore:
    """`StorageStore` on PostgreSQL."""

    _connections: Connections
    _disk_look: DiskLook

    async def read_storage(self) -> Storage:
        [row] = await self._connections.fetch(Role.BROWSE, "read_storage", is_repeatable=True)
        found = Storage(size=row["size"], history=row["history"], rows=row["history_rows"])
        if row["folder"] is None:
            return found
        try:
            return replace(found, disk=await self._disk_look.look(row["folder"]))
        except TimeoutError:
            return replace(found, is_disk_slow=True)
