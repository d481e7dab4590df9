from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.fairness import DEFAULT_AGING, accepts_route, charge, prefer_lanes
from mainspring.core.ids import LaneId
from mainspring.core.model import JobSpec, Lane, LaneKey, Priority, Target
from mainspring.core.targets import TARGETS, TargetType
from mainspring.testing.factories import START, at

HIGH, MEDIUM, LOW = Priority
AGING = DEFAULT_AGING.total_seconds()


def lane(
    number: int,
    *,
    tenant: str = "a",
    priority: Priority = MEDIUM,
    ready_at: float | None = 0.0,
    queue: str = "default",
) -> Lane:
    key = LaneKey(queue, "shell", tenant, priority)
    return Lane(LaneId(number), key, at(ready_at) if ready_at is not None else None)


def prefer(*lanes: Lane, now: float = 0.0, served: Mapping[str, float] | None = None) -> list[int]:
    return list(prefer_lanes(lanes, now=at(now), served=served or {}))


# -- order -----------------------------------------------------------------------------------------------------


def test_high_before_medium_before_low() -> None:
    assert prefer(lane(1, priority=LOW), lane(2, priority=HIGH), lane(3)) == [2, 3, 1]


def test_lanes_without_a_ready_run_are_left_out() -> None:
    assert prefer(lane(1, ready_at=None), lane(2, ready_at=5.0), lane(3, ready_at=-1.0)) == [3]


def test_ready_at_at_the_very_instant_is_ready() -> None:
    assert prefer(lane(1, ready_at=5.0), now=5.0) == [1]


def test_within_a_tier_the_tenant_served_least_comes_first() -> None:
    lanes = [lane(1, tenant="a", ready_at=-9.0), lane(2, tenant="b", ready_at=-1.0)]
    assert prefer(*lanes, served={"a": 2.0, "b": 1.0}) == [2, 1]


def test_tier_goes_before_share() -> None:
    assert prefer(lane(1, tenant="a", priority=HIGH), lane(2, tenant="b"), served={"a": 99.0, "b": 0.0}) == [
        1,
        2,
    ]


def test_equals_go_by_ready_at_then_by_id() -> None:
    assert prefer(lane(3, ready_at=-1.0), lane(2, ready_at=-1.0), lane(1, ready_at=0.0)) == [2, 3, 1]


def test_limit_keeps_the_most_deserving() -> None:
    lanes = [lane(number, ready_at=-float(number)) for number in range(1, 400)]
    assert prefer_lanes(lanes, now=START, served={}, limit=2) == [399, 398]
    assert len(prefer_lanes(lanes, now=START, served={})) == 256


@given(st.permutations(range(1, 9)))
def test_order_does_not_depend_on_the_order_given(order: list[int]) -> None:
    made = {
        number: lane(
            number, tenant="ab"[number % 2], priority=Priority(number % 3), ready_at=-float(number * 70)
        )
        for number in order
    }
    served = {"a": 1.0, "b": 2.0}
    assert prefer(*made.values(), served=served) == prefer(
        *(made[key] for key in sorted(made)), served=served
    )


# -- aging -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waited", "is_first"), [(AGING, False), (2 * AGING - 0.001, False), (2 * AGING, True), (9 * AGING, True)]
)
def test_low_passes_fresh_high_after_two_waits(waited: float, is_first: bool) -> None:
    lanes = [lane(1, priority=HIGH), lane(2, priority=LOW, ready_at=-waited)]
    assert (prefer(*lanes) == [2, 1]) is is_first


def test_low_passes_fresh_medium_after_one_wait() -> None:
    assert prefer(lane(1, priority=MEDIUM), lane(2, priority=LOW, ready_at=-AGING)) == [2, 1]


def test_high_gains_no_tier_by_waiting() -> None:
    lanes = [lane(1, tenant="a", priority=HIGH, ready_at=-5 * AGING), lane(2, tenant="b", priority=HIGH)]
    assert prefer(*lanes, served={"a": 2.0, "b": 1.0}) == [2, 1]


