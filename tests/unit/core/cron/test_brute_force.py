"""The walker against the brute-force oracle, around every kind of clock change."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import UTC, datetime, timedelta
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mainspring.core.cron import Cron
from tests.unit.core.cron.expressions import DSTS, expressions
from tests.unit.core.cron.oracle import Window

# (zone, an instant close to the change, what it is there for)
CHANGES = [
    ("America/New_York", "2026-03-08T07:00", "gap of an hour"),
    ("America/New_York", "2026-11-01T06:00", "overlap of an hour"),
    ("Australia/Lord_Howe", "2025-04-05T15:00", "overlap of half an hour"),
    ("Australia/Lord_Howe", "2025-10-04T15:30", "gap of half an hour"),
    ("Europe/Dublin", "2025-03-30T01:00", "negative saving ends"),
    ("Europe/Dublin", "2025-10-26T01:00", "negative saving begins"),
    ("Antarctica/Troll", "2025-03-30T01:00", "gap of two hours"),
    ("Antarctica/Troll", "2025-10-26T01:00", "overlap of two hours"),
    ("Africa/Casablanca", "2025-02-23T02:00", "overlap before Ramadan"),
    ("Africa/Casablanca", "2025-04-06T02:00", "gap after Ramadan"),
    ("Pacific/Apia", "2011-12-30T10:00", "a day is missing"),
    ("Pacific/Kwajalein", "1993-08-21T12:00", "a day is missing"),
    ("Africa/Cairo", "2025-04-24T22:00", "midnight is missing"),
    ("Africa/Cairo", "2025-10-30T21:00", "overlap at midnight"),
    ("Asia/Beirut", "2025-03-29T22:00", "midnight is missing"),
    ("America/Santiago", "2025-09-07T04:00", "midnight is missing"),
    ("America/Santiago", "2025-04-06T03:00", "overlap at midnight"),
    ("America/Havana", "2025-03-09T05:00", "midnight is missing"),
    ("America/Havana", "2025-11-02T05:00", "overlap at one"),
    ("Atlantic/Azores", "2025-03-30T01:00", "midnight is missing"),
    ("America/Caracas", "2016-05-01T07:00", "half-hour gap, for good"),
    ("Asia/Pyongyang", "2018-05-04T15:00", "half-hour gap up to midnight"),
    ("Pacific/Chatham", "2025-04-05T14:00", "offset of 45 minutes"),
    ("Pacific/Chatham", "2025-09-27T14:00", "offset of 45 minutes"),
    ("Antarctica/Casey", "2023-03-08T16:00", "overlap of three hours"),
    ("Antarctica/Casey", "2019-10-03T19:00", "gap of three hours"),
    ("Antarctica/Vostok", "1994-01-31T17:00", "overlap of seven hours"),
    ("Asia/Gaza", "2054-03-28T00:00", "two changes within a week"),
    ("America/Noronha", "2000-10-08T02:00", "two changes within a week"),
    ("Europe/London", "2199-03-31T01:00", "far ahead"),
    ("Asia/Kolkata", "2025-01-01T00:00", "no change at all"),
]
TABLE = [
    "* * * * *",
    "0 * * * *",
    "*/45 * * * *",
    "*/15 2 * * *",
    "*/30 0-3 * * *",
    "0 */2 * * *",
    "30 2 * * *",
    "30 1 * * *",
    "0 0 * * *",
    "15 0,1,2,3 * * *",
    "0,15,30,45 0-3 * * *",
    "45 23 * * *",
    "0 3 * * 0,1",
    "30 1-2 28-31,1-8 * 0",
    "59 23 L * *",
    "10 2 * * 7L",
    "5-55/25 1,2,3,23 ? * *",
]
SPAN = timedelta(hours=27)


@cache
def window(tz: str, instant: str) -> Window:
    middle = datetime.fromisoformat(instant).replace(tzinfo=UTC)
    return Window(tz, middle - SPAN, middle + SPAN)


def check(cron: Cron, seen: Window, expected: list[datetime]) -> None:
    assert list(cron.fires_between(seen.start, seen.end)) == expected
    back = []
    at = cron.previous_before(seen.end)
    while at is not None and at >= seen.start:
        back.append(at)
        at = cron.previous_before(at)
    assert back[::-1] == expected


def check_restarts(cron: Cron, seen: Window, expected: list[datetime]) -> None:
    """From any instant the answer is the same fire, whether or not somebody walked there."""
    for minutes in range(0, int((seen.end - seen.start) / timedelta(minutes=1)), 11):
        at = seen.start + timedelta(minutes=minutes)
        after, before = bisect_right(expected, at), bisect_left(expected, at)
        if after < len(expected):
            assert cron.next_after(at) == expected[after]
        if before:
            assert cron.previous_before(at) == expected[before - 1]


@pytest.mark.parametrize(("tz", "instant", "why"), CHANGES, ids=str)
def test_walker_agrees_with_brute_force_around_change(tz: str, instant: str, why: str) -> None:
    seen = window(tz, instant)
    for text in TABLE:
        is_wild = "*" in {field[0] for field in text.split()[:2]}
        for dst in DSTS[:1] if is_wild else DSTS:
            check(Cron(text, tz, dst), seen, seen.fires(text, dst))
    check_restarts(Cron("30 0,1,2 * * *", tz), seen, seen.fires("30 0,1,2 * * *"))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(CHANGES), expressions(), st.sampled_from(DSTS))
def test_walker_agrees_with_brute_force_on_generated_expressions(
    change: tuple[str, str, str], text: str, dst: str
) -> None:
    tz, instant, _ = change
    seen = window(tz, instant)
    check(Cron(text, tz, dst), seen, seen.fires(text, dst))


@pytest.mark.parametrize(
    "text", ["*/7 * * * * *", "0,30 59,0,29,30 * * * *", "15 */5 1-3 * * *", "30 30 2 * * *"]
)
@pytest.mark.parametrize("dst", DSTS)
@pytest.mark.parametrize(
    ("tz", "instant"),
    [
        ("America/New_York", "2026-03-08T07:00"),
        ("America/New_York", "2026-11-01T06:00"),
        ("Africa/Monrovia", "1972-01-07T00:44"),  # from -00:44:30 to 0
        ("Australia/Lord_Howe", "2025-04-05T15:00"),
    ],
)
def test_walker_agrees_with_brute_force_by_the_second(tz: str, instant: str, dst: str, text: str) -> None:
    seen = seconds_window(tz, instant)
    check(Cron(text, tz, dst), seen, seen.fires(text, dst))


@cache
def seconds_window(tz: str, instant: str) -> Window:
    middle = datetime.fromisoformat(instant).replace(tzinfo=UTC)
    return Window(tz, middle - timedelta(hours=2), middle + timedelta(hours=2), step=1)


@pytest.mark.parametrize(
    "text", ["15W", "1W", "31W", "LW", "L", "L-1", "L-30", "29W", "13,L-2,2W", "*/5", "1-7", "*", "?", "30/1"]
)
@pytest.mark.parametrize(
    "weekday", ["*", "?", "5", "MON-FRI", "5L", "SUN#L", "7#5", "0#1,3", "*/2", "1/2", "7/2", "fri-sun"]
)
def test_days_agree_with_brute_force_over_four_years(text: str, weekday: str) -> None:
    expression = f"0 12 {text} * {weekday}"
    seen = daily_window()
    try:
        cron = Cron(expression)
    except ValueError:
        assert seen.fires(expression) == []
        return
    check(cron, seen, seen.fires(expression))


@cache
def daily_window() -> Window:
    return Window(
        "UTC", datetime(2095, 1, 1, 12, tzinfo=UTC), datetime(2099, 1, 1, 12, tzinfo=UTC), step=86_400
    )
