"""Expressions that are written from sets of values fire on just these."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.cron import Cron
from mainspring.errors import InvalidInput
from mainspring.importers.cron_text import DAYS, HOURS, MINUTES, MONTHS, WEEKDAYS, write_days, write_values

START = datetime(2027, 12, 31, 23, 59, tzinfo=UTC)  # 2028 is a leap year
YEAR = [START + timedelta(minutes=1, days=day) for day in range(366)]
DATES = st.sets(st.sampled_from(DAYS), min_size=1) | st.just(set(DAYS))
DAYS_OF_WEEK = st.sets(st.sampled_from(WEEKDAYS), min_size=1) | st.just(set(WEEKDAYS))


def fires_in_the_year(expression: str) -> list[datetime]:
    fires: list[datetime] = []
    fire = Cron(expression).next_after(START)
    while fire is not None and fire <= YEAR[-1]:
        fires.append(fire)
        fire = Cron(expression).next_after(fire)
    return fires


def weekday_of(date: datetime) -> int:
    return date.isoweekday() % 7


@given(DATES, DAYS_OF_WEEK)
def test_one_of_both_is_enough(days: set[int], weekdays: set[int]) -> None:
    day, weekday = write_days(days, weekdays, wants_both=False)
    if len(days) == len(DAYS) or len(weekdays) == len(WEEKDAYS):  # no condition: the other one decides
        wanted = [date for date in YEAR if date.day in days and weekday_of(date) in weekdays]
    else:
        wanted = [date for date in YEAR if date.day in days or weekday_of(date) in weekdays]
    assert fires_in_the_year(f"0 0 {day} * {weekday}") == wanted


@given(DATES, DAYS_OF_WEEK)
def test_both_must_match_or_it_is_refused(days: set[int], weekdays: set[int]) -> None:
    try:
        day, weekday = write_days(days, weekdays, wants_both=True)
    except InvalidInput:
        assert 1 not in days
        assert 0 not in weekdays
        return
    wanted = [date for date in YEAR if date.day in days and weekday_of(date) in weekdays]
    assert fires_in_the_year(f"0 0 {day} * {weekday}") == wanted


@pytest.mark.parametrize(
    ("days", "weekdays", "fields"),
    [
        (set(DAYS), set(WEEKDAYS), ("*", "*")),
        (set(range(1, 8)), {1}, ("*", "MON#1")),
        ({*range(8, 15), *range(22, 29)}, {2, 4}, ("*", "TUE#2,THU#2,TUE#4,THU#4")),
        ({1, 15}, {1, 2, 3, 4, 5}, ("*/31,15", "MON-FRI")),
        (set(range(1, 32, 2)), {5}, ("*/2", "FRI")),
        ({13}, {0, 5}, ("13", "*/7,FRI")),
    ],
)
def test_how_both_are_said(days: set[int], weekdays: set[int], fields: tuple[str, str]) -> None:
    assert write_days(days, weekdays, wants_both=True) == fields


@given(st.sampled_from([MINUTES, HOURS, MONTHS]), st.data())
def test_values(full: range, data: st.DataObject) -> None:
    values = data.draw(
        st.sets(st.sampled_from(full), min_size=1)
        | st.builds(lambda step: set(full[::step]), st.integers(1, 40))
    )
    text = write_values(values, full)
    at = {MINUTES: f"{text} * * * *", HOURS: f"0 {text} * * *", MONTHS: f"0 0 1 {text} *"}[full]
    fire: datetime | None = START
    seen = set()
    for _ in range(len(full) + 1):
        fire = Cron(at).next_after(fire or START)
        assert fire is not None
        seen.add(fire.minute if full is MINUTES else fire.hour if full is HOURS else fire.month)
    assert seen == values
