"""How late the event loop is."""

from __future__ import annotations

import asyncio

from mainspring.host.loop_lag import PERIOD, LoopLag
from mainspring.ports.telemetry import Measure, Spread
from mainspring.testing.clock import FakeClock


class Oversleeper:
    """Wakes up later each time, and at last not at all."""

    def __init__(self, clock: FakeClock, late: list[float]) -> None:
        self._clock = clock
        self._late = late

    async def wait(self, seconds: float) -> None:
        if not self._late:
            raise asyncio.CancelledError
        self._clock.advance(seconds + self._late.pop(0))

    def signal(self) -> None:
        raise AssertionError("nobody calls it")


async def test_the_time_that_the_loop_overslept_is_counted() -> None:
    clock = FakeClock()
    lag = LoopLag(Oversleeper(clock, [0.0, 0.002, 0.3, -0.1]), clock=clock.monotonic)
    await asyncio.gather(lag.run(), return_exceptions=True)
    (measure,) = lag.measures()
    assert isinstance(measure, Measure)
    assert isinstance(measure.value, Spread)
    assert (measure.name, measure.value.count, round(measure.value.total, 6)) == (
        "loop_lag_seconds",
        4,
        0.302,
    )
    below = dict(zip(measure.value.bounds, measure.value.cumulated, strict=False))
    assert (below[0.005], below[0.25], below[0.5]) == (3, 3, 4)
    assert PERIOD == 1.0
