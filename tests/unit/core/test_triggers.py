from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.cron import Cron
from mainspring.core.triggers import AnyOf, Interval, Once, Trigger, Windowed, next_fires
from mainspring.core.triggers.interval import IntervalType
from mainspring.core.triggers.once import OnceType
from mainspring.core.triggers.reading import read_trigger
from mainspring.errors import InvalidInput
from mainspring.testing.factories import START, at

TICK = timedelta(microseconds=1)
MINUTE = timedelta(minutes=1)
YEAR = timedelta(days=366)

instants = st.timedeltas(-30 * YEAR, 30 * YEAR).map(lambda offset: START + offset)
onces = st.builds(Once, instants)
intervals = st.builds(Interval, st.timedeltas(TICK, timedelta(days=400)), instants)
crons = st.sampled_from(
    [
        Cron("*/5 * * * *"),
        Cron("*/7 * * * * *"),
        Cron("30 2 * * *", tz="Europe/Berlin"),
        Cron("0 9 * * 1-5", tz="America/New_York"),
        Cron("*/20 * * * *", tz="Australia/Lord_Howe"),
        Cron("0 0 29 2 *"),
    ]
)


def make_calendar(every: str, anchor: date, at: time, **rest: Any) -> Trigger:
    """Make a calendar interval of a full form."""
    given = {"type": "calendar_interval", "every": every, "anchor": anchor.isoformat(), "at": at.isoformat()}
    made = read_trigger({"trigger": {**given, **rest}}, base=None, old=None, now=START)
    assert made is not None
    return made


days = st.dates(date(1990, 1, 1), date(2050, 1, 1))
times = st.times().map(lambda one: one.replace(microsecond=0))
zones = st.sampled_from(
    ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"]
)
dsts = st.sampled_from(["vixie", "skip/second", "after/both"])
calendars: st.SearchStrategy[Trigger] = st.one_of(
    st.builds(
        lambda n, unit, *rest, tz, dst: make_calendar(f"{n} {unit}", *rest, tz=tz, dst=dst),
        st.integers(1, 10),
        st.sampled_from(["days", "weeks", "months", "years"]),
        days,
        times,
        tz=zones,
        dst=dsts,
    ),
    st.builds(
        lambda n, *rest, tz, day: make_calendar(f"{n} months", *rest, tz=tz, day=day),
        st.integers(1, 7),
        days,
        times,
        tz=zones,
        day=st.integers(1, 31),
    ),
)
simple = st.one_of(onces, intervals, crons, calendars)
unions: st.SearchStrategy[Trigger] = st.lists(simple, min_size=1, max_size=4).map(
    lambda found: AnyOf(tuple(found))
)


@st.composite
def windows(draw: st.DrawFn) -> Trigger:
    low, high = sorted([draw(instants), draw(instants)])
    return Windowed(
        draw(st.one_of(simple, unions)),
        draw(st.sampled_from([None, low])),
        draw(st.sampled_from([None, high])),
    )


triggers: st.SearchStrategy[Trigger] = st.one_of(simple, unions, windows())


@given(triggers, instants)
def test_next_and_previous_are_strict_and_meet(trigger: Trigger, instant: datetime) -> None:
    after = trigger.next_after(instant)
    if after is not None:
        assert after > instant
        before = trigger.previous_before(after)
        assert before is None or before <= instant
        assert trigger.previous_before(after + TICK) == after
    before = trigger.previous_before(instant)
    if before is not None:
        assert before < instant
        following = trigger.next_after(before)
        assert following is None or following >= instant
        assert trigger.next_after(before - TICK) == before


@given(triggers, instants, st.timedeltas(timedelta(0), YEAR))
def test_next_is_the_same_from_anywhere_before_it(
    trigger: Trigger, instant: datetime, lead: timedelta
) -> None:
    after = trigger.next_after(instant)
    if after is not None:
        assert trigger.next_after(max(instant, after - lead - TICK)) == after


