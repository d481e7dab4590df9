"""Failover to a store whose clock is seconds off: no early start, no second fire, nobody declared lost.

What is promised (docs/explanation/failover.md): a process's time never goes back, stays between the clocks of the old
server, carried on, and of the new one, and moves towards the new one's by a tenth of a second per second. So nothing
starts before its instant on the clock that is ahead of the two, and nothing waits longer than to its instant on the
other.
"""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.stores.memory import MemoryStore
from tests.support.clocks import SampledClock, open_trial

SLEWED = 50.0
"""Seconds in which a difference of five is made up."""


@pytest.mark.parametrize("jump", [5.0, -5.0])
async def test_failover_to_a_clock_five_seconds_off_changes_no_fire(jump: float) -> None:
    clock = SampledClock()
    async with open_trial(clock, MemoryStore(time=clock.now)) as trial:
        tick = await trial.add(90)
        await trial.live(12)
        clock.jump(jump)
        await trial.live(SLEWED + 20)
        await trial.check(tick)
        assert abs((clock.now() - clock.store_time).total_seconds()) < 1e-3


async def test_failover_and_back_while_it_still_slews_changes_no_fire() -> None:
    clock = SampledClock()
    async with open_trial(clock, MemoryStore(time=clock.now)) as trial:
        tick = await trial.add(90)
        for jump in (5.0, -10.0, 5.0):
            await trial.live(12)
            clock.jump(jump)
        await trial.live(SLEWED)
        await trial.check(tick)


@settings(max_examples=8)
@given(st.lists(st.tuples(st.floats(0, 20), st.floats(-15, 15)), min_size=1, max_size=4))
def test_any_series_of_failovers_changes_no_fire(jumps: list[tuple[float, float]]) -> None:
    async def run() -> None:
        clock = SampledClock()
        async with open_trial(clock, MemoryStore(time=clock.now)) as trial:
            tick = await trial.add(40)
            for seconds, jump in jumps:
                await trial.live(seconds, step=0.5)
                clock.jump(jump)
            await trial.live(20, step=0.5)
            await trial.check(tick)

    asyncio.run(run())


async def test_worker_that_falls_silent_during_the_slew_is_still_found() -> None:
    """The jump neither hastens the loss nor hides it: three silent periods of the monotonic clock, as ever."""
    clock = SampledClock()
    async with open_trial(clock, MemoryStore(time=clock.now)) as trial:
        await trial.live(12)
        clock.jump(-5.0)
        await clock.sample()
        await trial.runtime.advance(27.0)
        assert len(await trial.runtime.store.list_sessions()) == 1
        await trial.runtime.advance(5.0)
        assert await trial.runtime.store.list_sessions() == []
