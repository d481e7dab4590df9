import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from datetime import datetime
from typing import Any

import pytest
from structlog.testing import capture_logs

from mainspring.clock import LoopWaiter
from mainspring.engine.common.service import ServiceRunner
from mainspring.errors import StoreUnavailable
from mainspring.testing.clock import FakeClock, ManualWaiter
from mainspring.testing.factories import START, at


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[MutableMapping[str, Any]]]:
    with capture_logs() as entries:
        yield entries


class Counting:
    """A service that counts its ticks and does in each what the test wants."""

    name = "counting"

    def __init__(
        self, waiter: LoopWaiter | ManualWaiter, act: Callable[[int], Awaitable[float]] | None = None
    ) -> None:
        self.waiter = waiter
        self.ticks: list[datetime] = []
        self.under_way = 0
        self._act = act

    async def tick(self, now: datetime) -> float:
        self.ticks.append(now)
        self.under_way += 1
        assert self.under_way == 1, "one loop at a time"
        try:
            return 60.0 if self._act is None else await self._act(len(self.ticks))
        finally:
            self.under_way -= 1


def make_runner(service: Counting, clock: FakeClock | None = None) -> ServiceRunner:
    return ServiceRunner(service, clock=clock or FakeClock(), random=random.Random(1))


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_ticks_waits_as_told_and_ticks_again_at_a_signal() -> None:
    waiter, clock = ManualWaiter(), FakeClock()
    service = Counting(waiter)
    runner = make_runner(service, clock)
    runner.start()
    await waiter.until_waiting()
    clock.advance(5)
    waiter.signal()
    await settle()
    assert service.ticks == [START, at(5)]
    assert waiter.waits == [60.0, 60.0]
    await runner.stop()
    assert len(service.ticks) == 2


async def test_stop_lets_the_present_tick_finish() -> None:
    gate = asyncio.Event()
    finished: list[int] = []

    async def act(number: int) -> float:
        await gate.wait()
        finished.append(number)
        return 60.0

    runner = make_runner(Counting(LoopWaiter(), act))
    runner.start()
    await settle()
    stop = asyncio.create_task(runner.stop())
    await settle()
    assert not stop.done()
    gate.set()
    await stop
    assert finished == [1]


async def test_stop_without_start_and_twice_does_nothing() -> None:
    service = Counting(LoopWaiter())
    runner = make_runner(service)
    await runner.stop()
    runner.start()
    runner.start()
    await settle()
    await runner.stop()
    await runner.stop()
    assert len(service.ticks) == 1


async def test_stop_at_once_after_start_ticks_nothing() -> None:
    service = Counting(LoopWaiter())
    runner = make_runner(service)
    runner.start()
    await runner.stop()
    assert service.ticks == []


async def test_second_stop_waits_for_the_end_too() -> None:
    gate = asyncio.Event()

    async def act(number: int) -> float:
        await gate.wait()
        return 60.0

    runner = make_runner(Counting(LoopWaiter(), act))
    runner.start()
    await settle()
    stops = [asyncio.create_task(runner.stop()) for _ in range(2)]
    await settle()
    assert [stop.done() for stop in stops] == [False, False]
    gate.set()
    await asyncio.gather(*stops)


async def test_start_during_a_stop_does_not_revive_the_old_loop() -> None:
    gate = asyncio.Event()

    async def act(number: int) -> float:
        if number == 1:
            await gate.wait()
        return 60.0

    service = Counting(LoopWaiter(), act)
    runner = make_runner(service)
    runner.start()
    await settle()
    stop = asyncio.create_task(runner.stop())
    await settle()
    runner.start()
    await settle()
    assert len(service.ticks) == 1  # the new loop begins when the old one has ended
    gate.set()
    await stop
    await settle()
    assert len(service.ticks) >= 2
    await runner.stop()


