"""What rules find in the usage of queues: late starts, failures, attempts that take longer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.alert_rules import DEFAULT_RULES, change_rule
from mainspring.core.alert_words import show_percent
from mainspring.core.alerting import Fact
from mainspring.core.alerts import AlertRule
from mainspring.core.usage import BOUNDS, QueueKey, Times, Usage
from mainspring.core.usage_facts import (
    DAY,
    FEWEST_ATTEMPTS,
    FEWEST_ENDS,
    HOUR,
    UsageSeen,
    find_failures,
    find_late_starts,
    find_spikes,
    span_of,
)
from mainspring.errors import InvalidInput
from mainspring.ports.telemetry import Distribution

NOW = datetime(2026, 11, 27, 12, 30, 20, tzinfo=UTC)
MAIL = QueueKey("shop", "mail")
MINUTE = timedelta(minutes=1)
LAG, SPIKE, RATE = (DEFAULT_RULES[name] for name in ("start_lag", "duration_spike", "failure_rate"))


def times_of(values: list[float]) -> Times:
    distribution = Distribution(BOUNDS)
    for value in values:
        distribution.add(value)
    return Times(counts=distribution.read().counts, total=sum(values))


def recent(usage: Usage, *, ago: timedelta = MINUTE, key: QueueKey = MAIL) -> UsageSeen:
    return UsageSeen({key: [(NOW.replace(second=0) - ago, usage)]}, {})


def spike(now: list[float], before: list[float], rule: AlertRule = SPIKE) -> list[Fact]:
    hour = NOW.replace(minute=0, second=0)
    seen = UsageSeen(
        {MAIL: [(NOW.replace(second=0) - MINUTE, Usage(durations=times_of(now)))]},
        {MAIL: [(hour - 3 * HOUR, Usage(durations=times_of(before)))]},
    )
    return list(find_spikes(rule, seen, NOW))


@given(st.lists(st.floats(0, 4000), min_size=1, max_size=50), st.floats(0.01, 1))
def test_a_quantile_lies_within_its_bounds(values: list[float], share: float) -> None:
    span = span_of(times_of(values), share)
    assert span is not None
    exact = next(value for place, value in enumerate(sorted(values), 1) if place >= share * len(values))
    assert span.low <= exact
    assert exact <= (float("inf") if span.high is None else span.high)


def test_nothing_has_no_bounds() -> None:
    assert span_of(Times(), 0.5) is None
    assert str(span_of(times_of([4000]), 0.5)) == "more than 1h"


def test_runs_that_start_late_are_told_with_the_bounds() -> None:
    [fact] = find_late_starts(LAG, recent(Usage(lags=times_of([1.0] * 97 + [200.0] * 3))), NOW)
    assert (fact.tenant, fact.subject) == ("shop", "queue:mail")
    assert fact.summary == (
        "runs in queue mail start late: of 100 runs within 5m, one of 100 started 1m to 5m after it was due, or later"
    )


@given(st.lists(st.floats(0, 4000), min_size=1, max_size=200))
def test_the_threshold_at_a_bound_is_exact(values: list[float]) -> None:
    late = sum(value > 60 for value in values)
    found = list(find_late_starts(LAG, recent(Usage(lags=times_of(values))), NOW))
    assert bool(found) == (late > 0.01 * len(values) + 1e-9)


def test_what_is_beyond_the_last_bound_exceeds_every_threshold() -> None:
    rule = change_rule("*", "start_lag", {"threshold": 3600})
    assert list(find_late_starts(rule, recent(Usage(lags=times_of([3601.0]))), NOW))
    assert not list(find_late_starts(rule, recent(Usage(lags=times_of([3600.0]))), NOW))


@pytest.mark.parametrize(("ago", "found"), [(4, True), (5, True), (6, False)])
def test_only_the_period_counts(ago: int, *, found: bool) -> None:
    seen = recent(Usage(lags=times_of([100.0])), ago=ago * MINUTE)
    assert bool(list(find_late_starts(LAG, seen, NOW))) is found


@given(st.integers(0, 100), st.integers(0, 100))
def test_failures_are_a_share_of_enough_ends(succeeded: int, failed: int) -> None:
    found = list(find_failures(RATE, recent(Usage(succeeded=succeeded, failed=failed, cancelled=500)), NOW))
    ended = succeeded + failed
    assert bool(found) == (ended >= FEWEST_ENDS and failed > 0.2 * ended)


@pytest.mark.parametrize(("ended", "found"), [(FEWEST_ENDS // 2, True), (FEWEST_ENDS // 2 - 1, False)])
def test_what_fires_goes_on_with_half_as_many_ends(ended: int, *, found: bool) -> None:
    seen = recent(Usage(failed=ended))
    assert not list(find_failures(RATE, seen, NOW, [("shop", "queue:web"), ("bank", "queue:mail")]))
    assert bool(list(find_failures(RATE, seen, NOW, [("shop", "queue:mail")]))) is found


def test_failures_are_told_in_numbers() -> None:
    [fact] = find_failures(RATE, recent(Usage(succeeded=750, failed=250)), NOW)
    assert fact.summary == "25 % of the runs in queue mail fail: 250 of 1,000 within 10m"
    assert fact.value == 25.0


def test_a_rule_of_a_queue_watches_that_one() -> None:
    rule = change_rule("shop", "mail", {"kind": "failure_rate", "queue": "mail"})
    broken = Usage(failed=50)
    assert list(find_failures(rule, recent(broken), NOW))
    assert not list(find_failures(rule, recent(broken, key=QueueKey("shop", "web")), NOW))


def test_what_has_no_figures_of_its_own_is_told_to_all() -> None:
    [fact] = find_failures(RATE, recent(Usage(failed=50), key=QueueKey("_other", "_other")), NOW)
    assert (fact.tenant, fact.subject) == ("*", "queue:_other")


def test_attempts_that_take_longer_are_found() -> None:
    [fact] = spike([4.0] * 60, [0.9] * 60)
    assert fact.value == pytest.approx(5.0, abs=0.1)
    assert fact.summary.startswith(
        "attempts in queue mail take longer: 95 of 100 take up to 4.88s, and took up to"
    )


@pytest.mark.parametrize(
    ("now", "before"),
    [
        ([4.0] * (FEWEST_ATTEMPTS - 1), [0.9] * 60),
        ([4.0] * 60, [0.9] * (FEWEST_ATTEMPTS - 1)),
        ([0.9] * 60, [0.9] * 60),
        ([0.04] * 60, [0.004] * 60),  # too short to matter
        ([4000.0] * 60, [4000.0] * 60),
    ],
)
def test_few_attempts_or_usual_ones_are_no_spike(now: list[float], before: list[float]) -> None:
    assert spike(now, before) == []


def test_neighbouring_bounds_are_no_spike_unless_the_means_say_so() -> None:
    # By the bounds, 290 s may have been 60 s, and 310 s may be 900 s.
    assert spike([310.0] * 60, [290.0] * 60) == []
    assert spike([310.0] * 60, [70.0] * 60)


@given(
    st.lists(st.floats(0, 4000), min_size=FEWEST_ATTEMPTS, max_size=80),
    st.lists(st.floats(0, 4000), min_size=FEWEST_ATTEMPTS, max_size=80),
)
def test_a_spike_is_never_told_of_attempts_that_take_no_longer(now: list[float], before: list[float]) -> None:
    def nearly_all(values: list[float]) -> float:
        return next(v for place, v in enumerate(sorted(values), 1) if place >= 0.95 * len(values))

    if spike(now, before):
        mean = sum(now) / len(now) >= 3 * sum(before) / len(before)
        assert nearly_all(now) > nearly_all(before) or mean


def test_the_day_before_ends_where_the_period_begins() -> None:
    slow = Usage(durations=times_of([100.0] * 60))
    key = NOW.replace(second=0)
    seen = UsageSeen({MAIL: [(key, slow)]}, {MAIL: [(NOW.replace(minute=0, second=0), slow)]})
    assert seen.before(MAIL, 10 * MINUTE, NOW) == Usage()
    old = UsageSeen({}, {MAIL: [(NOW.replace(minute=0, second=0) - DAY, slow)]})
    assert old.before(MAIL, 10 * MINUTE, NOW) == Usage()
    assert old.within(MAIL, DAY + HOUR, NOW) == slow


def test_a_tenant_sees_its_own() -> None:
    seen = recent(Usage(failed=50))
    assert not list(find_failures(RATE, seen.of("bank"), NOW))
    assert list(find_failures(RATE, seen.of("shop"), NOW))


def test_tenants_are_told_apart_once() -> None:
    web = QueueKey("bank", "web")
    seen = UsageSeen({MAIL: [(NOW, Usage(failed=1))]}, {web: [(NOW, Usage(failed=2))], MAIL: []})
    assert seen.of("shop") is seen.of("shop")
    assert (seen.of("shop").minutes, seen.of("shop").hours) == ({MAIL: seen.minutes[MAIL]}, {MAIL: []})
    assert set(seen.of("bank").all_keys) == {web}
    assert not seen.of("none").all_keys


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"kind": "failure_rate", "threshold": 101}, "threshold", "in percent: it must be from 0 to 100"),
        ({"kind": "start_lag", "threshold": 3601}, "threshold", "seconds"),
        ({"kind": "start_lag", "period": "1s"}, "period", "1m to 1d"),
        ({"kind": "dead_letters", "threshold": 1.5}, "threshold", "whole number"),
        ({"kind": "disk", "period": "1h"}, "period", "by no period"),
        ({"kind": "start_lag", "threshold": "x"}, "threshold", "must be a number"),
    ],
)
def test_what_a_rule_may_judge_by_is_told(body: dict[str, object], field: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as raised:
        change_rule("*", "mine", body)
    assert raised.value.field == field


@pytest.mark.parametrize(
    ("share", "text"),
    [(1, "100 %"), (0, "0 %"), (0.2, "20 %"), (0.143, "14.3 %"), (0.99964, "99.96 %"), (0.0004, "0.04 %")],
)
def test_shares_are_shown_as_percent(share: float, text: str) -> None:
    assert show_percent(share) == text
