"""What servers tell each other with their heartbeats."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import pytest

from mainspring.core.fairness import LaneOrder
from mainspring.core.ids import LaneId
from mainspring.core.model import Lane, LaneKey, Priority
from mainspring.core.reach import Reach
from mainspring.core.served import pack_served
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
    """What a server tells that has given the tenant three runs of 0.2 s."""
    teller = make_order()
    exchange = ServedExchange(teller)
    teller.times.learn("a", 0.2)
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
    assert queue.tenants.time("a") - queue.tenants.time("b") == pytest.approx(0.6, abs=0.01)
    exchange.hear([node(5, told)])
    assert queue.tenants.time("a") - queue.tenants.time("b") == pytest.approx(0.6, abs=0.01), "it counts once"


def test_what_another_server_changes_is_taken_over_bit_by_bit_and_in_full() -> None:
    order = make_order()
    exchange, charged = ServedExchange(order), list[float]()
    [queue] = order._queues.values()
    for beat in range(200):
        more = 0.1 if 50 <= beat < 60 else 0.0
        amounts = {("q", Priority.MEDIUM, "a"): 0.01 + more, ("q", Priority.MEDIUM, "b"): 0.01}
        told = pack_served(amounts, lambda _: 0.01)
        exchange.hear([node(beat, told)])
        charged.append(queue.tenants.time("a") - queue.tenants.time("b"))
    assert charged[50] - charged[49] == pytest.approx(0.1 / 8), "there are two servers"
    assert charged[-1] - charged[49] == pytest.approx(1.0, abs=0.01), "it all counts in the end"


@pytest.mark.parametrize(("beats", "seconds"), [(4, 0.0), (5, 0.6), (6, 1.2), (900, 3.0), (1, 0.0)])
def test_a_heartbeat_that_was_missed_counts_like_the_one_that_was_seen(
    told: bytes, beats: int, seconds: float
) -> None:
    order = make_order()
    exchange = ServedExchange(order)
    exchange.hear([node(4, told)])
    exchange.hear([node(beats, told)])
    [queue] = order._queues.values()
    assert queue.tenants.time("a") - queue.tenants.time("b") == pytest.approx(seconds, abs=0.01)


def test_a_server_that_starts_learns_from_others_what_attempts_take(told: bytes) -> None:
    order = make_order()
    exchange = ServedExchange(order)
    exchange.hear([node(4, told)])
    assert order.times.mean("a") == 0.2
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


WEIGHTS = {"a": 1.0, "b": 2.0, "c": 7.0}
EVERYTHING = ("shell", "own")


class Server:
    """A server whose workers take twenty runs, twenty times between two heartbeats."""

    def __init__(self, name: str, *, routes: Sequence[str] = EVERYTHING) -> None:
        self.name = name
        self.order = LaneOrder()
        self.order.weigh(WEIGHTS)
        # Only the heaviest tenant has runs of the second function.
        wanted = [(tenant, "shell") for tenant in WEIGHTS] + [("c", "own")]
        self.lanes = {
            LaneId(number): LaneKey("q", route, tenant, Priority.MEDIUM)
            for number, (tenant, route) in enumerate(wanted)
        }
        self.order.keep(Lane(lane_id, key, START) for lane_id, key in self.lanes.items())
        self.exchange = ServedExchange(self.order)
        self.reach = Reach(lambda queue, route: route in routes)
        self.beats = 0
        self.served: bytes | None = None

    def work(self) -> Counter[str]:
        """Give out what is free until the next heartbeat. Return who got how many runs."""
        given: Counter[str] = Counter()
        for _ in range(20):
            quotas, taken = self.order.choose(self.reach, 20, START), Counter[LaneId]()
            for lane_id, quota in quotas.items():
                taken[lane_id] += min(quota, 20 - taken.total())
            self.order.charge(self.reach, taken, quotas, 20)
            for lane_id, count in taken.items():
                given[self.lanes[lane_id].tenant] += count
        return given

    def beat(self) -> None:
        self.beats += 1
        self.served = self.exchange.take(is_alone=False)


def pass_beats(servers: Sequence[Server], beats: int) -> list[Counter[str]]:
    """Let servers work, hear and tell. Return who got how many runs between each two heartbeats.

    They read of each other before anybody beats, so what was given counts elsewhere up to two heartbeats later.
    """
    found = []
    for _ in range(beats):
        states = {one.name: node(one.beats, one.served, one.name) for one in servers}
        for server in servers:
            server.exchange.hear([state for name, state in states.items() if name != server.name])
        for server in servers:
            server.beat()
        found.append(sum((server.work() for server in servers), Counter[str]()))
    return found


def deviation(given: Counter[str]) -> float:
    """Return the largest part by which a tenant has more or less than its share."""
    parts = {tenant: given[tenant] / given.total() / (weight / 10) for tenant, weight in WEIGHTS.items()}
    return max(abs(part - 1) for part in parts.values())


@pytest.mark.parametrize("count", [2, 3, 5, 20])
def test_servers_do_not_all_make_up_for_the_same_lead(count: int) -> None:
    servers = [Server(f"s{number}") for number in range(count)]
    pass_beats(servers, 3)
    # For a moment, the workers of one server execute only what the heaviest tenant has.
    servers[0].reach = Reach(lambda queue, route: route == "own")
    disturbed = pass_beats(servers, 3)
    servers[0].reach = Reach(lambda queue, route: True)
    after = pass_beats(servers, 10 * count)
    assert deviation(sum(disturbed + after, Counter[str]())) < 0.03, "the lead was made up for"
    assert all(deviation(one) < 0.03 for one in after[-5:]), "and no more than that"


def test_workers_that_serve_one_tenant_count_for_its_share() -> None:
    servers = [Server("one"), Server("two"), Server("own", routes=("own",))]
    pass_beats(servers, 20)
    assert deviation(sum(pass_beats(servers, 20), Counter[str]())) < 0.02


def test_servers_that_come_and_go_know_at_once_what_others_do() -> None:
    servers = [Server("s0"), Server("s1"), Server("s2", routes=("own",))]
    pass_beats(servers, 5)
    given = Counter[str]()
    for number in range(3, 18):
        servers.append(Server(f"s{number}", routes=("own",) if number % 3 == 2 else EVERYTHING))
        del servers[0]
        given += sum(pass_beats(servers, 5), Counter[str]())
    assert deviation(given) < 0.05
