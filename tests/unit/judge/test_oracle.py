"""The oracle and the core's triggers agree, and what the oracle does not know it refuses."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mainspring.core.calendars.joined import with_calendars
from mainspring.core.calendars.sieve import make_sieve
from mainspring.core.cron import Cron, CronError
from mainspring.core.model import Roll
from mainspring.core.triggers import AnyOf, Interval, Once, Trigger, Windowed
from mainspring.core.triggers.reading import read_trigger
from mainspring.testing.factories import START, at
from tests.unit.core.calendars.test_sets import make
from tools.judge.oracle import ClosedFires, expected_fires

BOUNDS = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def by_core(trigger: Trigger, after: datetime, through: datetime) -> list[datetime]:
    found = []
    instant = trigger.next_after(after)
    while instant is not None and instant <= through:
        found.append(instant)
        instant = trigger.next_after(instant)
    return found


def field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    stretch = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    step = st.integers(1, high - low)
    part = st.one_of(
        number.map(str),
        stretch,
        st.tuples(stretch, step).map(lambda pair: f"{pair[0]}/{pair[1]}"),
        st.tuples(number, step).map(lambda pair: f"{pair[0]}/{pair[1]}"),
        st.tuples(st.just("*"), step).map(lambda pair: f"{pair[0]}/{pair[1]}"),
    )
    return st.one_of(st.just("*"), st.lists(part, min_size=1, max_size=3).map(",".join))


ANYTHING = st.tuples(*(field(*bounds) for bounds in BOUNDS)).map(" ".join)
DAYS = st.tuples(*(field(*bounds) for bounds in BOUNDS[3:])).map(lambda words: "0 0 12 " + " ".join(words))
INSTANTS = st.integers(0, 6 * 365 * 86_400).map(lambda second: at(second + 0.25))


@given(expression=ANYTHING, after=INSTANTS)
@settings(max_examples=60)
def test_cron_within_hours(expression: str, after: datetime) -> None:
    compare(expression, after, timedelta(hours=1))


@given(expression=DAYS, day=st.integers(0, 1000))
@settings(max_examples=40)
@example(expression="0 0 12 13 * 5", day=0)
@example(expression="0 0 12 */2 * 5", day=0)
@example(expression="0 0 12 13 * */7", day=0)
@example(expression="0 0 12 1-7 * 7", day=20)
def test_cron_by_days(expression: str, day: int) -> None:
    """Asked for the one second of each day, so that months can be looked at."""
    noon = START + timedelta(days=day)
    for number in range(60):
        compare(expression, noon + timedelta(days=number, seconds=-1), timedelta(seconds=2))


def compare(expression: str, after: datetime, length: timedelta) -> None:
    try:
        cron = Cron(expression)
    except CronError:
        return  # a step longer than its range, or a date that never comes
    assert expected_fires(cron, after, after + length) == by_core(cron, after, after + length)


@given(
    every=st.timedeltas(timedelta(milliseconds=10), timedelta(hours=3)),
    anchor=st.integers(-3600, 3600),
    offset=st.integers(-2, 40),
    length=st.integers(0, 40),
)
def test_interval(every: timedelta, anchor: int, offset: int, length: int) -> None:
    trigger = Interval(every=every, anchor=at(anchor))
    after = at(anchor) + offset * every
    for shift in (timedelta(0), timedelta(microseconds=1), every / 2):
        through = after + length * every
        assert expected_fires(trigger, after + shift, through) == by_core(trigger, after + shift, through)


@given(instant=st.integers(-5, 5), after=st.integers(-5, 5), length=st.integers(-2, 5))
def test_once(instant: int, after: int, length: int) -> None:
    trigger = Once(at(instant))
    assert expected_fires(trigger, at(after), at(after + length)) == by_core(
        trigger, at(after), at(after + length)
    )


def test_five_fields_are_six_at_second_zero() -> None:
    day = timedelta(days=1)
    five = expected_fires(Cron("30 6 * * *"), START, START + day)
    assert five == expected_fires(Cron("0 30 6 * * *"), START, START + day) == [at(18.5 * 3600)]


def test_nothing_without_a_trigger() -> None:
    assert expected_fires(None, START, at(60)) == []


@pytest.mark.parametrize(
    "cron", [Cron("0 9 * * MON"), Cron("@hourly"), Cron("0 9 L * *"), Cron("* * * * *", tz="Asia/Tokyo")]
)
def test_what_it_does_not_know_it_refuses(cron: Cron) -> None:
    with pytest.raises(ValueError, match=r"."):
        expected_fires(cron, START, at(60))


@given(
    day=st.integers(-2, 2),
    roll=st.sampled_from(list(Roll)),
    closed=st.lists(st.tuples(st.integers(-9, 9), st.integers(-3, 40), st.integers(1, 30)), max_size=12),
)
@settings(max_examples=60)
@example(day=0, roll=Roll.PREVIOUS, closed=[(0, 0, 30), (-1, 0, 5)])
@example(day=-2, roll=Roll.NEXT, closed=[(-2, 0, 90), (-1, 10, 5)])
def test_fires_that_calendars_move(day: int, roll: Roll, closed: list[tuple[int, int, int]]) -> None:
    """Windows are given by day, first second and length."""
    date = START + timedelta(days=day)
    own = Cron(f"5,20,35 {START.minute} {START.hour} {date.day} * *")
    spans = [
        (at(86_400 * number + low), at(86_400 * number + low + length)) for number, low, length in closed
    ]
    rules = [{"from": text(low), "to": text(high)} for low, high in spans]
    calendar = make({"tz": "UTC", "rules": [*rules, {"date": "1999-01-01"}]})
    by_core_rules = with_calendars(own, make_sieve(own, (), (calendar,), roll))
    assert by_core_rules is not None
    moved = ClosedFires(own, tuple(spans), roll)
    wanted = [
        fire
        for number in range(-3, 4)
        for fire in by_core(by_core_rules, at(86_400 * number - 60), at(86_400 * number + 60))
    ]
    found = [
        fire
        for number in range(-3, 4)
        for fire in expected_fires(moved, at(86_400 * number - 60), at(86_400 * number + 60))
    ]
    assert found == wanted


def text(instant: datetime) -> str:
    return instant.replace(tzinfo=None).isoformat()


PARTS = st.one_of(
    st.builds(Interval, st.timedeltas(timedelta(seconds=1), timedelta(minutes=3)), st.just(START)),
    st.sampled_from([Cron("*/7 * * * * *"), Cron("30 */2 * * * *")]),
)


@given(st.lists(PARTS, min_size=1, max_size=3), st.integers(0, 600), st.integers(0, 600))
@settings(max_examples=40)
def test_unions_and_windows(parts: list[Trigger], one: int, other: int) -> None:
    low, high = sorted([at(one), at(other)])
    for trigger in (AnyOf(tuple(parts)), Windowed(AnyOf(tuple(parts)), low, high), Windowed(parts[0], low)):
        through = START + timedelta(minutes=8)
        assert expected_fires(trigger, START, through) == by_core(trigger, START, through)


@given(
    st.sampled_from(["1 day", "3 days", "1 week", "2 weeks"]),
    st.times().map(lambda time: f"{time:%H:%M:%S}"),
    st.integers(0, 40),
)
@settings(max_examples=40)
def test_days_and_weeks(every: str, time: str, day: int) -> None:
    anchor = (START + timedelta(days=day)).date().isoformat()
    form = {"type": "calendar_interval", "every": every, "at": time, "anchor": anchor}
    trigger = read_trigger({"trigger": form}, base=None, old=None, now=START)
    assert trigger is not None
    through = START + timedelta(days=90)
    assert expected_fires(trigger, START, through) == by_core(trigger, START, through)
