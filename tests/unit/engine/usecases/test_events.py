"""Events that many jobs listen to: a server bounds what it does at once, and repeats nothing that is stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

import pytest

from mainspring.core.events import patterns
from mainspring.engine.usecases.events import EventRequest
from mainspring.errors import Conflict
from mainspring.ports.store.events import EventResult, EventStatus, NewEvent
from mainspring.registry import FunctionRegistry
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.manual import TENANT, ManualRuntime

TOPIC = "orders.paid"
MOVING = "moving"
LISTENERS = 600
EVENTS = 100


class NotingStore(MemoryStore):
    """Notes how much each call adds. For the listeners of one topic, it says that they have moved."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.starts: list[int] = []

    async def add_events(self, events: Sequence[NewEvent], *, now: datetime) -> list[EventResult]:
        if any(new.event.topic == MOVING for new in events):
            return [EventResult(EventStatus.MOVED)] * len(events)
        self.starts.append(sum(len(new.starts) for new in events))
        return await super().add_events(events, now=now)


@pytest.fixture
async def runtime() -> AsyncIterator[ManualRuntime]:
    registry = FunctionRegistry()
    registry.add("ship", lambda event: event["key"])
    clock = FakeClock()
    async with ManualRuntime(registry, clock=clock, store=NotingStore(time=clock.now)) as runtime:
        yield runtime


async def listen(runtime: ManualRuntime, count: int, **fields: Any) -> None:
    trigger = {"type": "event", "topic": TOPIC, **fields}
    bodies = [{"name": f"job {place}", "function": "ship", "trigger": trigger} for place in range(count)]
    await runtime.client.jobs.create_many(TENANT, bodies)


def event(topic: str = TOPIC) -> EventRequest:
    return EventRequest(topic=topic, data=b'{"country":"DE"}')


@pytest.mark.parametrize(
    ("listeners", "events", "size", "most"), [(LISTENERS, EVENTS, 4, 500), (20, 2, 60_000, 2)]
)
async def test_others_have_their_turn_while_patterns_are_judged(
    runtime: ManualRuntime, listeners: int, events: int, size: int, most: int
) -> None:
    await listen(runtime, listeners, pattern={"data": {"country": ["AT"]}})
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(take_turns())
    large = EventRequest(topic=TOPIC, data=b'{"country":"%b"}' % (b"D" * size))
    await runtime.client.events.send_many(TENANT, [large] * events)
    others.cancel()
    assert turns >= listeners * events / most


async def test_one_transaction_does_not_start_all_that_many_events_start(runtime: ManualRuntime) -> None:
    await listen(runtime, LISTENERS)
    sent = await runtime.client.events.send_many(TENANT, [event()] * 5)
    assert [len(one.result.run_ids) for one in sent] == [LISTENERS] * 5
    assert isinstance(runtime.store, NotingStore)
    assert runtime.store.starts == [2 * LISTENERS, 2 * LISTENERS, LISTENERS]


async def test_what_is_stored_is_not_sent_again_when_the_event_after_it_fails(
    runtime: ManualRuntime,
) -> None:
    """Nobody can tell that an event without an id comes again."""
    await listen(runtime, 1, pattern=None)
    job = {"name": "newest", "function": "ship", "on_event": TOPIC, "overlap": "cancel_running"}
    await runtime.client.jobs.create(TENANT, job)
    results = await asyncio.gather(
        runtime.client.events.send(
            TENANT, event("first")
        ),  # its call begins at once, and the others share one
        runtime.client.events.send(TENANT, event()),
        runtime.client.events.send_many(TENANT, [event(), event(MOVING)]),
        return_exceptions=True,
    )
    assert [type(result) is Conflict for result in results] == [False, False, True]
    kept = await runtime.store.list_events(TENANT, topic=TOPIC)
    assert len(kept) == len({one.event.id for one in kept})


async def test_pattern_stays_compiled_however_many_there_are() -> None:
    many = [patterns.read_pattern({"data": {"number": [number]}}, "pattern") for number in range(10_000)]
    for pattern in many:
        assert not pattern.matches({})
    before = patterns._compile.cache_info().misses
    for pattern in many:
        assert not pattern.matches({})
    assert patterns._compile.cache_info().misses == before
