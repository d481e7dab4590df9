import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.clock import LoopWaiter, StoreClock, UuidSource, host_time, system_random
from mainspring.testing.factories import START, at


class World:
    """A host's monotonic clock and a store whose own clock may differ, drift and jump; each read takes a trip."""

    def __init__(self) -> None:
        self.uptime = 1000.0
        self.store_seconds = 0.0
        self.trips: list[tuple[float, float]] = []  # there and back, of the reads to come
        self.fails = False
        self.clock = StoreClock(self.read_time, monotonic=lambda: self.uptime)
        self.seen: list[datetime] = []

    def advance(self, seconds: float) -> None:
        self.uptime += seconds
        self.store_seconds += seconds

    async def read_time(self) -> datetime:
        there, back = self.trips.pop(0) if self.trips else (0.0, 0.0)
        self.advance(there)
        answer = at(self.store_seconds)
        if self.seen:
            self.seen.append(self.clock.now())  # somebody asks while a sample is under way
        self.advance(back)
        if self.fails:
            raise ConnectionError
        return answer

    def behind(self) -> float:
        """Return by how much the process's clock is behind the store's."""
        return (at(self.store_seconds) - self.clock.now()).total_seconds()


async def started() -> World:
    world = World()
    await world.clock.sample()
    return world


def test_clock_refuses_before_its_first_sample() -> None:
    with pytest.raises(RuntimeError, match="first sample"):
        World().clock.now()


async def test_clock_is_the_stores_whatever_the_host_says() -> None:
    world = await started()
    assert world.clock.now() == START
    world.advance(12.5)
    assert world.clock.now() == at(12.5)
    assert world.clock.monotonic() == 1012.5


async def test_read_with_the_least_round_trip_wins() -> None:
    world = World()
    world.trips = [(0.0, 3.0), (0.01, 0.01), (2.0, 0.0)]
    await world.clock.sample()
    assert world.behind() == pytest.approx(0.0, abs=1e-6)


async def test_first_sample_goes_on_until_an_answer_was_quick() -> None:
    world = World()
    world.trips = [(0.0, 0.1)] * 7 + [(0.001, 0.001)] + [(0.0, 0.1)] * 7
    await world.clock.sample()
    assert world.behind() == pytest.approx(0.001, abs=1e-4)
    assert len(world.trips) == 7


async def test_first_sample_ends_even_if_no_answer_is_quick() -> None:
    world = World()
    world.trips = [(0.1, 0.1)] * 100
    await world.clock.sample()
    assert len(world.trips) == 95  # after a second


async def test_later_samples_take_three_reads_even_if_they_are_slow() -> None:
    world = await started()
    world.trips = [(0.1, 0.1)] * 100
    await world.clock.sample()
    assert len(world.trips) == 97


@given(
    st.lists(st.tuples(st.floats(0, 2), st.floats(0, 2)), min_size=3, max_size=30),
    st.floats(0, 60),
)
def test_clock_is_never_ahead_and_no_later_than_the_shortest_way_back(
    trips: list[tuple[float, float]], pause: float
) -> None:
    """A request may wait long and its answer come at once, on a link that is slow one way or a host that is busy."""

    async def live() -> None:
        world = World()
        world.trips = list(trips)
        while len(world.trips) >= 3:
            await world.clock.sample()
            assert world.behind() >= -1e-5
            world.advance(pause)
        world.advance(100)  # what was behind by more than a little is made up slowly
        assert world.behind() <= min(back for _, back in trips[: len(trips) // 3 * 3]) + 1e-5

    asyncio.run(live())


async def test_slow_sample_does_not_spoil_what_is_known() -> None:
    world = await started()
    world.trips = [(0.3, 0.8)] * 3
    assert await world.clock.sample() == 0.0
    assert world.behind() == pytest.approx(0.0, abs=1e-6)


async def test_small_correction_is_made_at_once() -> None:
    world = await started()
    world.store_seconds += 0.04
    assert await world.clock.sample() == pytest.approx(0.04)
    assert world.behind() == pytest.approx(0.0, abs=1e-6)


async def test_small_correction_backwards_lets_time_stand_still() -> None:
    world = await started()
    before = world.clock.now()
    world.store_seconds -= 0.04
    await world.clock.sample()
    assert world.clock.now() == before
    world.advance(0.05)
    assert world.clock.now() == before + timedelta(seconds=0.01)


@pytest.mark.parametrize("jump", [5.0, -5.0])
async def test_larger_correction_is_slewed(jump: float) -> None:
    world = await started()
    world.store_seconds += jump
    assert await world.clock.sample() == pytest.approx(jump)
    assert world.behind() == pytest.approx(jump)
    world.advance(10)
    assert world.behind() == pytest.approx(jump * 0.8)
    world.advance(39.9)
    assert abs(world.behind()) == pytest.approx(0.01, abs=1e-5)
    world.advance(1)
    assert world.behind() == pytest.approx(0.0, abs=1e-6)
    world.advance(1000)
    assert world.behind() == pytest.approx(0.0, abs=1e-6)


async def test_slew_is_as_fast_however_often_it_is_asked_or_sampled() -> None:
    world = await started()
    world.store_seconds += 10
    await world.clock.sample()
    for number in range(100):
        world.advance(0.1)
        if number % 10 == 0:
            await world.clock.sample()
        elif number % 3 == 0:
            world.clock.now()
    assert world.behind() == pytest.approx(9.0, abs=1e-3)


async def test_slew_begins_with_the_sample_not_with_the_last_question() -> None:
    """An hour without a correction must not be saved up as reach for the next one."""
    world = await started()
    world.advance(3600)
    world.store_seconds += 20
    world.seen.append(world.clock.now())
    await world.clock.sample()
    assert world.behind() == pytest.approx(20.0, abs=0.01)
    assert world.seen[-1] == world.seen[0]  # asked between the reads: no jump there either


async def test_night_of_suspension_is_made_up_at_once() -> None:
    world = await started()
    world.store_seconds += 8 * 3600  # the host's monotonic clock stood still meanwhile
    await world.clock.sample()
    assert world.behind() == pytest.approx(0.0, abs=1e-6)


async def test_store_set_back_by_hours_is_never_followed_backwards() -> None:
    world = await started()
    before = world.clock.now()
    world.store_seconds -= 3 * 3600
    await world.clock.sample()
    assert world.clock.now() >= before
    world.advance(100)
    assert world.clock.now() == before + timedelta(seconds=90)


async def test_failed_sample_changes_nothing() -> None:
    world = await started()
    world.store_seconds += 30
    world.fails = True
    with pytest.raises(ConnectionError):
        await world.clock.sample()
    world.advance(10)
    assert world.clock.now() == at(10)


Turn = tuple[float, float, bool]
turns = st.lists(
    st.tuples(
        st.floats(0, 100),
        st.one_of(st.just(0.0), st.floats(-0.05, 0.05), st.floats(-100, 100), st.floats(-1e5, 1e5)),
        st.booleans(),
    ),
    max_size=40,
)


@given(turns, st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5)), max_size=30))
def test_clock_never_goes_backwards(turns: list[Turn], trips: list[tuple[float, float]]) -> None:
    async def run() -> None:
        world = await started()
        world.trips = list(trips)
        world.seen.append(world.clock.now())
        for seconds, jump, is_sampled in turns:
            world.advance(seconds)
            world.store_seconds += jump
            if is_sampled:
                await world.clock.sample()
            world.seen.append(world.clock.now())
        assert world.seen == sorted(world.seen)

    asyncio.run(run())