def test_next_fires_are_as_many_as_asked_for_or_all() -> None:
    every_minute = Interval(MINUTE, START)
    assert next_fires(every_minute, START, 3) == [START + MINUTE, START + 2 * MINUTE, START + 3 * MINUTE]
    assert next_fires(every_minute, START, 0) == []
    assert next_fires(Once(START + MINUTE), START, 3) == [START + MINUTE]
    assert next_fires(Once(START), START, 3) == []


@given(intervals, st.integers(1, 10_000), st.timedeltas(timedelta(0), YEAR))
def test_interval_never_drifts(interval: Interval, number: int, late: timedelta) -> None:
    fire = interval.anchor + number * interval.every if number * interval.every < YEAR * 30 else None
    if fire is None:
        return
    assert interval.next_after(fire - TICK) == fire
    following = interval.next_after(fire + late)
    assert following is not None
    assert (following - interval.anchor) % interval.every == timedelta(0)
    assert following - (fire + late) <= interval.every


@pytest.mark.parametrize(
    ("seconds", "following", "preceding"),
    [
        (-100, 10, None),
        (0, 10, None),  # the anchor itself is no fire
        (9.999999, 10, None),
        (10, 20, None),
        (10.000001, 20, 10),
        (20, 30, 10),
        (25, 30, 20),
    ],
)
def test_interval_by_hand(seconds: float, following: float, preceding: float | None) -> None:
    interval = Interval(timedelta(seconds=10), START)
    assert interval.next_after(at(seconds)) == at(following)
    assert interval.previous_before(at(seconds)) == (None if preceding is None else at(preceding))


@pytest.mark.parametrize("every", [timedelta(days=365 * 9000), timedelta.max])
def test_interval_past_the_end_of_time_never_fires(every: timedelta) -> None:
    assert Interval(every, START).next_after(START) is None
    assert Interval(every, START).previous_before(datetime.max.replace(tzinfo=UTC)) is None


@pytest.mark.parametrize("every", [timedelta(0), timedelta(seconds=-1)])
def test_interval_of_nothing_is_refused(every: timedelta) -> None:
    with pytest.raises(ValueError, match="longer than nothing"):
        Interval(every, START)


@pytest.mark.parametrize(
    ("seconds", "following", "preceding"), [(-1, 0, None), (0, None, None), (1, None, 0), (1e8, None, 0)]
)
def test_once_by_hand(seconds: float, following: float | None, preceding: float | None) -> None:
    once = Once(START)
    assert once.next_after(at(seconds)) == (None if following is None else at(following))
    assert once.previous_before(at(seconds)) == (None if preceding is None else at(preceding))


def test_anchor_beyond_all_fires_is_refused_by_its_name() -> None:
    values = {"every": timedelta(days=3650), "anchor": datetime.max.replace(tzinfo=UTC)}
    with pytest.raises(InvalidInput, match="never fire") as caught:
        IntervalType().make(values, lambda name: f"trigger.{name}", now=START, old=None)
    assert "trigger.anchor" in str(caught.value)


def test_interval_keeps_its_anchor_while_its_length_stays() -> None:
    def make(every: timedelta, anchor: datetime | None) -> Interval:
        values = {"every": every, "anchor": anchor}
        return IntervalType().make(values, str, now=at(7), old=Interval(MINUTE, START))

    assert make(MINUTE, None) == Interval(MINUTE, START)
    assert make(2 * MINUTE, None) == Interval(2 * MINUTE, at(7))
    assert make(MINUTE, at(3)) == Interval(MINUTE, at(3))


def test_triggers_are_told_in_words() -> None:
    assert IntervalType().tell({"every_seconds": 90.0}) == "every 90 s"
    assert OnceType().tell({"at": "2026-11-21T09:00:00+01:00"}) == "at 2026-11-21T09:00:00+01:00"
