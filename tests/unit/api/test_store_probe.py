"""Strangers ask whether the server lives: the store is asked once a second, however many they are."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from mainspring.api.store_probe import FRESH_FOR, StoreProbe
from mainspring.core.rights import STRANGER
from mainspring.errors import StoreUnavailable
from mainspring.registry import FunctionRegistry
from mainspring.testing.factories import START
from mainspring.testing.manual import ManualRuntime
from tests.unit.api.asgi import api_of, client_of


class Asked:
    """A store that is asked whether it answers.

    Attributes:
        begun: set once it is asked.
        gate: set, or what it says waits for it.
    """

    def __init__(self) -> None:
        self.count = 0
        self.error: StoreUnavailable | None = None
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def ping(self) -> None:
        self.count += 1
        self.begun.set()
        await self.gate.wait()
        if self.error is not None:
            raise self.error


async def test_within_a_second_the_answer_stands() -> None:
    asked = Asked()
    probe = StoreProbe(asked.ping)
    for _ in range(50):
        await probe.check(START)
    await probe.check(START + FRESH_FOR - timedelta(microseconds=1))
    assert asked.count == 1
    await probe.check(START + FRESH_FOR)
    assert asked.count == 2


async def test_a_failure_stands_as_long_and_is_over_then() -> None:
    asked = Asked()
    asked.error = StoreUnavailable("the connection broke")
    probe = StoreProbe(asked.ping)
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="the connection broke"):
            await probe.check(START)
    assert asked.count == 1
    asked.error = None
    await probe.check(START + FRESH_FOR)


async def test_those_who_come_while_the_store_is_asked_share_its_answer() -> None:
    asked = Asked()
    asked.gate.clear()
    probe = StoreProbe(asked.ping)
    late = [START + timedelta(seconds=number) for number in range(20)]  # it takes its time
    waiting = [asyncio.create_task(probe.check(at)) for at in late]
    await asked.begun.wait()
    for _ in waiting:
        await asyncio.sleep(0)
    asked.gate.set()
    await asyncio.gather(*waiting)
    assert asked.count == 1


async def test_who_goes_away_leaves_the_others_an_answer() -> None:
    asked = Asked()
    asked.gate.clear()
    probe = StoreProbe(asked.ping)
    first, second = (asyncio.create_task(probe.check(START)) for _ in range(2))
    await asked.begun.wait()
    first.cancel()
    asked.gate.set()
    await second
    assert first.cancelled() or first.done()
    assert asked.count == 2


async def test_a_clock_that_goes_back_makes_no_answer_last() -> None:
    asked = Asked()
    probe = StoreProbe(asked.ping)
    await probe.check(START)
    await probe.check(START - timedelta(hours=1))
    assert asked.count == 2


async def test_strangers_load_the_store_once_a_second_and_who_sees_all_each_time() -> None:
    asked = Asked()
    async with ManualRuntime(FunctionRegistry()) as runtime:
        strangers = api_of(runtime, identify=lambda _: STRANGER, ping=asked.ping)
        async with client_of(strangers) as http:
            for _ in range(20):
                assert (await http.get("/health")).status_code == 200
            assert asked.count == 1
            runtime.clock.advance(1)
            asked.error = StoreUnavailable("the connection broke")
            assert {(await http.get("/health")).status_code for _ in range(20)} == {503}
            assert asked.count == 2
            asked.error = None
            runtime.clock.advance(1)
            assert (await http.get("/health")).status_code == 200
        asked.count = 0
        async with client_of(api_of(runtime, ping=asked.ping)) as http:
            for _ in range(3):
                assert (await http.get("/health")).status_code == 200
        assert asked.count == 3
