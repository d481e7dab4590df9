"""The store in memory: the verified fake of all engine tests, and the store of the simulator."""

from mainspring.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
