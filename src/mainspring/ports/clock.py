"""Time, waiting, randomness and ids as ports, so that a simulator can control them all (design 5)."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol
from uuid import UUID


class Clock(Protocol):
    """The store's time, carried on locally."""

    def now(self) -> datetime:
        """Return the current instant, aware UTC. It never goes back."""
        ...

    def monotonic(self) -> float:
        """Return the local monotonic clock, in seconds. Use it to judge silence and to measure durations."""
        ...


class Waiter(Protocol):
    """Lets a service wait between ticks, for a timer or a signal, whichever comes first."""

    async def wait(self, seconds: float) -> None:
        """Return when `signal` is called, or after this many seconds.

        Return at once if it was called since the last wait began.
        """
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
    """Makes ids and secrets."""

    def new_uuid(self) -> UUID:
        """Return a fresh UUIDv7."""
        ...

    def new_secret(self, size: int) -> bytes:
        """Return so many bytes that nobody can guess."""
        ...
