"""The fakes of time do what their ports promise, and the factories' ids are job ids."""

import asyncio
from datetime import timedelta

import pytest

from mainspring.core.ids import job_shard
from mainspring.ports.clock import Clock, IdSource, Waiter
from mainspring.testing import START, FakeClock, IdSequence, ManualWaiter, at


def test_fake_clock_stands_still_until_advanced() -> None:
    clock = FakeClock()
    port: Clock = clock
    assert (port.now(), port.monotonic()) == (START, 0.0)
    assert clock.advance(1.5) == at(1.5)
    assert (port.now(), port.monotonic()) == (at(1.5), 1.5)


def test_fake_clock_jumps_only_on_the_wall() -> None:
    clock = FakeClock()
    clock.set(at(3600))
    assert (clock.now(), clock.monotonic()) == (at(3600), 0.0)


def test_fake_clock_refuses_to_go_backwards() -> None:
    clock = FakeClock()
    with pytest.raises(ValueError, match="earlier"):
        clock.set(START - timedelta(seconds=1))
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)


async def test_manual_waiter_waits_for_its_signal_only() -> None:
    waiter = ManualWaiter()
    port: Waiter = waiter
    task = asyncio.create_task(port.wait(0.001))
    await waiter.until_waiting()
    assert not task.done()
    port.signal()
    await task
    assert waiter.waits == [0.001]


async def test_manual_waiter_keeps_a_signal_for_the_next_wait() -> None:
    waiter = ManualWaiter()
    waiter.signal()
    await waiter.wait(10)
    task = asyncio.create_task(waiter.wait(10))
    await waiter.until_waiting()
    assert not task.done(), "one signal ends one wait"
    task.cancel()


def test_id_sequence_counts_in_uuid7_form() -> None:
    ids: IdSource = IdSequence()
    made = [ids.new_uuid() for _ in range(600)]
    assert made == sorted(set(made))
    assert {uuid.version for uuid in made} == {7}
    assert made == [IdSequence(number).new_uuid() for number in range(1, 601)]


def test_id_sequence_gives_ids_of_a_shard() -> None:
    assert job_shard(IdSequence().new_job_id(shard=77)) == 77