@pytest.mark.parametrize("flood", ["same", "other"])
def test_low_is_not_starved_by_an_endless_flood_of_high(flood: str) -> None:
    """One claim a second; HIGH is refilled twice as fast as it is served, LOW holds a single run."""
    served: dict[str, float] = {}
    tenant = "a" if flood == "same" else "b"
    high = [0.0]
    for second in range(5000):
        high += [second, second]
        lanes = [lane(1, tenant=tenant, priority=HIGH, ready_at=high[0]), lane(2, priority=LOW)]
        if prefer(*lanes, now=second, served=served)[0] == 2:
            break
        high.pop(0)
        served = charge(served, {tenant: 1}, {})
    # By then LOW stands in the first tier, and nothing older than itself is before it.
    assert 2 * AGING <= second <= 2 * AGING + 2


# -- shares ------------------------------------------------------------------------------------------------------

tenant_weights = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 10), min_size=2)


def serve(
    served: dict[str, float], weights: Mapping[str, int], *, claims: int, quantum: int, waiting: str = ""
) -> tuple[dict[str, float], Counter[str]]:
    """Let tenants with endless backlogs be served by claims of `quantum` runs."""
    total: Counter[str] = Counter()
    lanes = [lane(number, tenant=tenant) for number, tenant in enumerate(waiting or weights)]
    owner = {item.id: item.key.tenant for item in lanes}
    for _ in range(claims):
        first = owner[prefer_lanes(lanes, now=START, served=served)[0]]
        total[first] += quantum
        served = charge(served, {first: quantum}, weights)
    return served, total


@given(tenant_weights, st.integers(1, 50), st.integers(0, 400))
def test_shares_follow_weights_within_one_quantum(weights: dict[str, int], quantum: int, claims: int) -> None:
    served, _ = serve({}, weights, claims=len(weights), quantum=quantum)  # everybody has been seen once
    _, total = serve(served, weights, claims=claims, quantum=quantum)
    for one, weight in weights.items():
        for other, other_weight in weights.items():
            lag = abs(total[one] / weight - total[other] / other_weight)
            start = abs(served[one] - served[other])
            assert lag <= start + quantum / weight + quantum / other_weight + 1e-9


@given(tenant_weights, st.integers(1, 20))
def test_long_run_shares_are_those_of_the_weights(weights: dict[str, int], quantum: int) -> None:
    _, total = serve({}, weights, claims=1000, quantum=quantum)
    everything, weight_sum = sum(total.values()), sum(weights.values())
    for tenant, weight in weights.items():
        assert total[tenant] / everything == pytest.approx(weight / weight_sum, abs=0.03)


@pytest.mark.parametrize("idle_claims", [1, 10, 10_000])
def test_idleness_earns_no_credit(idle_claims: int) -> None:
    weights = {"a": 1, "b": 1}
    served, _ = serve({}, weights, claims=10, quantum=10)
    served, _ = serve(served, weights, claims=idle_claims, quantum=10, waiting="b")
    _, total = serve(served, weights, claims=20, quantum=10)
    assert abs(total["a"] - total["b"]) <= 20


def test_newcomer_starts_level() -> None:
    served, _ = serve({}, {"a": 1}, claims=1000, quantum=10)
    _, total = serve(served, {"a": 1, "b": 1}, claims=20, quantum=10)
    assert abs(total["a"] - total["b"]) <= 20


def test_modest_tenant_saves_up_no_credit_for_a_burst() -> None:
    served: dict[str, float] = {}
    for _ in range(1000):
        served = charge(served, {"modest": 1, "greedy": 9}, {})
    _, total = serve(served, {"modest": 1, "greedy": 1}, claims=20, quantum=10)
    assert abs(total["modest"] - total["greedy"]) <= 20


def test_busy_tenant_keeps_its_debt_while_it_waits_its_turn() -> None:
    served, _ = serve({}, {"a": 1, "b": 1}, claims=2, quantum=10)
    served = charge(served, {"a": 1000}, {})
    _, total = serve(served, {"a": 1, "b": 1}, claims=50, quantum=10)
    assert total["a"] == 0


def test_charge_counts_by_weight() -> None:
    assert charge({"a": 4.0, "b": 4.0}, {"a": 6, "b": 6}, {"a": 3}) == {"a": 6.0, "b": 10.0}


