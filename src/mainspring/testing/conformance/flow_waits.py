"""Waits of flows for events: each ends once, with an event that came before it or after it."""

from __future__ import annotations

import asyncio
from typing import Any

from mainspring.core.events.model import Event
from mainspring.core.ids import RunId
from mainspring.core.states import RunState
from mainspring.core.workflows.answers import StepAnswer, pack_event
from mainspring.core.workflows.waits import AnswerKind
from mainspring.ports.store import Store
from mainspring.ports.store.flows import FlowVerdict, NewWait
from mainspring.testing.conformance.events import TOPIC, add, make_event, make_new_event
from mainspring.testing.conformance.flows import (
    contents,
    end_of,
    make_start,
    make_turn,
    read_mail,
    start_flow,
)
from mainspring.testing.factories import START, add_job, at, own_shards, running_run

_PAIRS = 30


def make_wait(step: int = 1, **overrides: Any) -> NewWait:
    """Make the wait of a step for an event that `make_event` makes."""
    values: dict[str, Any] = {"tenant": "default", "topic": TOPIC, "key": "order-1", "since": START}
    return NewWait(**{"step": step} | values | overrides)


def answer_of(event: Event, step: int = 1) -> StepAnswer:
    """Return the mail that an event makes."""
    return StepAnswer(step, AnswerKind.EVENT, pack_event(event.topic, event.data))


async def send(store: Store, event: Event, seconds: float = 1) -> int:
    """Add an event. Return how many waits it has ended."""
    [result] = await add(store, await make_new_event(store, event=event), seconds=seconds)
    return result.released


class FlowWaits:
    """An event ends each wait of its topic and key, once."""

    __test__ = False

    async def _wait(self, store: Store, *waits: NewWait, epochs: Any = None) -> RunId:
        flow_id = await start_flow(store, await add_job(store))
        turn = await make_turn(store, flow_id, waits=waits)
        owned = await own_shards(store) if epochs is None else epochs
        assert await store.turn_flows([turn], epochs=owned, now=at(0)) == [FlowVerdict.TURNED]
        return flow_id

    async def test_an_event_after_the_wait_ends_it(self, store: Store) -> None:
        epochs = await own_shards(store)
        flow_id = await self._wait(store, make_wait(), make_wait(2, key=None), epochs=epochs)
        other = await self._wait(store, make_wait(3), epochs=epochs)
        event = make_event()
        for different in (
            make_event(key="order-2"),
            make_event(topic="orders.lost"),
            make_event(tenant="other"),
        ):
            assert await send(store, different) == 0
        assert await contents(store, flow_id) == []
        assert await send(store, event) == 2
        assert await send(store, event) == 0
        assert await contents(store, flow_id) == [answer_of(event)]
        assert await contents(store, other) == [answer_of(event, 3)]
        plain = make_event(key=None, data=None)
        assert await send(store, plain) == 1
        assert (await contents(store, flow_id))[1:] == [answer_of(plain, 2)]

    async def test_the_first_event_of_a_call_ends_it(self, store: Store) -> None:
        flow_id = await self._wait(store, make_wait())
        events = [
            make_event(7, key="else"),
            make_event(1, data=b"1"),
            make_event(2, key="order-1", data=b"2"),
        ]
        results = await add(store, *[await make_new_event(store, event=one) for one in events], seconds=1)
        assert [result.released for result in results] == [0, 1, 0]
        assert await contents(store, flow_id) == [answer_of(events[1])]

    async def test_an_event_before_the_wait_ends_it_at_once(self, store: Store) -> None:
        for number, received in enumerate((0.0, 5.0, 6.0)):
            event = make_event(number, key="order-1", data=b"%d" % number, received_at=at(received))
            await send(store, event, received)
        expected = answer_of(make_event(data=b"1"))
        flow_id = await self._wait(store, make_wait(since=at(5)))
        assert await contents(store, flow_id) == [expected]
        assert await send(store, make_event(9, key="order-1")) == 0
        job = await add_job(store)
        held = await running_run(store, job)
        start = make_start(job, held, waits=(make_wait(since=at(5)), make_wait(2, since=at(7))))
        assert await store.start_flows([start], now=at(7)) == [FlowVerdict.STARTED]
        assert await contents(store, held.run_id) == [expected]

    async def test_what_waits_for_nothing_any_more_gets_nothing(self, store: Store) -> None:
        epochs = await own_shards(store)
        flow_id = await self._wait(store, make_wait(), epochs=epochs)
        end = await end_of(store, flow_id, RunState.SUCCEEDED)
        turn = await make_turn(store, flow_id, end=end, drops_waits=True)
        assert await store.turn_flows([turn], epochs=epochs, now=at(1)) == [FlowVerdict.TURNED]
        assert await send(store, make_event()) == 0
        assert await read_mail(store, flow_id) == []

    async def test_a_turn_that_is_lost_waits_for_nothing(self, store: Store) -> None:
        epochs = await own_shards(store)
        flow_id = await start_flow(store, await add_job(store))
        late = await make_turn(store, flow_id, waits=(make_wait(),), revision=7)
        assert await store.turn_flows([late], epochs=epochs, now=at(0)) == [FlowVerdict.LOST]
        assert await send(store, make_event()) == 0

    async def test_no_event_is_lost_between_a_look_and_a_wait(self, store: Store) -> None:
        """An event and a wait for it at the same moment: the wait ends, once, whichever is first."""
        epochs = await own_shards(store)
        job = await add_job(store)
        for number in range(_PAIRS):
            key = f"order-{number}"
            flow_id = await start_flow(store, job)
            turn = await make_turn(store, flow_id, waits=(make_wait(key=key),))
            new = await make_new_event(store, event=make_event(number, received_at=at(1)))
            _, verdicts = await asyncio.gather(
                add(store, new, seconds=1), store.turn_flows([turn], epochs=epochs, now=at(1))
            )
            assert verdicts == [FlowVerdict.TURNED]
            assert await contents(store, flow_id) == [answer_of(new.event)]
