"""Time, waiting, randomness and ids as ports, so that a simulator can control them all (design 5)."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol
from uuid import UUID


class Clock(Protocol):
    """The store's time, carried on locally."""

    def now(self) -> datetime:
        """Return the current instant, aware UTC. It is never earlier than an earlier answer."""
        ...

    def monotonic(self) -> float:
        """Return seconds of the local monotonic clock, for judging silence and measuring durations."""
        ...


class Waiter(Protocol):
    """What one service waits on between ticks: a timer, or a signal that comes first."""

    async def wait(self, seconds: float) -> None:
        """Return when `signal` is called, or was since the last wait began, or after this many seconds."""
        ...

    def signal(self) -> None:
        """End the current wait, or the next one at once. Call it only from the event loop's thread."""
        ...


class RandomSource(Protocol):
    """Uniform random numbers, seeded in tests."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...


class IdSource(Protocol):
    """Makes job ids."""

    def new_uuid(self) -> UUID:
        """Return a fresh UUIDv7."""
        ...
