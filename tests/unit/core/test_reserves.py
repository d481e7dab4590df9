"""Reserves: who gets the next seats, that it is never more than is missing, and since when somebody waits for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.fairness import LaneOrder
from mainspring.core.ids import LaneId
from mainspring.core.model import Lane, LaneKey, Priority
from mainspring.core.reach import Reach
from mainspring.core.reserves import MOST_LANES, UnmetReserve, divide, put_first
from mainspring.testing.factories import at

HIGH, MEDIUM, LOW = Priority
TENANTS = ("a", "b", "c", "d")


def lane(
    number: int, tenant: str, priority: Priority = MEDIUM, *, ready_at: float = 0.0, queue: str = "default"
) -> Lane:
    return Lane(LaneId(number), LaneKey(queue, "shell", tenant, priority), at(ready_at))


class Cluster:
    """Lanes with backlogs, and slots that tenants have. Seats are filled as the store does."""

    def __init__(self, backlogs: Mapping[Lane, int], reserved: Mapping[str, int]) -> None:
        self.lanes = {int(one.id): one for one in backlogs}
        self.left = {int(one.id): count for one, count in backlogs.items()}
        self.reserved = reserved
        self.order = LaneOrder()
        self.reach = Reach(lambda queue, route: True)
        self.order.reserve(reserved, at(0))
        self.running: Counter[str] = Counter()
        self.read()

    def read(self) -> None:
        self.order.keep(one for number, one in self.lanes.items() if self.left[number])

    def waiting(self, tenant: str) -> int:
        return sum(self.left[number] for number, one in self.lanes.items() if one.key.tenant == tenant)

    def claim(self, seats: int) -> list[str]:
        """Fill seats. Return the tenants that got them, in order."""
        quotas = self.order.choose(self.reach, seats, at(100))
        got: list[str] = []
        taken: dict[LaneId, int] = {}
        for lane_id, quota in quotas.items():
            count = min(quota, self.left[lane_id], seats - len(got))
            tenant = self.lanes[lane_id].key.tenant
            self.left[lane_id] -= count
            taken[lane_id] = count
            got += [tenant] * count
            self.running[tenant] += count
            self.order.reserves.add_running(tenant, count, at(100))
        self.order.charge(self.reach, {key: count for key, count in taken.items() if count}, quotas, seats)
        self.read()
        return got

    def end(self, tenant: str) -> None:
        self.running[tenant] -= 1
        self.order.reserves.add_running(tenant, -1, at(100))


@st.composite
def clusters(draw: st.DrawFn) -> tuple[dict[Lane, int], dict[str, int]]:
    numbers = iter(range(1, 1000))
    backlogs = {}
    for tenant in TENANTS:
        for queue in ("x", "y"):
            for priority in Priority:
                count = draw(st.integers(0, 12))
                if count and draw(st.booleans()):
                    age = draw(st.integers(0, 50))
                    backlogs[lane(next(numbers), tenant, priority, ready_at=age, queue=queue)] = count
    reserved = draw(st.dictionaries(st.sampled_from(TENANTS), st.integers(0, 15)))
    return backlogs, reserved


@given(clusters(), st.lists(st.integers(1, 20), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_no_seat_goes_past_a_tenant_below_its_reserve(
    drawn: tuple[dict[Lane, int], dict[str, int]], claims: list[int], random: object
) -> None:
    """A sorted model: before each claim, those who are short are known; nobody else gets a seat that they could have.

    And nobody is short for want of a further claim: as many claims as there are seats fill all that can be filled.
    """
    backlogs, reserved = drawn
    cluster = Cluster(backlogs, reserved)
    for seats in claims:
        short = {
            tenant: min(reserved.get(tenant, 0) - cluster.running[tenant], cluster.waiting(tenant))
            for tenant in TENANTS
        }
        owed = min(sum(count for count in short.values() if count > 0), seats)
        got = Counter(cluster.claim(seats))
        to_those = sum(min(got[tenant], max(count, 0)) for tenant, count in short.items())
        others = got.total() - to_those
        assert others == 0 or to_those >= owed, (short, got)
        for tenant in [tenant for tenant, count in cluster.running.items() if count and count % 2]:
            cluster.end(tenant)


@given(clusters(), st.integers(1, 40))
def test_everything_is_given_in_the_end(drawn: tuple[dict[Lane, int], dict[str, int]], seats: int) -> None:
    """Reserves keep no seat free: claims go on until nothing is left."""
    backlogs, reserved = drawn
    cluster = Cluster(backlogs, reserved)
    total = sum(backlogs.values())
    for _ in range(2 * total + len(backlogs) + 5):
        cluster.claim(seats)
    assert sum(cluster.left.values()) == 0


@given(
    st.dictionaries(
        st.text("abc", min_size=1, max_size=2), st.tuples(st.integers(0, 30), st.integers(1, 30))
    ),
    st.integers(1, 80),
)
def test_seats_are_divided_one_by_one_to_the_one_furthest_below(
    drawn: dict[str, tuple[int, int]], seats: int
) -> None:
    wanted = {name: (has, has + more) for name, (has, more) in drawn.items()}
    given_seats = divide(wanted, seats)
    has = {name: have for name, (have, _) in wanted.items()}
    for _ in range(seats):
        short = [name for name in has if has[name] < wanted[name][1]]
        if short:
            has[min(short, key=lambda name: has[name] / wanted[name][1])] += 1
    assert {name: has[name] - wanted[name][0] for name in has if has[name] > wanted[name][0]} == given_seats


def test_the_most_urgent_and_then_the_oldest_lane_of_a_tenant_goes_first() -> None:
    backlogs = {lane(1, "a", LOW): 9, lane(2, "a", HIGH, ready_at=5): 1, lane(3, "b", HIGH): 9}
    cluster = Cluster(backlogs, {"a": 2})
    assert cluster.claim(1) == ["a"]
    assert cluster.left[2] == 0
    assert cluster.claim(4) == ["a", "b", "b", "b"]


def test_a_claim_of_several_lanes_gives_no_seat_to_others_before_all_are_known() -> None:
    """One lane may have less than its part while the other has more: what is left is for the next claim."""
    cluster = Cluster({lane(1, "a"): 1, lane(2, "a", queue="y"): 9, lane(3, "b"): 9}, {"a": 6})
    assert cluster.claim(10) == ["a"] * 4
    assert cluster.claim(6) == ["a", "a", "b", "b", "b", "b"]


def test_more_lanes_than_a_claim_takes_are_left_to_the_next() -> None:
    backlogs = {lane(number, "a", queue=f"q{number}"): 1 for number in range(1, 101)}
    cluster = Cluster(backlogs | {lane(200, "b", HIGH): 50}, {"a": 100})
    assert cluster.claim(100) == ["a"] * MOST_LANES
    assert Counter(cluster.claim(50)) == {"a": 100 - MOST_LANES, "b": 50 - (100 - MOST_LANES)}


def test_workers_that_cannot_execute_it_serve_others() -> None:
    cluster = Cluster({lane(1, "a", queue="gpu"): 9, lane(2, "b", queue="cpu"): 9}, {"a": 5})
    cluster.reach = Reach(lambda queue, route: queue == "cpu")
    assert cluster.claim(3) == ["b"] * 3


def test_a_lane_that_gets_what_others_leave_over_does_not_get_it_first() -> None:
    first, second = LaneId(1), LaneId(2)
    assert put_first({first: 1}, {second: 3, first: 9}, 10).quotas == {first: 1, second: 3}
    assert put_first({first: 1}, {second: 3, first: 9}, 10).is_open
    assert put_first({first: 1}, {second: 3, first: 4}, 10).quotas == {first: 5, second: 3}
    assert put_first({first: 1}, {first: 9}, 10).quotas == {first: 10}
    assert put_first({first: 1, second: 9}, {first: 3}, 10).quotas == {first: 1, second: 9}


def test_what_is_unmet_has_an_age_from_when_both_held() -> None:
    order = LaneOrder()
    order.keep([lane(1, "a", ready_at=10), lane(2, "b", ready_at=1), lane(3, "a", ready_at=70, queue="y")])
    order.reserve({"a": 2}, at(0))
    order.wake(at(5))
    assert order.reserves.unmet() == []
    order.wake(at(20))
    waits = UnmetReserve(lane_id=LaneId(1), tenant="a", missing=2, since=at(10))
    assert order.reserves.unmet() == [waits]
    order.reserves.count({"a": 2}, at(25))
    assert order.reserves.unmet() == []
    order.reserves.add_running("a", -1, at(30))
    waits = UnmetReserve(lane_id=LaneId(1), tenant="a", missing=1, since=at(30))
    assert order.reserves.unmet() == [waits]
    order.reserve({}, at(40))
    assert order.reserves.unmet() == []


@pytest.mark.parametrize("slots", [-3, 0])
def test_what_is_known_is_never_less_than_nothing(slots: int) -> None:
    order = LaneOrder()
    order.reserve({"a": 2}, at(0))
    order.reserves.add_running("a", slots, at(0))
    order.reserves.add_running("other", 5, at(0))
    assert (order.reserves.running("a"), order.reserves.running("other")) == (0, 0)
