"""Of queues and routes that are stopped, nothing is chosen; of all others, whatever is ready is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.fairness import LaneOrder
from mainspring.core.ids import LaneId
from mainspring.core.model import Lane, LaneKey, Priority
from mainspring.core.queues import Queue, QueueOrder
from mainspring.core.reach import Place, Reach
from mainspring.testing.factories import at

WIDE = "wide"
"""A queue with so many routes that its lanes are kept by tenant, too."""
PLACES = [(WIDE, f"r{number}") for number in range(20)] + [("a", "r0"), ("a", "r1"), ("aged", "r0")]


def key_of(number: int) -> LaneKey:
    """Return the key of the lane with this number: two tenants and two tiers in each place."""
    queue, route = PLACES[number // 4]
    return LaneKey(queue, route, f"t{number % 2}", (Priority.HIGH, Priority.LOW)[number // 2 % 2])


@dataclass
class Model:
    """What is ready and what is stopped, kept in the plainest way, beside the order that is tried."""

    order: LaneOrder = field(default_factory=LaneOrder)
    reach: Reach = field(default_factory=lambda: Reach(lambda queue, route: True))
    heads: dict[int, float] = field(default_factory=dict)
    stops: dict[Place, float] = field(default_factory=dict)
    now: float = 0.0

    def put(self, number: int, ready_at: float | None) -> None:
        lane = Lane(LaneId(number), key_of(number), None if ready_at is None else at(ready_at))
        self.order.put(lane)
        self.heads.pop(number, None)
        if ready_at is not None:
            self.heads[number] = ready_at

    def stop(self, stops: Mapping[Place, float]) -> None:
        self.stops = dict(stops)
        self.order.stop({place: at(until) for place, until in stops.items()})

    def opens_at(self, number: int) -> float:
        until = self.stops.get(PLACES[number // 4])
        return max(self.heads[number], until) if until is not None else self.heads[number]

    def check(self) -> None:
        is_any = self.order.wake(at(self.now))
        ready = {number for number in self.heads if self.opens_at(number) <= self.now}
        assert self.order.awake == len(ready)
        assert is_any == bool(ready)
        chosen = {int(lane_id) for lane_id in self.order.choose(self.reach, 5, at(self.now))}
        assert chosen <= ready
        assert bool(chosen) == bool(ready)
        later = min((self.opens_at(number) for number in self.heads if number not in ready), default=None)
        if later is not None:
            next_at = self.order.next_ready_at()
            assert next_at is not None
            assert next_at <= at(later)


NUMBERS = st.integers(0, 4 * len(PLACES) - 1)
INSTANTS = st.integers(0, 20).map(float)
STEPS = st.one_of(
    st.tuples(st.just("put"), st.lists(st.tuples(NUMBERS, st.none() | INSTANTS), min_size=1, max_size=40)),
    st.tuples(st.just("stop"), st.dictionaries(st.sampled_from(PLACES), INSTANTS, max_size=6)),
    st.tuples(st.just("stop_all"), INSTANTS),
    st.tuples(st.just("pass"), st.integers(0, 5)),
)


@given(st.lists(STEPS, max_size=12))
def test_what_is_stopped_is_not_chosen_and_what_is_ready_besides_is(steps: list[tuple[str, Any]]) -> None:
    model = Model()
    model.order.rule({"aged": Queue(name="aged", order=QueueOrder.FIFO)})
    for kind, what in steps:
        match kind, what:
            case "put", [*lanes]:
                for number, ready_at in lanes:
                    model.put(number, ready_at)
            case "stop", dict(stops):
                model.stop(stops)
            case "stop_all", float(until):
                model.stop({place: until for place in PLACES if place[0] == WIDE})
            case "pass", int(seconds):
                model.now += seconds
        model.check()


@pytest.mark.parametrize("count", [1, 20])
def test_a_stop_moves_no_lane(count: int) -> None:
    """However many lanes a full cap closes, it costs as much as there are queues and routes."""
    model = Model()
    for number in range(4 * count):
        model.put(number, 0.0)
    model.check()
    entries = len(model.order._later)
    for _ in range(10):
        model.stop(dict.fromkeys(PLACES[:count], 100.0))
        model.check()
        model.stop({})
        model.check()
    assert len(model.order._later) == entries


def test_reserved_seats_are_not_sought_where_all_is_stopped() -> None:
    model = Model()
    model.order.reserve({"t0": 5}, at(0))
    model.put(0, 0.0)
    model.check()
    assert model.order.reserves.ready_tenants() == ["t0"]
    assert len(model.order.reserves.unmet()) == 1
    model.stop({PLACES[0]: 10.0})
    model.check()
    assert model.order.reserves.ready_tenants() == []
    assert model.order.reserves.unmet() == []
    model.now = 10.0
    model.check()
    assert model.order.reserves.ready_tenants() == ["t0"]
