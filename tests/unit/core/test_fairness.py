"""The order in which claims walk the lanes, with everything that a claim leaves behind."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mainspring.core.fairness import MOST_LANES, LaneOrder
from mainspring.core.ids import LaneId
from mainspring.core.model import Lane, LaneKey, Priority
from mainspring.core.queues import AGING, AGING_SHARE
from mainspring.core.reach import Reach
from mainspring.testing.factories import at

HIGH, MEDIUM, LOW = Priority
OLD = AGING.total_seconds()


def lane(
    number: int,
    *,
    tenant: str = "a",
    priority: Priority = MEDIUM,
    ready_at: float | None = 0.0,
    queue: str = "default",
    route: str = "shell",
) -> Lane:
    key = LaneKey(queue, route, tenant, priority)
    return Lane(LaneId(number), key, at(ready_at) if ready_at is not None else None)


def order_of(*lanes: Lane, weights: Mapping[str, float] | None = None) -> LaneOrder:
    order = LaneOrder()
    order.weigh(weights or {})
    order.keep(lanes)
    return order


def everything() -> Reach:
    return Reach(lambda queue, route: True)


def choose(
    order: LaneOrder, seats: int = 1, now: float = 0.0, *, reach: Reach | None = None
) -> dict[int, int]:
    quotas = order.choose(reach or everything(), seats, at(now))
    return {int(lane_id): quota for lane_id, quota in quotas.items()}


class Backlogs:
    """Lanes with so many runs each, of which claims take what they are offered; None: without an end."""

    def __init__(
        self, backlogs: Mapping[Lane, int | None], weights: Mapping[str, float] | None = None
    ) -> None:
        self.lanes = {int(one.id): one for one in backlogs}
        self.left = {
            int(one.id): float("inf") if count is None else float(count) for one, count in backlogs.items()
        }
        self.order = order_of(weights=weights)
        self.reach = everything()
        self.read()

    def read(self) -> None:
        """Have the order see which lanes have something left."""
        self.order.keep(one for number, one in self.lanes.items() if self.left[number])

    def claim(self, seats: int, now: float = 0.0, *, reach: Reach | None = None) -> Counter[int]:
        """Fill seats as the store does."""
        quotas = choose(self.order, seats, now, reach=reach or self.reach)
        taken: Counter[int] = Counter()
        for number, quota in quotas.items():
            count = int(min(quota, self.left[number], seats - taken.total()))
            self.left[number] -= count
            taken[number] += count
        self.order.charge(
            reach or self.reach,
            {LaneId(number): count for number, count in taken.items() if count},
            {LaneId(number): quota for number, quota in quotas.items()},
            seats,
        )
        self.read()
        return +taken

    def claim_often(self, times: int, seats: int, now: float = 0.0) -> Counter[str]:
        """Return what each tenant got from so many claims."""
        total: Counter[str] = Counter()
        for _ in range(times):
            for number, count in self.claim(seats, now).items():
                total[self.lanes[number].key.tenant] += count
        return total


# -- tiers ---------------------------------------------------------------------------------------------------------


def test_high_before_medium_before_low() -> None:
    assert list(choose(order_of(lane(1, priority=LOW), lane(2, priority=HIGH), lane(3)))) == [2, 3, 1]


def test_a_lower_tier_gets_what_the_higher_ones_leave() -> None:
    backlogs = Backlogs({lane(1, priority=HIGH): 3, lane(2): 4, lane(3, priority=LOW): None})
    assert backlogs.claim(10) == {1: 3, 2: 4, 3: 3}


def test_a_lower_tier_waits_while_a_higher_one_may_have_more_than_its_portions() -> None:
    backlogs = Backlogs({lane(1, priority=HIGH): 90, lane(2, priority=HIGH, tenant="b"): 1, lane(3): None})
    got = sum((backlogs.claim(10) for _ in range(10)), Counter())
    assert (got[1], got[2]) == (90, 1)


def test_tier_goes_before_share() -> None:
    backlogs = Backlogs({lane(1, priority=HIGH): None, lane(2, tenant="b"): None})
    assert backlogs.claim_often(9, 10) == {"a": 90}


def test_lanes_without_a_ready_run_are_left_out() -> None:
    order = order_of(
        lane(1, ready_at=None), lane(2, tenant="b", ready_at=5.0), lane(3, tenant="c", ready_at=-1.0)
    )
    assert list(choose(order)) == [3]
    assert set(choose(order, now=5.0)) == {2, 3}


def test_a_lane_whose_head_has_moved_on_waits_again() -> None:
    order = order_of(lane(1), lane(2, tenant="b"))
    assert set(choose(order)) == {1, 2}
    order.keep([lane(1, ready_at=9.0), lane(2, tenant="b")])
    assert set(choose(order)) == {2}
    order.keep([lane(1, ready_at=9.0), lane(2, tenant="b", ready_at=8.0)])
    assert choose(order, now=7.0) == {}
    assert set(choose(order, now=8.0)) == {2}
    assert set(choose(order, now=9.0)) == {1, 2}


def test_lanes_that_are_gone_are_forgotten() -> None:
    order = order_of(lane(1), lane(2, tenant="b"))
    order.keep([lane(2, tenant="b")])
    assert set(choose(order)) == {2}
    order.keep([])
    assert choose(order) == {}
    assert order._queues == {}


def test_a_lane_that_was_made_anew_takes_the_place_of_the_old_one() -> None:
    order = order_of(lane(1))
    order.keep([lane(7, ready_at=-3.0)])
    assert choose(order) == {7: 1}
    order.keep([])
    assert choose(order) == {}


def test_only_what_a_worker_serves_is_chosen() -> None:
    order = order_of(lane(1, queue="mail"), lane(2), lane(3, route="http"))
    reach = Reach(lambda queue, route: queue == "default" and route == "shell")
    assert list(choose(order, 5, reach=reach)) == [2]
    order.keep([lane(1, queue="mail"), lane(3, route="http"), lane(4, priority=HIGH)])
    assert list(choose(order, 5, reach=reach)) == [4]


# -- the seats of a claim ------------------------------------------------------------------------------------------


def test_a_lone_lane_gets_all_seats() -> None:
    assert choose(order_of(lane(1)), 1000) == {1: 1000}


def test_seats_are_dealt_among_tenants() -> None:
    """Three runs do not wait behind two hundred of somebody else's."""
    backlogs = Backlogs({lane(1, ready_at=-9.0): 200, lane(2, tenant="b"): 3})
    assert backlogs.claim(10)[2] == 3
    assert backlogs.claim(10) == {1: 10}


