"""Which runs are ready, and how many of them a session may be given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.claiming import (
    Turn,
    accepts_route,
    allowance,
    is_expired,
    is_ready,
    judge_turn,
    must_be_alone,
)
from mainspring.core.model import JobSpec, Target
from mainspring.core.states import RunState
from mainspring.core.targets import TARGETS, TargetType
from mainspring.testing.factories import START, at


@given(state=st.sampled_from(RunState), is_parked=st.booleans())
def test_ready_is_what_waits_for_its_time_only(state: RunState, is_parked: bool) -> None:
    waits = state in {RunState.PENDING, RunState.RETRYING}
    assert is_ready(state, is_parked=is_parked) is (waits and not is_parked)


def test_run_that_crashed_a_worker_is_alone() -> None:
    assert [must_be_alone(crashes) for crashes in (0, 1, 7)] == [False, True, True]


def test_run_expires_at_its_instant() -> None:
    assert [is_expired(instant, START) for instant in (None, at(1), START, at(-1))] == [
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(("number", "turn"), [(4, Turn.LATE), (5, Turn.REPEAT), (6, Turn.NEW), (9, Turn.NEW)])
def test_number_tells_new_repeated_and_late_claims_apart(number: int, turn: Turn) -> None:
    assert judge_turn(number, 5) is turn


@given(
    limit=st.integers(0, 9),
    is_quarantined=st.booleans(),
    is_busy=st.booleans(),
    is_busy_with_quarantined=st.booleans(),
)
def test_who_carries_out_a_run_alone_has_no_other(
    limit: int, is_quarantined: bool, is_busy: bool, is_busy_with_quarantined: bool
) -> None:
    most = allowance(
        limit,
        is_quarantined=is_quarantined,
        is_busy=is_busy or is_busy_with_quarantined,
        is_busy_with_quarantined=is_busy_with_quarantined,
    )
    assert 0 <= most <= limit
    if is_busy_with_quarantined:
        assert most == 0
    elif is_quarantined:
        assert most == (0 if is_busy else min(limit, 1))
    else:
        assert most == limit


# -- routes ------------------------------------------------------------------------------------------------------


def route_of(target: Target, *labels: str) -> str:
    return JobSpec(name="job", target=target, labels=labels).route


def test_each_type_says_the_route_of_its_targets() -> None:
    routes = {kind.name: kind.route({"function": "send"}) for kind in TARGETS}
    plain = {
        "http": "http",
        "shell": "shell",
        "grpc": "grpc",
        "container": "container",
        "kubernetes": "kubernetes",
        "workflow": "workflow",
    }
    assert routes == {"function": "function:send", **plain}
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