@given(st.floats(-1000, 1000), st.integers(1, 50))
def test_clock_comes_home_after_a_jump(jump: float, samples: int) -> None:
    async def run() -> None:
        world = await started()
        world.store_seconds += jump
        for _ in range(samples):
            world.advance(11_000 / samples)
            await world.clock.sample()
        world.advance(11_000)
        assert world.behind() == pytest.approx(0.0, abs=1e-3)

    asyncio.run(run())


# -- the waiter ------------------------------------------------------------------------------------------------

LONG = 3600.0


async def run_ready() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_wait_ends_by_its_timer() -> None:
    await LoopWaiter().wait(0.001)
    await LoopWaiter().wait(0)
    await LoopWaiter().wait(-5)


async def test_signal_before_the_wait_ends_it_at_once_and_only_once() -> None:
    waiter = LoopWaiter()
    waiter.signal()
    waiter.signal()
    await waiter.wait(LONG)
    second = asyncio.create_task(waiter.wait(LONG))
    await run_ready()
    assert not second.done()
    waiter.signal()
    await second


async def test_signal_during_the_wait_ends_it() -> None:
    waiter = LoopWaiter()
    task = asyncio.create_task(waiter.wait(LONG))
    await run_ready()
    for _ in range(100):
        waiter.signal()
    await task
    following = asyncio.create_task(waiter.wait(LONG))
    await run_ready()
    assert not following.done()
    following.cancel()


async def test_signal_between_the_timer_and_the_waking_is_not_lost() -> None:
    waiter = LoopWaiter()
    woken: list[int] = []
    task = asyncio.create_task(waiter.wait(0))
    task.add_done_callback(lambda _: woken.append(1))
    await asyncio.sleep(0)
    waiter.signal()
    await task  # whoever waited looks at its work after this, and so sees what the signal was for
    assert woken == [1]


async def test_storm_of_signals_starves_nobody() -> None:
    waiter = LoopWaiter()
    others = 0

    async def other() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    for _ in range(100):
        waiter.signal()
        await waiter.wait(LONG)
    task.cancel()
    assert others >= 99


async def test_cancelled_wait_leaves_no_timer_and_no_stale_signal() -> None:
    waiter = LoopWaiter()
    task = asyncio.create_task(waiter.wait(LONG))
    await run_ready()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    following = asyncio.create_task(waiter.wait(LONG))
    await run_ready()
    assert not following.done()
    waiter.signal()
    await following


async def test_signal_of_a_cancelled_wait_is_left_to_the_next() -> None:
    waiter = LoopWaiter()
    task = asyncio.create_task(waiter.wait(LONG))
    await run_ready()
    task.cancel()
    waiter.signal()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    await waiter.wait(LONG)


# -- the rest ----------------------------------------------------------------------------------------------------


def test_host_time_is_aware_utc() -> None:
    assert host_time().tzinfo is UTC


def test_ids_are_version_seven_and_grow() -> None:
    source = UuidSource()
    ids = [source.new_uuid() for _ in range(1000)]
    assert {item.version for item in ids} == {7}
    assert len(set(ids)) == 1000
    assert ids == sorted(ids)


def test_random_sources_differ() -> None:
    assert system_random().random() != system_random().random()
