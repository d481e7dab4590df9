"""Measures how late the event loop of the process wakes up: all that runs on it is as late."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

from mainspring.clock import LoopWaiter, monotonic
from mainspring.ports.clock import Waiter
from mainspring.ports.telemetry import SECONDS, Distribution, Measure, Telemetry

PERIOD = 1.0
"""Seconds between two looks."""


class LoopLag:
    """Sleeps, and counts by how much it overslept."""

    def __init__(self, waiter: Waiter, *, clock: Callable[[], float]) -> None:
        self._waiter = waiter
        self._clock = clock
        self._lags = Distribution(SECONDS)

    def measures(self) -> Iterator[Measure]:
        """Yield how late the loop was."""
        yield Measure("loop_lag_seconds", self._lags.read())

    async def run(self) -> None:
        """Look until it is cancelled."""
        while True:
            begun = self._clock()
            await self._waiter.wait(PERIOD)
            self._lags.add(max(self._clock() - begun - PERIOD, 0.0))


@contextlib.asynccontextmanager
async def watch_loop(telemetry: Telemetry) -> AsyncIterator[None]:
    """Measure the running event loop until the block ends."""
    lag = LoopLag(LoopWaiter(), clock=monotonic)
    telemetry.watch(lag)
    looking = asyncio.create_task(lag.run(), name="loop-lag")
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