def test_charge_of_nothing_changes_nothing() -> None:
    before = {"a": 4.0, "b": 9.0}
    assert charge(before, {}, {}) == before


def test_charge_forgets_tenants_that_stay_away() -> None:
    served: dict[str, float] = {}
    for number in range(1000):
        served = charge(served, {f"visitor-{number}": 1, "regular": 1}, {})
    assert len(served) <= 3


def test_charge_leaves_its_argument_alone() -> None:
    before = {"a": 1.0}
    charge(before, {"a": 1, "b": 1}, {})
    assert before == {"a": 1.0}


# -- routes ------------------------------------------------------------------------------------------------------


def route_of(target: Target, *labels: str) -> str:
    return JobSpec(name="job", target=target, labels=labels).route


def test_each_type_says_the_route_of_its_targets() -> None:
    routes = {kind.name: kind.route({"function": "send"}) for kind in TARGETS}
    assert routes == {"http": "http", "function": "function:send", "shell": "shell"}
    assert {name: route_of(Target(name, {"function": "send"})) for name in routes} == routes


def test_a_type_of_a_package_says_its_route(monkeypatch: pytest.MonkeyPatch) -> None:
    class FaxType(TargetType):
        name = "fax"

        def route(self, params: Mapping[str, Any]) -> str:
            return f"fax:{params['number']}"

    target = Target("fax", {"number": "1+2"})
    assert route_of(target, "gpu") == "fax+gpu"  # a process without the package
    monkeypatch.setitem(TARGETS.by_name, "fax", FaxType())
    assert route_of(target) == "fax:1%2B2"
    nothing: frozenset[str] = frozenset()
    for labels, is_accepted in ((frozenset({"gpu"}), True), (nothing, False)):
        route = route_of(target, "gpu")
        assert accepts_route(route, types=frozenset({"fax"}), functions=nothing, labels=labels) is is_accepted


@pytest.mark.parametrize(
    ("route", "is_accepted"),
    [
        ("shell", True),
        ("http", False),
        ("shell+gpu", True),
        ("shell+eu+gpu", True),
        ("shell+arm", False),
        ("shell+arm+gpu", False),
        ("function:send", True),
        ("function:send+gpu", True),
        ("function:send+arm", False),
        ("function:other", False),
        ("function:pkg.module:send", True),
        ("function:", False),
        ("function", False),
        ("", False),
    ],
)
def test_accepts_route(route: str, is_accepted: bool) -> None:
    accepted = accepts_route(
        route,
        types=frozenset({"shell", "function"}),
        functions=frozenset({"send", "pkg.module:send"}),
        labels=frozenset({"gpu", "eu"}),
    )
    assert accepted is is_accepted


names = st.text(alphabet="ab+%2B5:", min_size=1, max_size=6)
labels = st.frozensets(names, max_size=3)


@given(names, labels, st.frozensets(names), labels)
def test_route_says_what_the_definition_demands_whatever_the_names(
    function: str, required: frozenset[str], functions: frozenset[str], offered: frozenset[str]
) -> None:
    route = route_of(Target("function", {"function": function}), *sorted(required))
    accepted = accepts_route(route, types=frozenset(), functions=functions, labels=offered)
    assert accepted is (function in functions and required <= offered)


def test_signs_of_the_routes_own_may_be_part_of_a_name() -> None:
    route = route_of(Target("function", {"function": "50%+%2B"}), "a%25", "+")
    accepts = {"types": frozenset[str](), "labels": frozenset({"a%25", "+"})}
    assert accepts_route(route, functions=frozenset({"50%+%2B"}), **accepts)
    assert not accepts_route(route, functions=frozenset({"50%25+%2B", "50%++"}), **accepts)


@given(names, labels, names, labels)
def test_different_demands_have_different_routes(
    one: str, one_labels: frozenset[str], other: str, other_labels: frozenset[str]
) -> None:
    one_route = route_of(Target("function", {"function": one}), *sorted(one_labels))
    other_route = route_of(Target("function", {"function": other}), *sorted(other_labels))
    assert (one_route == other_route) is ((one, one_labels) == (other, other_labels))


def test_aging_is_what_the_docs_say() -> None:
    assert timedelta(minutes=5) == DEFAULT_AGING