@pytest.mark.parametrize("seats", [1, 10, 100, 1000, 4000])
def test_seats_that_some_lanes_cannot_fill_go_to_others(seats: int) -> None:
    small: dict[Lane, int | None] = {lane(number, tenant=f"t{number}"): 1 for number in range(2, 40)}
    backlogs = Backlogs({lane(1, tenant="giant"): None, **small})
    assert sum(backlogs.claim_often(3, seats).values()) >= 2 * seats


def test_what_a_full_lane_gave_before_says_who_gets_the_rest() -> None:
    backlogs = Backlogs({lane(1, tenant="giant"): None, lane(2, tenant="b"): 5, lane(3, tenant="c"): 5})
    backlogs.claim(30)
    backlogs.left = {1: float("inf"), 2: 1.0, 3: 1.0}
    backlogs.read()
    assert backlogs.claim(30) == {1: 28, 2: 1, 3: 1}


def test_a_claim_walks_a_bounded_number_of_lanes() -> None:
    lanes = [lane(number, tenant=f"t{number}", priority=Priority(number % 3)) for number in range(1, 2000)]
    assert len(choose(order_of(*lanes), 100_000)) <= MOST_LANES
    assert len(choose(order_of(*lanes), 1)) <= MOST_LANES


def test_of_many_routes_none_is_forgotten() -> None:
    backlogs = Backlogs(
        {lane(number, route=f"function:f{number}", ready_at=number / 1e3): 1 for number in range(1000)}
    )
    seen = sum((backlogs.claim(50, now=5.0) for _ in range(40)), Counter())
    assert len(seen) == 1000


names = st.sampled_from("ab"), st.sampled_from("qr"), st.sampled_from("fg"), st.sampled_from(Priority)
lanes_of_many = st.lists(
    st.tuples(*names, st.integers(0, 30)), min_size=1, max_size=20, unique_by=lambda one: one[:4]
)


