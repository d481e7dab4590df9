"""Time under a test's control: a clock that moves only on request, and a waiter that waits for a signal."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from mainspring.testing.factories import START


class FakeClock:
    """A `Clock` that stands still until it is moved."""

    def __init__(self, now: datetime = START) -> None:
        self._now = now
        self._monotonic = 0.0

    def now(self) -> datetime:
        """Return the instant it was set to."""
        return self._now

    def monotonic(self) -> float:
        """Return the total seconds by which it was advanced."""
        return self._monotonic

    def advance(self, seconds: float) -> datetime:
        """Let time pass on the wall clock and on the monotonic clock. Return the new instant."""
        if seconds < 0:
            raise ValueError("time does not go backwards; use `set` for a jump of the wall clock")
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds
        return self._now

    def set(self, instant: datetime) -> None:
        """Let the wall clock jump, as after a failover. The monotonic clock does not move.

        Raises:
            ValueError: the instant lies before the present one. A `Clock` never goes back.
        """
        if instant < self._now:
            raise ValueError("a Clock never goes back to an earlier instant")
        self._now = instant


class ManualWaiter:
    """A `Waiter` whose timer never ends: only `signal` ends a wait.

    Attributes:
        waits: the seconds of each wait so far, one entry per wait.
    """

    def __init__(self) -> None:
        self.waits: list[float] = []
        self._signal = asyncio.Event()
        self._waiting = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Return once `signal` has been called since the last wait began."""
        self.waits.append(seconds)
        self._waiting.set()
        try:
            await self._signal.wait()
        finally:
            self._waiting.clear()
            self._signal.clear()

    def signal(self) -> None:
        """End the current wait, or the next one at once."""
        self._signal.set()

    async def until_waiting(self) -> None:
        """Return as soon as someone waits, which means that the service under test has finished its tick."""
        await self._waiting.wait()
