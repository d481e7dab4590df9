"""Usage: sums, differences and quantiles."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.usage import (
    BOUNDS,
    COUNTS,
    NO_USAGE,
    Times,
    Usage,
    UsageLine,
    UsageStep,
    sum_to_hours,
    sum_usage,
)
from mainspring.ports.telemetry import Distribution

NOON = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
lengths = st.lists(st.floats(0, 4000), max_size=50)


def times_of(values: list[float]) -> Times:
    distribution = Distribution(BOUNDS)
    for value in values:
        distribution.add(value)
    return Times(counts=distribution.read().counts, total=sum(values))


def usages() -> st.SearchStrategy[Usage]:
    counts = {name: st.integers(0, 1000) for name in COUNTS}
    return st.builds(
        Usage, **counts, lags=st.builds(times_of, lengths), durations=st.builds(times_of, lengths)
    )


@given(usages(), usages())
def test_a_difference_is_what_came(before: Usage, came: Usage) -> None:
    assert [getattr(before + came - before, name) for name in COUNTS] == [
        getattr(came, name) for name in COUNTS
    ]
    assert (before + came - before).lags.counts == came.lags.counts
    assert (before + came - before).durations.total == pytest.approx(came.durations.total, abs=1e-6)
    assert before + NO_USAGE == before
    assert before - before == NO_USAGE


@given(lengths.filter(bool), st.floats(0.01, 1))
def test_a_quantile_is_exact_to_the_bounds(values: list[float], share: float) -> None:
    found = times_of(values).quantile(share)
    ranked = sorted(values)
    exact = next(value for place, value in enumerate(ranked, 1) if place >= share * len(ranked))
    assert found is not None
    if exact > BOUNDS[-1]:
        assert found == BOUNDS[-1]
    else:
        low = max([bound for bound in BOUNDS if bound < exact], default=0.0)
        high = min(bound for bound in BOUNDS if bound >= exact)
        assert low <= found <= high


@given(lengths.filter(bool))
def test_quantiles_rise(values: list[float]) -> None:
    found = [times_of(values).quantile(share) for share in (0.01, 0.5, 0.95, 0.99, 1.0)]
    assert found == sorted(found, key=lambda value: value or 0.0)


def test_nothing_has_no_quantile() -> None:
    assert Times().quantile(0.5) is None


def test_times_within_two_bounds_count_as_evenly_spread() -> None:
    assert times_of([30.0] * 4).quantile(0.5) == 20.0
    assert times_of([1.0, 1.0, 30.0, 30.0]).quantile(0.75) == 20.0


@pytest.mark.parametrize(
    ("step", "at", "start"),
    [
        (UsageStep.MINUTE, NOON + timedelta(seconds=59.9), NOON),
        (UsageStep.HOUR, NOON + timedelta(minutes=59.9), NOON),
        (UsageStep.HOUR, NOON, NOON),
        (UsageStep.HOUR, NOON.astimezone(timezone(timedelta(hours=5, minutes=30))), NOON),
    ],
)
def test_steps_begin_at_whole_minutes_and_hours_in_utc(
    step: UsageStep, at: datetime, start: datetime
) -> None:
    assert step.start_of(at) == start
    assert step.start_of(at).utcoffset() == timedelta(0)


def test_minutes_come_to_hours_by_tenant_and_queue() -> None:
    def line(minutes: int, queue: str = "mail", tenant: str = "shop") -> UsageLine:
        at = NOON + timedelta(minutes=minutes)
        return UsageLine(at=at, tenant=tenant, queue=queue, usage=Usage(fired=minutes + 1))

    lines = [line(0), line(59), line(60), line(0, "pdf"), line(1, tenant="bank")]
    hours = sum_to_hours(lines)
    assert [(hour.at, hour.tenant, hour.queue, hour.usage.fired) for hour in hours] == [
        (NOON, "bank", "mail", 2),
        (NOON, "shop", "mail", 61),
        (NOON, "shop", "pdf", 1),
        (NOON + timedelta(hours=1), "shop", "mail", 61),
    ]
    assert sum_usage(lines) == sum_usage(hours)
