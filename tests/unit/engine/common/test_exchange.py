"""What servers tell each other with their heartbeats."""

from datetime import timedelta

import pytest

from mainspring.core.fairness import LaneOrder
from mainspring.core.ids import LaneId
from mainspring.core.model import Lane, LaneKey, Priority
from mainspring.core.reach import Reach
from mainspring.engine.common.exchange import ServedExchange
from mainspring.ports.store.nodes import NodeFacts, NodeState
from mainspring.testing.factories import START

KEY = LaneKey("q", "shell", "a", Priority.MEDIUM)


def make_order() -> LaneOrder:
    order = LaneOrder()
    order.keep([
        Lane(LaneId(1), KEY, START),
        Lane(LaneId(2), LaneKey("q", "shell", "b", Priority.MEDIUM), START),
    ])  # fmt: skip
    return order


def node(beats: int, served: bytes | None, name: str = "other") -> NodeState:
    facts = NodeFacts(id=name, host="h", pid=1, version="1", tzdata="2026a")
    return NodeState(
        facts=facts,
        beats=beats,
        period=timedelta(seconds=1),
        refusal=None,
        started_at=START,
        last_beat_at=START,
        served=served,
    )


def first(order: LaneOrder) -> int:
    """Return the lane that goes next, and how many of ten seats it gets."""
    return order.choose(Reach(lambda queue, route: True), 10, START)[LaneId(1)]


@pytest.fixture
def told() -> bytes:
    """What a server tells that has given the tenant three runs of two seconds."""
    teller = make_order()
    exchange = ServedExchange(teller)
    teller.times.learn("a", 2.0)
    teller.charge_lane(Reach(lambda queue, route: True), KEY, 3)
    packed = exchange.take(is_alone=False)
    assert packed is not None
    assert exchange.take(is_alone=False) is None, "it is told once"
    return packed


def test_a_tenant_is_charged_with_what_it_got_elsewhere(told: bytes) -> None:
    order = make_order()
    exchange = ServedExchange(order)
    exchange.hear([node(4, None)])
    assert first(order) == 5
    exchange.hear([node(5, told)])
    order.choose(Reach(lambda queue, route: True), 10, START)
    [queue] = order._queues.values()
    assert queue.tenants.time("a") - queue.tenants.time("b") == pytest.approx(6.0, abs=0.1)
    exchange.hear([node(5, told)])
    assert queue.tenants.time("a") - queue.tenants.time("b") == pytest.approx(6.0, abs=0.1), "it counts once"


@pytest.mark.parametrize(("beats", "seconds"), [(4, 0.0), (5, 6.0), (6, 12.0), (900, 30.0), (1, 0.0)])
def test_a_heartbeat_that_was_missed_counts_like_the_one_that_was_seen(
    told: bytes, beats: int, seconds: float
) -> None:
    order = make_order()
    exchange = ServedExchange(order)
    exchange.hear([node(4, told)])
    exchange.hear([node(beats, told)])
    [queue] = order._queues.values()
    assert queue.tenants.time("a") - queue.tenants.time("b") == pytest.approx(seconds, abs=0.1)


def test_a_server_that_starts_learns_from_others_what_attempts_take(told: bytes) -> None:
    order = make_order()
    exchange = ServedExchange(order)
    exchange.hear([node(4, told)])
    assert order.times.mean("a") == 2.0
    order.times.learn("a", 0.5)
    assert order.times.mean("a") == 0.5
    exchange.hear([node(5, told)])
    assert order.times.mean("a") == 0.5


def test_a_server_that_is_alone_tells_nothing() -> None:
    order = make_order()
    exchange = ServedExchange(order)
    order.charge_lane(Reach(lambda queue, route: True), KEY, 3)
    assert exchange.take(is_alone=True) is None
    assert exchange.take(is_alone=False) is None
