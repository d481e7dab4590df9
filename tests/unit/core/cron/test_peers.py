"""Two other engines as oracles, on what they share with rule V (their differences: reliability 5.2)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from cronsim import CronSim
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mainspring.core.cron import Cron
from tests.unit.core.cron.expressions import can_fire, fields, lists

STARTS = st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1)).map(lambda at: at.replace(microsecond=0))  # noqa: DTZ001
DAY_OF_MONTH = st.just("*") | fields(1, 31, "L", "LW")
WORKDAYS = ("1-5", "0", "6,0", "MON", "5#2")
DAY_OF_WEEK = st.just("*") | fields(0, 7, "5L", "SUN#2", "1#1", "FRI", "TUE-THU")
CRONSIM = st.tuples(
    fields(0, 59), fields(0, 23), DAY_OF_MONTH, fields(1, 12, "JAN", "mar-may"), DAY_OF_WEEK
).map(" ".join)

# croniter: no step over the week's end, OR whatever a day field begins with, so only one of the two is given
ONE_DAY = st.tuples(lists(1, 31), st.just("*")) | st.tuples(st.just("*"), st.sampled_from(WORKDAYS))
CRONITER = st.tuples(fields(0, 59), fields(0, 23), ONE_DAY, fields(1, 12)).map(
    lambda parts: f"{parts[0]} {parts[1]} {parts[2][0]} {parts[3]} {parts[2][1]}"
)


def ours(text: str, start: datetime, tz: str = "UTC", count: int = 4) -> list[datetime]:
    found, at = [], start
    for _ in range(count):
        after = Cron(text, tz).next_after(at)
        assert after is not None
        found.append(at := after)
    return found


@settings(max_examples=100, deadline=None)
@given(CRONSIM, STARTS)
def test_next_agrees_with_cronsim(text: str, start: datetime) -> None:
    assume(can_fire(text) and not has_single_range(text))
    at = start.replace(tzinfo=UTC)
    assert ours(text, at) == list(islice(CronSim(text, at), 4))


@settings(max_examples=100, deadline=None)
@given(CRONSIM, STARTS)
def test_previous_agrees_with_cronsim(text: str, start: datetime) -> None:
    assume(can_fire(text) and not has_single_range(text))
    at = start.replace(tzinfo=UTC)
    expected = next(iter(CronSim(text, at, reverse=True)))
    assert Cron(text).previous_before(at) == expected


@settings(max_examples=80, deadline=None)
@given(st.tuples(fields(0, 59), CRONSIM).map(" ".join), STARTS)
def test_next_agrees_with_cronsim_by_the_second(text: str, start: datetime) -> None:
    assume(can_fire(text) and not has_single_range(text))
    at = start.replace(tzinfo=UTC)
    assert ours(text, at) == list(islice(CronSim(text, at), 4))


@pytest.mark.parametrize("text", ["30 2 * * *", "0 0 * * *", "*/30 * * * *", "0,30 1-3 * * 0", "15 3 L * *"])
@pytest.mark.parametrize("tz", ["America/New_York", "Europe/Berlin", "Africa/Casablanca", "Asia/Kolkata"])
def test_next_agrees_with_cronsim_through_changes_of_an_hour(text: str, tz: str) -> None:
    start = datetime(2025, 1, 1, tzinfo=UTC)
    end = start + timedelta(days=365 if "*/" not in text else 120)
    expected = []
    for local in CronSim(text, start.astimezone(ZoneInfo(tz))):
        if local.astimezone(UTC) >= end:
            break
        expected.append(local.astimezone(UTC))
    assert list(Cron(text, tz).fires_between(start + timedelta(seconds=1), end)) == expected


@settings(max_examples=100, deadline=None)
@given(CRONITER, STARTS)
def test_next_agrees_with_croniter(text: str, start: datetime) -> None:
    assume(can_fire(text) and not has_single_range(text))
    at = start.replace(tzinfo=UTC)
    other = croniter(text, at)
    assert ours(text, at) == [other.get_next(datetime) for _ in range(4)]


def has_single_range(text: str) -> bool:
    """`a-a` is the whole cycle for croniter, and `a-a/n` is a/n for cronsim."""
    items = [item.partition("/")[0].partition("-") for field in text.split() for item in field.split(",")]
    return any(dash and low == high for low, dash, high in items)
