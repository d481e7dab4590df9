"""A store knows what it takes, and what it can know of its disk."""

from __future__ import annotations

from mainspring.ports.store import Store


class StorageIsKnown:
    """The room of the store."""

    __test__ = False

    async def test_a_store_says_how_large_it_is(self, store: Store) -> None:
        found = await store.read_storage()
        assert found.size >= found.history >= 0
        assert (found.rows or 0) >= 0
        if found.disk is not None:
            assert found.disk.path
            assert 0 <= found.disk.free <= found.disk.size
            assert 0 <= found.disk.free_share <= 1
