"""The orders of queues, against models that sort everything."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.fairness import LaneOrder
from mainspring.core.ids import LaneId
from mainspring.core.model import Lane, LaneKey, Priority
from mainspring.core.pools import Peek
from mainspring.core.queues import Queue, QueueOrder
from mainspring.core.reach import Reach
from mainspring.core.served import MOST_TOLD, Served, pack_served, unpack_served
from mainspring.testing.factories import at

HIGH, MEDIUM, LOW = Priority
NOW = at(1000)
PEEKED = 20
"""Lanes whose runs are seen."""


class Store:
    """Lanes with their runs by `ready_at`, of which claims take what they are offered."""

    def __init__(self, runs: Mapping[LaneKey, Sequence[float]], *queues: Queue) -> None:
        self.keys = dict(enumerate(runs, start=1))
        self.runs = {number: sorted(map(at, runs[key])) for number, key in self.keys.items()}
        self.order = LaneOrder()
        self.order.rule({queue.name: queue for queue in queues})
        self.reach = Reach(lambda queue, route: True)
        self.look()

    def look(self) -> None:
        self.order.keep(
            Lane(LaneId(number), key, self.runs[number][0] if self.runs[number] else None)
            for number, key in self.keys.items()
        )

    def peek(self, depth: int) -> None:
        """See so many runs of each lane, as the engine does."""
        self.order.wake(NOW)
        for queue in self.order.fifo_queues():
            heads = [head for pool in queue.pools.values() for head in pool.heads.values()]
            heads.sort(key=lambda head: head.ready_at)
            ids = [head.lane_id for head in heads[:PEEKED]]
            seen = {lane_id: self.runs[lane_id][:depth] for lane_id in ids}
            ends = [instants[-1] for instants in seen.values() if len(instants) == depth]
            ends += [head.ready_at for head in heads[PEEKED : PEEKED + 1]]
            runs = sorted((instant, lane_id) for lane_id in ids for instant in seen[lane_id])
            queue.peek = Peek(tuple(runs), min(ends, default=NOW))

    def claim(self, seats: int, depth: int = 64) -> list[tuple[datetime, int]]:
        """Fill seats as the store does: lane after lane, each up to its quota."""
        self.peek(depth)
        quotas = self.order.choose(self.reach, seats, NOW)
        taken: list[tuple[datetime, int]] = []
        for lane_id, quota in quotas.items():
            count = min(quota, seats - len(taken))
            taken += [(instant, lane_id) for instant in self.runs[lane_id][:count]]
            del self.runs[lane_id][:count]
        self.order.charge(self.reach, Counter(LaneId(n) for _, n in taken), quotas, seats)
        self.look()
        return taken


def key(tenant: str, route: str = "shell", queue: str = "q", priority: Priority = MEDIUM) -> LaneKey:
    return LaneKey(queue, route, tenant, priority)


instants = st.lists(st.integers(0, 999), max_size=12, unique=True)
of_many = st.dictionaries(
    st.builds(key, st.sampled_from("abcd"), st.sampled_from("xyz")), instants, min_size=1
)


@given(of_many, st.integers(1, 20), st.integers(1, 5))
def test_fifo_gives_out_runs_as_if_they_were_sorted(
    made: Mapping[LaneKey, Sequence[float]], seats: int, depth: int
) -> None:
    """However little was seen of the lanes: then a claim gets less, and never something younger."""
    store = Store(made, Queue(name="q", order=QueueOrder.FIFO))
    left = sorted((instant, number) for number, runs in store.runs.items() for instant in runs)
    while left:
        taken = store.claim(seats, depth)
        assert taken, "something is left, and nothing is given out"
        assert sorted(at for at, _ in taken) == [at for at, _ in left[: len(taken)]]
        left = left[len(taken) :]


@given(of_many)
def test_fifo_fills_all_seats_if_enough_was_seen(made: Mapping[LaneKey, Sequence[float]]) -> None:
    store = Store(made, Queue(name="q", order=QueueOrder.FIFO))
    count = sum(map(len, store.runs.values()))
    assert len(store.claim(200)) == count


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 4))
def test_fifo_holds_over_many_tenants_and_routes(seed: int, seats: int, depth: int) -> None:
    random = Random(seed)
    made = {
        key(f"t{number % 23}", f"r{number % random.choice([1, 7, 97])}"): random.sample(range(999), 3)
        for number in range(180)
    }
    store = Store(made, Queue(name="q", order=QueueOrder.FIFO))
    left = sorted(instant for runs in store.runs.values() for instant in runs)
    for _ in range(6):
        taken = sorted(at for at, _ in store.claim(seats, depth))
        assert taken
        assert taken == left[: len(taken)]
        left = left[len(taken) :]


def test_fifo_holds_within_its_queue_and_tier_only() -> None:
    store = Store(
        {
            key("a"): range(50),
            key("b"): range(100, 150),
            key("a", queue="r"): range(500, 550),
            key("b", queue="r"): range(50),
            key("a", priority=HIGH): [900],
        },
        Queue(name="q", order=QueueOrder.FIFO),
    )
    taken = Counter(store.keys[number] for _, number in store.claim(1) + store.claim(40))
    assert taken[key("a", priority=HIGH)] == 1
    assert taken[key("a")] == pytest.approx(20, abs=1)
    assert taken[key("b")] == 0
    assert taken[key("a", queue="r")] == pytest.approx(taken[key("b", queue="r")], abs=2)


@given(
    st.dictionaries(st.sampled_from("abcde"), st.integers(1, 9), min_size=2),
    st.dictionaries(st.sampled_from("abcde"), st.floats(0.001, 9.0)),
    st.integers(1, 40),
)
def test_in_turn_each_tenant_gets_as_many_runs(
    weights: dict[str, int], seconds: dict[str, float], seats: int
) -> None:
    store = Store(
        {key(tenant): range(500) for tenant in weights}, Queue(name="q", order=QueueOrder.ROUND_ROBIN)
    )
    store.order.weigh(weights)
    for tenant, took in seconds.items():
        for _ in range(50):
            store.order.times.learn(tenant, took)
    got: Counter[str] = Counter()
    while got.total() < 50 * len(weights):
        got.update(store.keys[number].tenant for _, number in store.claim(seats))
        # At no time is anybody ahead by more than a portion and a turn.
        assert max(got.values()) - min(got[tenant] for tenant in weights) <= -(-seats // len(weights)) + 1


def test_another_order_begins_anew() -> None:
    store = Store({key("a"): range(400), key("b"): range(400, 800)}, Queue(name="q", order=QueueOrder.FIFO))
    assert {number for _, number in store.claim(100)} == {1}
    store.order.rule({})
    assert Counter(number for _, number in store.claim(100)) == {1: 50, 2: 50}
    store.order.rule({"q": Queue(name="q", order=QueueOrder.FIFO)})
    assert {number for _, number in store.claim(100)} == {1}


@pytest.mark.parametrize(("share", "most"), [(0.0, 0), (0.1, 10), (0.5, 50)])
def test_a_queue_says_what_it_gives_to_runs_that_wait_for_long(share: float, most: int) -> None:
    store = Store(
        {key("a", priority=HIGH): range(900, 1000), key("a", priority=LOW): range(200)},
        Queue(name="q", aging=timedelta(seconds=500), aging_share=share),
    )
    low = sum(store.keys[number].priority is LOW for _ in range(10) for _, number in store.claim(10))
    assert low == pytest.approx(most, abs=1)


def test_what_ages_in_several_queues_shares_the_largest_share() -> None:
    aged = {key("a", queue=f"q{n}", priority=LOW): range(500) for n in range(8)}
    queues = [Queue(name=f"q{n}", aging=timedelta(seconds=1), aging_share=0.02 * n) for n in range(8)]
    store = Store({key("a", queue="urgent", priority=HIGH): range(1000), **aged}, *queues)
    taken = [store.keys[number] for _ in range(10) for _, number in store.claim(50)]
    assert sum(one.priority is LOW for one in taken) == pytest.approx(0.14 * 500, abs=10)
    assert all(one.queue != "q0" for one in taken)


# -- what servers tell each other ----------------------------------------------------------------------------------


def test_what_a_server_tells_is_read_by_another() -> None:
    given = {("q", MEDIUM, "a"): 1.25, ("mail", LOW, "b"): 3.0}
    told = pack_served(given, {"a": 0.5, "b": 2.0}.__getitem__)
    assert told is not None
    assert unpack_served(told) == {
        ("q", MEDIUM, "a"): Served(1.25, 0.5),
        ("mail", LOW, "b"): Served(3.0, 2.0),
    }
    assert pack_served({}, float) is None


def test_of_too_many_tenants_those_are_told_that_got_the_most() -> None:
    told = pack_served({("q", MEDIUM, f"t{n}"): float(n) for n in range(5000)}, lambda tenant: 1.0)
    assert told is not None
    found = unpack_served(told)
    assert len(found) == MOST_TOLD
    assert min(served.amount for served in found.values()) == 4000.0


@pytest.mark.parametrize("told", [b"", b"{}", b"[1]", b'[["q",9,"a",1,1]]', b'[["q",1,"a","x",1]]', b"\xff"])
def test_what_cannot_be_read_counts_as_nothing(told: bytes) -> None:
    assert unpack_served(told) == {}


def test_servers_whose_workers_differ_come_to_equal_shares_if_they_tell_each_other() -> None:
    """The second server's workers serve one tenant only. Of 30 slots a beat each, both tenants get 30 together."""
    routes = {"a": "shell", "b": "http"}
    lanes = [key("a", "shell"), key("b", "shell"), key("a", "http")]
    runs = {lane: [number / 10 for number in range(5000)] for lane in lanes}
    both, own = Store(runs), Store(runs)
    own.reach = Reach(lambda queue, route: route == routes["b"])
    both.reach = Reach(lambda queue, route: route == routes["a"])
    got: Counter[str] = Counter()
    for store in (both, own):
        store.order.given = {}
    for _ in range(60):
        for store in (both, own):
            got.update(store.keys[number].tenant for _ in range(3) for _, number in store.claim(10))
        told = []
        for store in (both, own):
            told.append(dict(store.order.given or {}))
            store.order.given = {}
        for store, other in ((both, told[1]), (own, told[0])):
            for who, amount in other.items():
                store.order.charge_elsewhere(who, amount)
    assert got["a"] / got.total() == pytest.approx(0.5, abs=0.05)
