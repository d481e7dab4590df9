"""How much room a store takes, and how much is left for it."""

from __future__ import annotations

from mainspring.core.values import value


@value()
class Disk:
    """The file system that a store is on: where, and how many bytes of it are free and in all."""

    path: str
    free: int
    size: int

    @property
    def free_share(self) -> float:
        """How much of it is free."""
        return self.free / max(self.size, 1)


@value(kw_only=True)
class Storage:
    """A store's room, in bytes.

    Attributes:
        size: what it takes in all.
        history: what runs that have ended take, with their indexes. SQLite has all in one file, so it is all of that.
        rows: how many runs that is, about; None if only a census knows.
        disk: None if it cannot be known: the server is another machine, or its settings may not be read.
        is_disk_slow: whether the disk was asked and has not answered in time, so nothing is known of it now.
    """

    size: int
    history: int
    rows: int | None = None
    disk: Disk | None = None
    is_disk_slow: bool = False
