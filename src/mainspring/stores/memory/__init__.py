"""The store in memory: the verified fake for all engine tests, and the simulator's store."""

from mainspring.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
