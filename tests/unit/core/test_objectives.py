"""Objectives: what counts, what is left of a budget, and when its use is worth an alert."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.alert_rules import DEFAULT_RULES
from mainspring.core.objectives import (
    FEWEST_RUNS,
    Objective,
    ObjectiveStatus,
    RunTotals,
    count_events,
    find_burning,
    make_objective,
)
from mainspring.core.usage import BOUNDS, QueueKey, Times, Usage
from mainspring.core.usage_facts import UsageSeen
from mainspring.errors import InvalidInput
from mainspring.ports.telemetry import Distribution

NOW = datetime(2026, 11, 27, 12, 30, 20, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
FAST, SLOW = DEFAULT_RULES["budget"], DEFAULT_RULES["budget_slow"]
START = make_objective("shop", "quick", {"kind": "start", "queue": "mail", "objective": 0.999, "bound": "5s"})
SUCCESS = make_objective("shop", "good", {"kind": "success", "objective": 0.99, "days": 10})


def lags_of(values: list[float]) -> Usage:
    distribution = Distribution(BOUNDS)
    distribution.add_all(values)
    return Usage(lags=Times(counts=distribution.read().counts, total=sum(values)))


def ends(total: int, failed: int) -> Usage:
    return Usage(succeeded=total - failed, failed=failed)


@given(st.lists(st.floats(0, 4000)), st.sampled_from(BOUNDS))
def test_starts_are_counted_exactly_at_every_bound(values: list[float], bound: float) -> None:
    objective = make_objective("shop", "x", {"kind": "start", "objective": 0.9, "bound": bound})
    late = sum(value > bound for value in values)
    assert count_events(objective, lags_of(values)) == RunTotals(len(values), late)


def test_cancelled_runs_count_neither_way() -> None:
    assert count_events(SUCCESS, Usage(succeeded=8, failed=2, cancelled=5)) == RunTotals(10, 2)


NOTHING = RunTotals()


def status(whole: RunTotals, hour: RunTotals = NOTHING, six: RunTotals = NOTHING) -> ObjectiveStatus:
    return ObjectiveStatus(objective=SUCCESS, whole=whole, hour=hour, six_hours=six)


@given(st.integers(1, 10**9), st.floats(0, 1))
def test_the_budget_is_used_up_when_the_objective_is_missed(total: int, share: float) -> None:
    found = status(RunTotals(total, int(total * share)))
    assert found.share is not None
    assert (found.budget_left < 0) == (found.share < SUCCESS.objective) or found.budget_left == pytest.approx(
        0
    )


def test_a_budget_and_how_long_it_lasts() -> None:
    # A tenth of the budget is gone; at five times the rate, nine tenths last 1.8 of the ten days.
    found = status(RunTotals(10_000, 10), hour=RunTotals(1000, 50))
    assert found.share == 0.999
    assert found.budget_left == pytest.approx(0.9)
    assert found.rate(found.hour) == pytest.approx(5)
    assert found.lasts == pytest.approx(timedelta(days=1.8), abs=timedelta(seconds=1))


def test_a_rate_of_one_lasts_for_ever() -> None:
    assert status(RunTotals(10_000, 10), hour=RunTotals(1000, 10)).lasts is None
    assert status(RunTotals(), hour=RunTotals()).lasts is None
    assert status(RunTotals(10_000, 100), hour=RunTotals(1000, 0)).lasts == timedelta(0)


def test_a_quiet_hour_is_judged_by_the_six_before() -> None:
    few = RunTotals(FEWEST_RUNS - 1, 0)
    assert status(RunTotals(10_000, 0), hour=few, six=RunTotals(100, 100)).lasts == timedelta(days=0.1)


def burn(objective: Objective, *minutes: tuple[int, Usage], hours: Usage | None = None) -> bool:
    key = QueueKey("shop", "mail")
    now = NOW.replace(second=0)
    of_hours = [(NOW.replace(minute=0, second=0) - 2 * HOUR, hours)] if hours else []
    lines = [(now - ago * MINUTE, usage) for ago, usage in minutes]
    seen = UsageSeen({key: sorted(lines, key=lambda line: line[0])} if lines else {}, {key: of_hours})
    rule = SLOW if hours else FAST
    return bool(list(find_burning(rule, [objective], seen, NOW)))


def test_a_budget_that_burns_over_both_times_is_told() -> None:
    bad = ends(100, 15)
    assert burn(SUCCESS, (40, bad), (2, bad))
    assert not burn(SUCCESS, (40, bad), (2, ends(100, 0)))  # it is over
    assert not burn(SUCCESS, (40, ends(100, 0)), (2, ends(3, 3)))  # it has only begun
    assert not burn(SUCCESS, (2, ends(FEWEST_RUNS - 1, FEWEST_RUNS - 1)))


def test_a_slow_burn_is_told_by_the_hour() -> None:
    assert burn(SUCCESS, (2, ends(100, 7)), hours=ends(1000, 70))
    assert not burn(SUCCESS, (2, ends(100, 5)), hours=ends(1000, 70))
    assert not burn(SUCCESS, (2, ends(100, 7)), hours=ends(1000, 50))


@given(st.integers(FEWEST_RUNS, 10_000), st.floats(0, 1))
def test_the_threshold_is_a_multiple_of_the_budget(total: int, share: float) -> None:
    bad = int(total * share)
    assert burn(SUCCESS, (2, ends(total, bad))) == (bad / total / 0.01 >= 14.4)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.93])
def test_a_low_objective_is_at_risk_when_nearly_all_runs_are_bad(share: float) -> None:
    low = make_objective("shop", "low", {"kind": "success", "objective": share})
    assert burn(low, (2, ends(1000, 900)))
    assert not burn(low, (2, ends(1000, 899)))


@pytest.mark.parametrize(("runs", "found"), [(FEWEST_RUNS // 2, True), (FEWEST_RUNS // 2 - 1, False)])
def test_what_fires_goes_on_with_half_as_many_runs(runs: int, *, found: bool) -> None:
    seen = UsageSeen({QueueKey("shop", "mail"): [(NOW.replace(second=0), ends(runs, runs))]}, {})
    assert not list(find_burning(FAST, [SUCCESS], seen, NOW, [("bank", "slo:good"), ("shop", "slo:quick")]))
    assert bool(list(find_burning(FAST, [SUCCESS], seen, NOW, [("shop", "slo:good")]))) is found


class CountedLines(list[tuple[datetime, Usage]]):
    """Lines that count how often they are gone through."""

    reads = 0

    def __iter__(self) -> Iterator[tuple[datetime, Usage]]:
        self.reads += 1
        return super().__iter__()


def test_what_objectives_count_is_added_up_once_a_minute() -> None:
    """However many rules and objectives ask, and however often the rules are judged."""
    lines = CountedLines([(NOW.replace(second=0), ends(100, 50))])
    seen = UsageSeen({QueueKey("shop", "mail"): lines}, {})
    others = [replace(SUCCESS, name=f"good-{number}") for number in range(9)]
    for threshold in (1.0, 2.0, 3.0):
        found = list(find_burning(replace(FAST, threshold=threshold), [SUCCESS, *others], seen, NOW))
        assert len(found) == 10
    assert lines.reads == 2  # for the long time, and for its last part
    totals = len(seen.of("shop").totals)
    assert totals == 2
    list(find_burning(FAST, [SUCCESS, *others], seen, NOW + timedelta(seconds=30)))
    assert len(seen.of("shop").totals) == totals
    list(find_burning(FAST, [SUCCESS, *others], seen, NOW + MINUTE))
    assert len(seen.of("shop").totals) == 2 * totals


def test_only_the_objective_s_own_runs_count() -> None:
    bad = {QueueKey("shop", "web"): [(NOW.replace(second=0), lags_of([10.0] * 50))]}
    assert not list(find_burning(FAST, [START], UsageSeen(bad, {}), NOW))
    bad = {QueueKey("bank", "mail"): [(NOW.replace(second=0), lags_of([10.0] * 50))]}
    assert not list(find_burning(FAST, [START], UsageSeen(bad, {}), NOW))
    bad = {QueueKey("shop", "mail"): [(NOW.replace(second=0), lags_of([10.0] * 50))]}
    [fact] = find_burning(FAST, [START], UsageSeen(bad, {}), NOW)
    assert (fact.tenant, fact.subject, fact.value) == ("shop", "slo:quick", 1000.0)
    assert fact.summary == (
        "objective quick is at risk: 100 % of 50 runs in queue mail within 1h started more than 5s after they were due,"
        " 1e+03 times what 99.9 % allows; at that rate, the budget of 30 days lasts 43m12s"
    )


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({}, "kind", "is missing"),
        ({"kind": "start", "objective": 0.9}, "bound", "is missing; it must be one of the bounds"),
        (
            {"kind": "start", "objective": 0.9, "bound": "7s"},
            "bound",
            "7s is not one of .*: 5ms, 10ms, .*, 5s, 10s",
        ),
        ({"kind": "success", "objective": 0.9, "bound": "5s"}, "bound", "of the kind success has none"),
        ({"kind": "success", "objective": 99.9}, "objective", "99.9 is not between 0.5 and 0.99999"),
        ({"kind": "success", "objective": 1}, "objective", "1 is not between"),
        ({"kind": "success", "objective": True}, "objective", "must be a number"),
        ({"kind": "success", "objective": 0.9, "days": 91}, "days", "between 1 and 90"),
        ({"kind": "success", "objective": 0.9, "quue": "x"}, "quue", "did you mean 'queue'"),
    ],
)
def test_wrong_objectives_are_refused(body: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as raised:
        make_objective("shop", "x", body)
    assert raised.value.field == field
