"""Calendars against single instants: whatever their rules, each instant is in or out as its date and hour say."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.core.calendars.resolved import CalendarVersion, ResolvedCalendar, resolve
from mainspring.core.calendars.sets import merge_spans, ordinal_wall, wall_date
from mainspring.core.calendars.spec import WEEKDAYS, read_calendar
from mainspring.core.calendars.walls import DAY, epoch_at_wall, from_epoch, to_epoch, wall_at_epoch
from mainspring.core.cron import Cron
from mainspring.core.cron.zones import load_zone

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/St_Johns",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Africa/Cairo",
)
FIRST = date(2009, 1, 1)
"""Within these years, some of the zones changed their clocks at midnight."""
LAST = date(2012, 12, 31)
ENTIRE = range((LAST - FIRST).days + 1)
MINUTE = 60

days = st.sampled_from(ENTIRE).map(lambda number: FIRST + timedelta(days=number))
times = st.integers(0, 24 * 60 - 1).map(lambda minute: f"{minute // 60:02}:{minute % 60:02}")
weekdays = st.lists(st.sampled_from(WEEKDAYS), min_size=1, max_size=3, unique=True)


@st.composite
def ranges(draw: st.DrawFn) -> dict[str, Any]:
    low, high = sorted((draw(days), draw(days)))
    return {"from": low.isoformat(), "to": high.isoformat()}


@st.composite
def hours(draw: st.DrawFn) -> dict[str, Any]:
    low, high = draw(st.lists(times, min_size=2, max_size=2, unique=True))
    return {"weekly": draw(weekdays), "from": low, "to": high}


@st.composite
def windows(draw: st.DrawFn) -> dict[str, Any]:
    low, high = sorted(f"{draw(days)}T{draw(times)}" for _ in range(2))
    return {"from": low, "to": high}


rules = st.one_of(
    days.map(lambda day: {"date": day.isoformat()}),
    ranges(),
    windows().filter(lambda rule: rule["from"] < rule["to"]),
    days.map(lambda day: {"yearly": day.isoformat()[5:]}),
    weekdays.map(lambda names: {"weekly": names}),
    hours(),
)
calendars = st.fixed_dictionaries(
    {"tz": st.sampled_from(ZONES), "rules": st.lists(rules, min_size=1, max_size=4), "invert": st.booleans()}
)
instants = st.tuples(st.sampled_from(ENTIRE), st.integers(0, DAY - 1)).map(
    lambda pair: datetime(2009, 1, 1, tzinfo=UTC) + timedelta(days=pair[0], seconds=pair[1])
)


def make(body: dict[str, Any], **named: ResolvedCalendar) -> ResolvedCalendar:
    resolved = dict.fromkeys(named, 1)
    version = CalendarVersion("t", "c", 1, read_calendar(body), resolved, datetime(2026, 1, 1, tzinfo=UTC))
    return resolve(version, lambda key: named[key[0]])


def first_shown(zone: str, day: date, clock: str) -> datetime:
    """When a cron expression for that date and time fires, which rule V says."""
    if clock == "24:00":
        return first_shown(zone, day + timedelta(days=1), "00:00")
    hour, minute = clock.split(":")
    cron = Cron(f"{int(minute)} {int(hour)} {day.day} {day.month} *", zone)
    found = cron.next_after(datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(days=2))
    assert found is not None
    return found


def brute(body: dict[str, Any], instant: datetime) -> bool:
    """Say whether an instant is in a calendar, by asking every rule about every date near by."""
    zone = body["tz"]

    def is_within(low: tuple[date, str], high: tuple[date, str]) -> bool:
        return first_shown(zone, *low) <= instant < first_shown(zone, *high)

    def holds(rule: dict[str, Any], day: date) -> bool:
        if "weekly" in rule:
            low, high = rule.get("from", "00:00"), rule.get("to", "24:00")
            end = day + timedelta(days=high < low)
            return WEEKDAYS[day.weekday()] in rule["weekly"] and is_within((day, low), (end, high))
        if "from" in rule and "T" in rule["from"]:
            (a, low), (b, high) = rule["from"].split("T"), rule["to"].split("T")
            return is_within((date.fromisoformat(a), low), (date.fromisoformat(b), high))
        text = day.isoformat()
        is_one = (
            rule["date"] == text
            if "date" in rule
            else rule["yearly"] == text[5:]
            if "yearly" in rule
            else rule["from"] <= text <= rule["to"]
        )
        return is_one and is_within((day, "00:00"), (day, "24:00"))

    near = [instant.date() + timedelta(days=back) for back in (-2, -1, 0, 1)]
    is_in = any(holds(rule, day) for rule in body["rules"] for day in near)
    return is_in is not body["invert"]


@settings(max_examples=150)
@given(calendars, instants)
def test_an_instant_is_in_as_its_date_and_hour_say(body: dict[str, Any], instant: datetime) -> None:
    assert make(body).contains(instant) is brute(body, instant)


@settings(max_examples=150)
@given(calendars, instants)
def test_the_next_change_is_the_first_one(body: dict[str, Any], instant: datetime) -> None:
    """No instant before the one that is found is where the search wants to get, and that one is."""
    calendar = make(body)
    for find, wanted in ((calendar.next_inside, True), (calendar.next_outside, False)):
        found = find(instant)
        end = instant + timedelta(days=40) if found is None else min(found, instant + timedelta(days=40))
        at = instant
        while at < end:
            assert calendar.contains(at) is not wanted
            at += timedelta(minutes=97)
        if found is not None:
            assert calendar.contains(found) is wanted
            assert found == instant or calendar.contains(found - timedelta(seconds=1)) is not wanted


@settings(max_examples=60)
@given(calendars, calendars, instants)
def test_calendars_are_combined_as_sets(
    first: dict[str, Any], second: dict[str, Any], instant: datetime
) -> None:
    a, b = make(first), make(second)
    in_a, in_b = a.contains(instant), b.contains(instant)

    def combined(*rules: dict[str, Any]) -> bool:
        return make({"rules": list(rules)}, a=a, b=b).contains(instant)

    assert combined({"union": ["a", "b"]}) is (in_a or in_b)
    assert combined({"intersect": ["a", "b"]}) is (in_a and in_b)
    assert combined({"union": ["a"]}, {"minus": "b"}) is (in_a and not in_b)


@given(st.sampled_from(ZONES), days, st.integers(0, DAY - 1))
def test_a_wall_time_comes_when_a_cron_expression_fires(zone: str, day: date, second: int) -> None:
    second -= second % MINUTE
    clock = f"{second // 3600:02}:{second // 60 % 60:02}"
    found = from_epoch(epoch_at_wall(load_zone(zone), ordinal_wall(day) + second))
    assert found == first_shown(zone, day, clock)


@given(st.sampled_from(ZONES), instants)
def test_a_wall_time_is_what_the_zone_shows(zone: str, instant: datetime) -> None:
    wall = wall_at_epoch(load_zone(zone), to_epoch(instant))
    from zoneinfo import ZoneInfo

    local = instant.astimezone(ZoneInfo(zone))
    assert wall_date(wall) == local.date()
    assert wall % DAY == local.hour * 3600 + local.minute * 60 + local.second


@pytest.mark.parametrize(
    ("spans", "merged"),
    [
        ([], []),
        ([(0, 5), (5, 9)], [(0, 9)]),
        ([(6, 9), (0, 5)], [(0, 5), (6, 9)]),
        ([(0, 9), (2, 3)], [(0, 9)]),
        ([(4, 4)], []),
    ],
)
def test_spans_that_touch_are_one(spans: list[tuple[int, int]], merged: list[tuple[int, int]]) -> None:
    assert merge_spans(spans) == merged


def test_a_calendar_that_never_changes_says_so() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    always = make({"rules": [{"weekly": ["MON-SUN"]}]})
    assert always.next_outside(start) is None
    assert always.next_inside(start) == start
    wrapped = make(
        {
            "rules": [
                {"weekly": ["MON-SUN"], "from": "12:00", "to": "06:00"},
                {"weekly": ["MON-SUN"], "from": "05:00", "to": "13:00"},
            ]
        }
    )
    assert wrapped.next_outside(start) is None
    past = make({"rules": [{"date": "2020-01-01"}]})
    assert past.next_inside(start) is None


def test_a_leap_day_is_there_in_leap_years() -> None:
    calendar = make({"rules": [{"yearly": "02-29"}]})
    assert calendar.next_inside(datetime(2096, 3, 1, tzinfo=UTC)) == datetime(2104, 2, 29, tzinfo=UTC)
    assert not calendar.contains(datetime(2027, 3, 1, tzinfo=UTC))