@given(lanes_of_many, st.integers(1, 40))
def test_every_run_is_given_out_once_and_no_higher_tier_is_passed_over(
    made: Sequence[tuple[str, str, str, Priority, int]], seats: int
) -> None:
    backlogs = Backlogs(
        {
            lane(number, tenant=tenant, queue=queue, route=route, priority=priority): count
            for number, (tenant, queue, route, priority, count) in enumerate(made, start=1)
        }
    )
    while any(backlogs.left.values()):
        before = dict(backlogs.left)
        taken = backlogs.claim(seats)
        assert taken, "something is left, and nothing is given out"
        lowest = max(backlogs.lanes[number].key.priority for number in taken)
        passed = [
            n for n, one in backlogs.lanes.items() if one.key.priority < lowest and before[n] > taken[n]
        ]
        assert not passed or taken.total() < seats


# -- shares --------------------------------------------------------------------------------------------------------

weightings = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 10), min_size=2)


@given(weightings, st.integers(1, 300))
@example({"a": 1, "b": 2, "c": 7}, 100)
def test_in_the_long_run_tenants_get_shares_by_weight(weights: dict[str, float], seats: int) -> None:
    backlogs = Backlogs({lane(n, tenant=tenant): None for n, tenant in enumerate(weights)}, weights)
    total = backlogs.claim_often(-(-4000 // seats), seats)
    for tenant, weight in weights.items():
        assert total[tenant] / total.total() == pytest.approx(weight / sum(weights.values()), abs=0.03)


def test_a_tenant_gets_no_more_by_using_many_routes_or_queues() -> None:
    many: dict[Lane, int | None] = {lane(n, tenant="a", route=f"function:f{n}"): None for n in range(10, 30)}
    total = Backlogs({lane(1, tenant="b"): None, **many}).claim_often(50, 20)
    assert total["a"] == pytest.approx(total["b"], rel=0.05)
    spread: dict[Lane, int | None] = {lane(n, tenant="a", queue=f"q{n}"): None for n in range(10, 30)}
    total = Backlogs({lane(1, tenant="b", queue="mine"): None, **spread}).claim_often(50, 20)
    assert total["a"] == pytest.approx(total["b"], rel=0.05)


def test_queues_of_one_tenant_do_not_starve_each_other() -> None:
    backlogs = Backlogs({lane(1, queue="bulk", ready_at=-99.0): None, lane(2, queue="mail"): None})
    taken = sum((backlogs.claim(7) for _ in range(100)), Counter())
    assert taken[1] == pytest.approx(taken[2], rel=0.05)


def test_a_queue_weighs_as_much_as_those_who_wait_in_it() -> None:
    crowd: dict[Lane, int | None] = {lane(n, tenant=f"t{n}", queue="shared"): None for n in range(10, 19)}
    total = Backlogs({lane(1, tenant="alone", queue="own"): None, **crowd}).claim_often(100, 10)
    assert total["alone"] / total.total() == pytest.approx(0.1, abs=0.01)


def test_a_tenant_that_had_workers_of_its_own_is_not_starved_when_it_meets_others() -> None:
    """Tenant a has a worker for its second route alone. What it got there, nobody else could have had."""
    backlogs = Backlogs({lane(1): None, lane(2, tenant="b"): None, lane(3, route="http"): None})
    http, shell = Reach(lambda queue, route: route == "http"), Reach(lambda queue, route: route == "shell")
    for _ in range(10_000):
        backlogs.claim(10, reach=http)
    got = sum((backlogs.claim(10, reach=shell) for _ in range(150)), Counter())
    assert got[1] >= 200


def test_a_newcomer_is_not_measured_by_who_has_a_worker_alone() -> None:
    backlogs = Backlogs({lane(1): None, lane(2, tenant="b"): None, lane(3, tenant="own", route="http"): None})
    for _ in range(10_000):
        backlogs.claim(10, reach=Reach(lambda queue, route: route == "http"))
    backlogs.lanes[4] = lane(4, tenant="new")
    backlogs.left[4] = float("inf")
    backlogs.read()
    shell = Reach(lambda queue, route: route == "shell")
    got = sum((backlogs.claim(10, reach=shell) for _ in range(30)), Counter())
    assert {number: pytest.approx(100, abs=10) for number in (1, 2, 4)} == got


def test_shares_are_of_time_and_not_of_runs() -> None:
    backlogs = Backlogs({lane(1): None, lane(2, tenant="b"): None, lane(3, tenant="c"): None}, {"c": 2})
    for tenant, seconds in {"a": 0.2, "b": 0.02, "c": 0.05}.items():
        for _ in range(200):
            backlogs.order.times.learn(tenant, seconds)
    total = backlogs.claim_often(400, 30)
    spent = {"a": 0.2 * total["a"], "b": 0.02 * total["b"], "c": 0.05 * total["c"]}
    for tenant, share in {"a": 1 / 4, "b": 1 / 4, "c": 2 / 4}.items():
        assert spent[tenant] / sum(spent.values()) == pytest.approx(share, abs=0.01)


def test_one_seat_at_a_time_goes_round() -> None:
    backlogs = Backlogs({lane(n, tenant=f"t{n}"): None for n in range(5)})
    assert {frozenset(backlogs.claim(1).items()) for _ in range(5)} == {frozenset({(n, 1)}) for n in range(5)}


# -- aging ---------------------------------------------------------------------------------------------------------


def test_what_has_waited_for_long_gets_a_part_of_the_seats() -> None:
    backlogs = Backlogs({lane(1, priority=HIGH): None, lane(2, priority=LOW, ready_at=-OLD): None})
    total = sum((backlogs.claim(100) for _ in range(10)), Counter())
    assert total[2] / total.total() == pytest.approx(AGING_SHARE, abs=0.01)


def test_single_seats_save_up_for_it() -> None:
    backlogs = Backlogs({lane(1, priority=HIGH): None, lane(2, priority=LOW, ready_at=-OLD): None})
    total = sum((backlogs.claim(1) for _ in range(100)), Counter())
    assert 9 <= total[2] <= 10


@pytest.mark.parametrize(("waited", "is_given"), [(OLD - 0.001, False), (OLD, True)])
def test_only_what_has_waited_for_so_long_does(waited: float, is_given: bool) -> None:
    backlogs = Backlogs({lane(1, priority=HIGH): None, lane(2, priority=LOW, ready_at=-waited): None})
    total = sum((backlogs.claim(10) for _ in range(10)), Counter())
    assert (total[2] > 0) is is_given


def test_the_oldest_goes_first() -> None:
    backlogs = Backlogs({
        lane(1, priority=HIGH): None,
        lane(2, priority=LOW, ready_at=-OLD - 1): None,
        lane(3, priority=MEDIUM, ready_at=-OLD - 2): None,
    })  # fmt: skip
    assert backlogs.claim(10) == {3: 1, 1: 9}


def test_nobody_ages_within_the_most_urgent_tier_that_waits() -> None:
    backlogs = Backlogs({lane(1, ready_at=-9 * OLD): None, lane(2, tenant="b"): None})
    assert backlogs.claim(10) == {1: 5, 2: 5}


def test_an_old_backlog_does_not_flood_what_is_urgent() -> None:
    """A tier more for each wait would let 500,000 old LOW runs come before all that is HIGH."""
    backlogs = Backlogs({lane(1, priority=HIGH): None, lane(2, priority=LOW, ready_at=-100 * OLD): 500_000})
    total = sum((backlogs.claim(50) for _ in range(100)), Counter())
    assert total[2] / total.total() <= AGING_SHARE + 0.01


def test_other_kinds_of_workers_do_not_take_the_share_of_what_has_waited() -> None:
    backlogs = Backlogs(
        {
            lane(1, queue="a"): None,
            lane(2, queue="b", priority=HIGH): None,
            lane(3, queue="b", ready_at=-OLD): None,
        }
    )
    a, b = Reach(lambda queue, route: queue == "a"), Reach(lambda queue, route: queue == "b")
    total: Counter[int] = Counter()
    for _ in range(100):
        backlogs.claim(1, reach=a)
        total += backlogs.claim(1, reach=b)
    assert 9 <= total[3] <= 11


def test_many_lanes_share_what_is_due_to_their_age() -> None:
    crowd: dict[Lane, int | None] = {
        lane(n, tenant=f"t{n}", priority=LOW, ready_at=-OLD - n): 1 for n in range(10, 1010)
    }
    backlogs = Backlogs({lane(1, priority=HIGH): None, **crowd})
    total = sum((backlogs.claim(100) for _ in range(50)), Counter())
    assert 1 - total[1] / total.total() == pytest.approx(AGING_SHARE, abs=0.01)


def test_however_much_has_aged_a_claim_has_room_for_the_urgent() -> None:
    urgent = [lane(n, route=f"function:h{n}", priority=HIGH) for n in range(1, 70)]
    aged = [lane(n, route=f"function:l{n}", priority=LOW, ready_at=-OLD) for n in range(100, 500)]
    quotas = choose(order_of(*urgent, *aged), 4000)
    assert len(quotas) <= MOST_LANES
    assert set(range(1, 70)) <= quotas.keys()


def test_a_queue_beside_hundreds_of_others_is_not_starved() -> None:
    """The others have a run each, again and again, and are empty in between."""
    others: dict[Lane, int | None] = {lane(n, tenant=f"t{n}", queue=f"q{n}"): 1 for n in range(10, 310)}
    backlogs = Backlogs({lane(1, queue="mine"): None, **others})
    backlogs.claim(1000, reach=Reach(lambda queue, route: queue == "mine"))
    total: Counter[int] = Counter()
    for _ in range(600):
        total += backlogs.claim(10)
        backlogs.left |= dict.fromkeys(range(10, 310), 1.0)
        backlogs.read()
    assert total[1] >= 10
    assert len(backlogs.reach.queues[MEDIUM].weights) <= 301


def test_newcomers_do_not_starve_who_was_there_before() -> None:
    backlogs = Backlogs({lane(1, tenant="base"): None})
    total: Counter[int] = Counter()
    for number in range(10, 1000):
        backlogs.lanes[number] = lane(number, tenant=f"t{number}")
        backlogs.left[number] = 1.0
        backlogs.read()
        total += backlogs.claim(1)
    assert total[1] >= 30  # each time that it is served, one newcomer more waits beside it
    shares = backlogs.order._queues["default", MEDIUM].tenants
    assert len(shares._times) <= 3500


@pytest.mark.parametrize(
    ("seats", "seconds"), [(100, 60.0), (100, 2.0), (50, 30.0), (20, 60.0), (1000, 0.001)]
)
def test_weights_hold_for_large_claims_and_long_attempts(seats: int, seconds: float) -> None:
    weights = {"a": 7.0, "b": 2.0, "c": 1.0}
    backlogs = Backlogs({lane(n, tenant=tenant): None for n, tenant in enumerate(weights)}, weights)
    for tenant in weights:
        backlogs.order.times.learn(tenant, seconds)
    total = backlogs.claim_often(100, seats)
    for tenant, weight in weights.items():
        assert total[tenant] / total.total() == pytest.approx(weight / 10, abs=0.01)


def test_equal_weights_hold_where_attempts_take_sixty_times_as_long() -> None:
    backlogs = Backlogs({lane(1): None, lane(2, tenant="b"): None})
    for tenant, seconds in {"a": 60.0, "b": 1.0}.items():
        backlogs.order.times.learn(tenant, seconds)
    total = backlogs.claim_often(300, 100)
    assert 60 * total["a"] == pytest.approx(total["b"], rel=0.1)


def test_lanes_whose_runs_have_expired_hold_up_lower_tiers_for_one_claim_only() -> None:
    """Their heads say that they have something ready, and there is nothing to get."""
    backlogs = Backlogs(
        {lane(1, priority=HIGH): 0, lane(2, priority=HIGH, tenant="b"): 0, lane(3, priority=LOW): 9}
    )
    expired = [backlogs.lanes[1], backlogs.lanes[2]]
    backlogs.order.keep([*expired, backlogs.lanes[3]])
    quotas = choose(backlogs.order, 2, reach=backlogs.reach)
    assert 3 not in quotas
    may_have_more = backlogs.order.charge(
        backlogs.reach, {}, {LaneId(number): quota for number, quota in quotas.items()}, 2
    )
    assert may_have_more  # so the next claim follows at once
    backlogs.order.keep([*expired, backlogs.lanes[3]])
    quotas = choose(backlogs.order, 2, reach=backlogs.reach)
    assert 3 in quotas
    assert not backlogs.order.charge(
        backlogs.reach, {LaneId(3): 1}, {LaneId(number): quota for number, quota in quotas.items()}, 2
    )


def test_the_one_furthest_behind_stays_first() -> None:
    """A claim with a limit on functions takes runs of the kind that is first."""
    backlogs = Backlogs({lane(1, ready_at=-9.0): None, lane(2, route="http"): None})
    for _ in range(5):
        assert next(iter(choose(backlogs.order, 2, reach=backlogs.reach))) == 1
        backlogs.claim(2)


def test_aging_is_what_the_docs_say() -> None:
    assert (timedelta(minutes=5), 0.1) == (AGING, AGING_SHARE)
