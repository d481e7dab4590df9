"""Hints from process to process on one store: there may be something to do (design 6, wake-ups)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Protocol


class Hint(StrEnum):
    """What a hint says. Each is true of the whole store, so doubled ones are one."""

    RUNS = "runs"
    """Runs may have become ready."""
    CLOCKS = "clocks"
    """A job's clock was set from outside the planner."""
    CANCELS = "cancels"
    """A RUNNING run's cancel was asked for."""
    SHARDS = "shards"
    """A scheduler node gave its shards up, and stops: others may take them at once."""
    WANTED = "wanted"
    """Workers wait, and found nothing: whoever makes runs ready from now on, or did so unsaid, may say so."""


class HintChannel(Protocol):
    """Carries hints to the other processes on the same store.

    A hint may be lost, doubled or reordered; that costs latency and nothing else (law 1). A channel belongs to one
    process and one event loop; what it sends it does not hear.
    """

    @property
    def is_connected(self) -> bool:
        """Whether hints are heard and can be sent, as far as is known."""
        ...

    async def connect(self, hear: Callable[[Hint], None], on_loss: Callable[[], None]) -> None:
        """Begin to hear, on a new connection if there was one before.

        Args:
            hear: called on the event loop's thread for each hint of another process.
            on_loss: called at most once, when the connection is found broken; what others say is lost from then on.

        Raises:
            StoreUnavailable: there is no connection to be had now.
        """
        ...

    async def send(self, hints: Collection[Hint]) -> None:
        """Tell all other processes; the changes that the hints speak of must be committed. Empty: only make sure
        that the connection still carries.

        Raises:
            StoreUnavailable: not sent, or nobody knows; the connection is given up.
        """
        ...

    async def close(self) -> None:
        """Hear and send no more; `on_loss` is not called."""
        ...
