"""How much room a store takes, and how much is left."""

from __future__ import annotations

from typing import Protocol

from mainspring.core.storage import Storage


class StorageStore(Protocol):
    """The room of the store itself."""

    async def read_storage(self) -> Storage:
        """Return what the store takes on its disk, and how full that is, if it can be known."""
        ...
