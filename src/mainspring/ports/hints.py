"""Hints between processes on one store: there may be something to do (design 6, wake-ups)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Protocol

from mainspring.core.ids import KeyId
from mainspring.core.values import value


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
    FLOWS = "flows"
    """Flows have mail."""
    WANTED = "wanted"
    """Workers are waiting and found nothing.

    A process that makes runs ready from now on, or did so silently before, may announce it.
    """


@value()
class Ready:
    """Which runs may have become ready, as far as RUNS tells.

    Attributes:
        lanes: the marks of their lanes (`core/lane_marks`), at most `MOST_MARKS`; None: it may be any lane.
        keys: limits of which runs have ended, so that there is room for those in line, at most `MOST_MARKS`; None: it
            may be any.
    """

    lanes: Collection[str] | None = None
    keys: Collection[KeyId] | None = ()


ANY = Ready()
Hear = Callable[[Hint, Ready], None]
"""Takes a hint, and with RUNS what it names."""


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
            hear: called on the event loop's thread for each hint from another process, with what it names.
            on_loss: called at most once, when the connection turns out to be broken. From then on, hints from others
                are lost.

        Raises:
            StoreUnavailable: no connection can be made at present.
        """
        ...

    async def send(self, hints: Collection[Hint], ready: Ready = ANY) -> None:
        """Send hints to all other processes. Commit the changes behind them first. Without hints, only check that the
        connection still works.

        Args:
            ready: what RUNS names.

        Raises:
            StoreUnavailable: the hints were not sent, or may not have been. The connection is dropped.
        """
        ...

    def notice(self, hints: Collection[Hint], ready: Ready = ANY) -> str:
        """Return the text that says these hints if the store sends it with a commit (`submit_runs`)."""
        ...

    async def close(self) -> None:
        """Stop listening and sending. `on_loss` is not called."""
        ...