@pytest.mark.parametrize("seed", range(20))
async def test_starts_and_stops_in_any_order_never_make_two_loops(seed: int) -> None:
    chance = random.Random(seed)

    async def act(number: int) -> float:
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        if chance.random() < 0.2:
            raise RuntimeError("boom")
        return 0.0

    service = Counting(LoopWaiter(), act)
    runner = make_runner(service)
    stops = []
    for _ in range(200):
        move = chance.randrange(4)
        if move == 0:
            runner.start()
        elif move == 1:
            stops.append(asyncio.create_task(runner.stop()))
        elif move == 2:
            service.waiter.signal()
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0)
    stops.append(asyncio.create_task(runner.stop()))
    await asyncio.gather(*stops)
    ticks = len(service.ticks)
    assert service.under_way == 0
    service.waiter.signal()
    await settle()
    assert len(service.ticks) == ticks
    runner.start()
    await settle()
    await runner.stop()
    assert len(service.ticks) > ticks


@pytest.mark.parametrize("error", [StoreUnavailable("down"), ValueError("bug"), asyncio.CancelledError()])
async def test_failing_ticks_are_logged_and_repeated_after_growing_pauses(
    error: BaseException, logs: list[MutableMapping[str, Any]]
) -> None:
    failures = 9

    async def act(number: int) -> float:
        if number <= failures:
            raise error
        return 60.0

    waiter = ManualWaiter()
    service = Counting(waiter, act)
    runner = make_runner(service)
    runner.start()
    for _ in range(failures + 1):
        await waiter.until_waiting()
        waiter.signal()
        await settle()
    await runner.stop()
    pauses = waiter.waits[:failures]
    for number, pause in enumerate(pauses):
        longest = min(0.2 * 2**number, 5.0)
        assert longest / 2 <= pause <= longest
    assert waiter.waits[failures] == 60.0
    assert [entry["service"] for entry in logs] == ["counting"] * failures


async def test_pauses_start_afresh_after_a_good_tick() -> None:
    async def act(number: int) -> float:
        if number != 4:
            raise StoreUnavailable("down")
        return 60.0

    waiter = ManualWaiter()
    runner = make_runner(Counting(waiter, act))
    runner.start()
    for _ in range(5):
        await waiter.until_waiting()
        waiter.signal()
        await settle()
    await runner.stop()
    assert waiter.waits[2] > 0.2
    assert waiter.waits[3] == 60.0
    assert waiter.waits[4] <= 0.2


async def test_clock_that_fails_is_a_failing_tick() -> None:
    class NoClock(FakeClock):
        def now(self) -> datetime:
            raise RuntimeError("the clock was asked before its first sample")

    waiter = ManualWaiter()
    runner = make_runner(Counting(waiter), NoClock())
    runner.start()
    await waiter.until_waiting()
    assert waiter.waits[0] <= 0.2
    await runner.stop()


async def test_stop_during_a_pause_after_a_failure_ends_at_once() -> None:
    async def act(number: int) -> float:
        raise StoreUnavailable("down")

    waiter = ManualWaiter()
    service = Counting(waiter, act)
    runner = make_runner(service)
    runner.start()
    await waiter.until_waiting()
    await runner.stop()
    assert len(service.ticks) == 1


async def test_signal_during_a_tick_is_not_lost() -> None:
    waiter = LoopWaiter()

    async def act(number: int) -> float:
        if number == 1:
            waiter.signal()
        return 3600.0

    service = Counting(waiter, act)
    runner = make_runner(service)
    runner.start()
    await settle()
    assert len(service.ticks) == 2
    await runner.stop()


async def test_cancelled_stop_cuts_the_tick_short() -> None:
    async def act(number: int) -> float:
        await asyncio.Event().wait()
        raise AssertionError

    service = Counting(LoopWaiter(), act)
    runner = make_runner(service)
    runner.start()
    await settle()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(runner.stop(), 0.001)
    await settle()
    assert service.under_way == 0
