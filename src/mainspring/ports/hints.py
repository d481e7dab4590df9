"""Hints between processes on one store: there may be something to do (design 6, wake-ups)."""

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
    """A scheduler node is stopping and gave up its shards. Others may take them at once."""
    RESTRICTIONS = "restrictions"
    """Somebody has paused or resumed a queue, a tenant or everything."""
    WANTED = "wanted"
    """Workers are waiting and found nothing.

    A process that makes runs ready from now on, or did so silently before, may announce it.
    """


Hear = Callable[[Hint, Collection[str]], None]
"""Takes a hint, and with RUNS the marks of the lanes whose runs may have become ready; none: it may be any."""


class HintChannel(Protocol):
    """Carries hints to and from the other processes on the same store.

    A hint may be lost, doubled or reordered; that costs latency and nothing else (law 1). A channel belongs to one
    process and one event loop. It does not hear what it sends.
    """

    @property
    def is_connected(self) -> bool:
        """Whether hints can be sent and heard, as far as the channel knows."""
        ...

    async def connect(self, hear: Hear, on_loss: Callable[[], None]) -> None:
        """Start to listen, always on a new connection.

        Args:
            hear: called on the event loop's thread for each hint from another process, with the marks of the lanes
                that come with it.
            on_loss: called at most once, when the connection turns out to be broken. From then on, hints from others
                are lost.

        Raises:
            StoreUnavailable: no connection can be made at present.
        """
        ...

    async def send(self, hints: Collection[Hint], marks: Collection[str] = ()) -> None:
        """Send hints to all other processes. Commit the changes behind them first. Without hints, only check that the
        connection still works.

        Args:
            marks: the lanes of RUNS (`core/lane_marks`), at most `MOST_MARKS`; none: it may be any.

        Raises:
            StoreUnavailable: the hints were not sent, or may not have been. The connection is dropped.
        """
        ...

    def notice(self, hints: Collection[Hint], marks: Collection[str] = ()) -> str:
        """Return the text that says these hints if the store sends it with a commit (`submit_runs`)."""
        ...

    async def close(self) -> None:
        """Stop listening and sending. `on_loss` is not called."""
        ...
