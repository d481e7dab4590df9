"""An ordered set of small keys, for what SQL would keep in an index."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

LAST_ID = 1 << 80
"""Greater than the id of any run."""

Key = TypeVar("Key", bound=tuple[Any, ...])


class OrderedIndex(Generic[Key]):
    """Keys (tuples) in ascending order, each at most once.

    It is a sorted list. Insertion and removal move memory, which at the sizes of a simulation is cheaper than any
    tree in Python. Keys that arrive in order, as instants mostly do, are appended.
    """

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: list[Key] = []

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)

    def add(self, key: Key) -> None:
        """Insert a key that is not in the index."""
        if not self._keys or self._keys[-1] < key:
            self._keys.append(key)
        else:
            insort(self._keys, key)

    def discard(self, key: Key) -> None:
        """Remove a key if it is in the index."""
        position = bisect_left(self._keys, key)
        if position < len(self._keys) and self._keys[position] == key:
            del self._keys[position]

    def first(self) -> Key | None:
        """Return the smallest key; None if there are no keys."""
        return self._keys[0] if self._keys else None

    def between(self, low: tuple[Any, ...] | None, high: tuple[Any, ...]) -> Iterator[Key]:
        """Yield the keys with `low <= key <= high` in ascending order.

        A shorter tuple as `low` includes all keys that begin with it. The index must not change meanwhile.
        """
        keys = self._keys
        start = 0 if low is None else bisect_left(keys, low)
        for position in range(start, len(keys)):
            key = keys[position]
            if key > high:
                return
            yield key

    def below(self, high: tuple[Any, ...] | None) -> Iterator[Key]:
        """Yield the keys smaller than `high` in descending order; None starts at the greatest."""
        end = len(self._keys) if high is None else bisect_left(self._keys, high)
        for position in range(end - 1, -1, -1):
            yield self._keys[position]

    def above(self, low: tuple[Any, ...] | None) -> Iterator[Key]:
        """Yield the keys greater than `low` in ascending order; None starts at the smallest."""
        start = 0 if low is None else bisect_right(self._keys, low)
        for position in range(start, len(self._keys)):
            yield self._keys[position]
