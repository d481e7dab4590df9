"""Hints between processes on one store that there may be something to do (design 6, wake-ups)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Protocol


class Hint(StrEnum):
    """What a hint says. Each applies to the whole store, so two equal hints are one."""

    RUNS = "runs"
    """Runs may have become ready."""
    CLOCKS = "clocks"
    """A job's clock was set from outside the planner."""
    CANCELS = "cancels"
    """A cancel of a RUNNING run was requested."""
    SHARDS = "shards"
    """A scheduler node stops and gave up its shards: others may take them at once."""
    WANTED = "wanted"
    """Workers wait and found nothing. A process that makes runs ready from now on, or did so silently, may announce
    it."""


class HintChannel(Protocol):
    """Carries hints to the other processes on the same store.

    A hint may be lost, doubled or reordered; that costs latency and nothing else (law 1). A channel belongs to one
    process and one event loop. It does not hear what it sends.
    """

    @property
    def is_connected(self) -> bool:
        """Whether hints can be heard and sent, as far as the channel knows."""
        ...

    async def connect(self, hear: Callable[[Hint], None], on_loss: Callable[[], None]) -> None:
        """Start to listen, on a new connection if there was one before.

        Args:
            hear: called on the event loop's thread for each hint of another process.
            on_loss: called at most once, when the connection turns out to be broken. Hints of others are lost from
                then on.

        Raises:
            StoreUnavailable: no connection can be made now.
        """
        ...

    async def send(self, hints: Collection[Hint]) -> None:
        """Send hints to all other processes. The changes behind them must be committed. Without hints, only check
        that the connection still works.

        Raises:
            StoreUnavailable: the hints were not sent, or it is unknown; the connection is dropped.
        """
        ...

    async def close(self) -> None:
        """Stop listening and sending. `on_loss` is not called."""
        ...
