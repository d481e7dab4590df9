"""Triggers with calendars against all fires of the job's own trigger, one by one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mainspring.core.calendars.joined import with_calendars
from mainspring.core.calendars.preview import next_made, preview_fires
from mainspring.core.calendars.resolved import ResolvedCalendar
from mainspring.core.calendars.rolling import REACH, RolledTrigger, is_too_frequent
from mainspring.core.calendars.sets import TimeSet
from mainspring.core.calendars.sieve import SievedTrigger, make_sieve
from mainspring.core.cron import Cron
from mainspring.core.model import Roll
from mainspring.core.triggers import Interval, Trigger, UnknownTrigger
from tests.unit.core.calendars.test_sets import make

START = datetime(2026, 3, 1, tzinfo=UTC)
SPAN = timedelta(days=35)
BERLIN = "Europe/Berlin"
_DAY = timedelta(days=1)

rules = st.one_of(
    st.integers(1, 60).map(lambda n: {"date": (START + timedelta(days=n)).date().isoformat()}),
    st.sampled_from([["SAT", "SUN"], ["MON"], ["WED-FRI"]]).map(lambda names: {"weekly": names}),
    st.sampled_from([("22:00", "06:00"), ("08:30", "12:00"), ("02:00", "03:00")]).map(
        lambda pair: {"weekly": ["MON-SUN"], "from": pair[0], "to": pair[1]}
    ),
)
bodies = st.fixed_dictionaries({"tz": st.just(BERLIN), "rules": st.lists(rules, min_size=1, max_size=3)})
triggers: st.SearchStrategy[Trigger] = st.one_of(
    st.sampled_from(
        [
            "0 9 * * *",
            "30 2 * * *",
            "0 9,17 * * *",
            "0 */6 * * *",
            "0 0 1,15 * *",
            "15 23 * * 6",
            "0 12 L * *",
        ]
    ).map(lambda text: Cron(text, BERLIN)),
    st.sampled_from([25, 30]).map(lambda n: Interval(timedelta(hours=n), START - timedelta(days=400))),
)


class Remembering:
    """A set of instants that answers each question once, and then from memory: searches ask the same ones often.

    The sets themselves are tested in `test_sets`.
    """

    def __init__(self, times: TimeSet) -> None:
        self.holds = cache(times.holds)
        self.change_after = cache(times.change_after)


def make_quick(body: dict[str, Any]) -> ResolvedCalendar:
    calendar = make(body)
    return replace(calendar, times=Remembering(calendar.times))


def fires_of(trigger: Trigger, low: datetime, high: datetime) -> list[datetime]:
    found = []
    fire = trigger.next_after(low)
    while fire is not None and fire < high:
        found.append(fire)
        fire = trigger.next_after(fire)
    return found


def backwards(trigger: Trigger, low: datetime, high: datetime) -> list[datetime]:
    found = []
    fire = trigger.previous_before(high)
    while fire is not None and fire > low:
        found.append(fire)
        fire = trigger.previous_before(fire)
    return found[::-1]


def both(body: dict[str, Any], is_include: bool) -> dict[str, tuple[ResolvedCalendar, ...]]:
    calendar = make_quick(body)
    return {"include": (calendar,) if is_include else (), "exclude": () if is_include else (calendar,)}


@settings(max_examples=25, deadline=None)
@given(triggers, bodies, st.booleans())
def test_what_gets_through_are_the_own_fires_that_count(
    own: Trigger, body: dict[str, Any], is_include: bool
) -> None:
    calendar = make(body)
    sieve = make_sieve(own, **both(body, is_include), roll=None)
    trigger = with_calendars(own, sieve)
    assert isinstance(trigger, SievedTrigger)
    end = START + SPAN
    expected = [fire for fire in fires_of(own, START, end) if calendar.contains(fire) is is_include]
    assert fires_of(trigger, START, end) == expected
    assert backwards(trigger, START, end) == expected
    for fire in fires_of(own, START, expected[-1] if expected else START)[:5]:
        assert next_made(trigger, fire) == next(each for each in expected if each >= fire)


@example(Cron("30 2 * * *", BERLIN), {"tz": BERLIN, "rules": [{"date": "2026-03-02"}]}, True, Roll.NEXT)
@settings(max_examples=25, deadline=None)
@given(triggers, bodies, st.booleans(), st.sampled_from(list(Roll)))
def test_moved_fires_are_where_each_own_fire_goes(
    own: Trigger, body: dict[str, Any], is_include: bool, roll: Roll
) -> None:
    sieve = make_sieve(own, **both(body, is_include), roll=roll)
    trigger = with_calendars(own, sieve)
    assert isinstance(trigger, RolledTrigger)
    low, high = START, START + timedelta(days=12)
    reach = timedelta(days=REACH + 5)
    moved = {trigger.moved(fire) for fire in fires_of(own, low - reach, high + reach)}
    expected = sorted(one for one in moved if one is not None and low < one < high)
    assert fires_of(trigger, low, high) == expected
    assert backwards(trigger, low, high) == expected
    assert all(sieve.excluded_by(fire) is None for fire in expected)


@pytest.mark.parametrize(
    ("roll", "open_on", "changed"),
    [(Roll.NEXT, "2026-03-02", "2025-03-30"), (Roll.PREVIOUS, "2025-08-02", "2026-03-29")],
)
def test_a_fire_that_a_clock_change_moved_is_found_from_afar(roll: Roll, open_on: str, changed: str) -> None:
    own = Cron("30 2 * * *", BERLIN, dst="vixie")
    calendar = make({"tz": BERLIN, "rules": [{"date": open_on}]})
    trigger = with_calendars(own, make_sieve(own, (calendar,), (), roll))
    assert isinstance(trigger, RolledTrigger)
    day = datetime.fromisoformat(open_on).replace(tzinfo=UTC)
    low, high = day - _DAY, day + 2 * _DAY
    at_three = trigger.moved(datetime.fromisoformat(changed).replace(tzinfo=UTC) + timedelta(hours=1))
    found = fires_of(trigger, low, high)
    assert at_three in found
    assert len(found) == 2
    assert backwards(trigger, low, high) == found


@settings(max_examples=25, deadline=None)
@given(triggers, bodies, st.sampled_from(list(Roll)))
def test_a_fire_moves_to_the_nearest_date_at_its_wall_time(
    own: Trigger, body: dict[str, Any], roll: Roll
) -> None:
    sieve = make_sieve(own, **both(body, is_include=False), roll=roll)
    trigger = RolledTrigger(own, sieve)
    for one in preview_fires(trigger, START, 8):
        if one.rolled_from is None:
            assert own.next_after(one.fire_at - timedelta(seconds=1)) == one.fire_at
            continue
        assert trigger.moved(one.rolled_from) == one.fire_at
        assert (one.rolled_from < one.fire_at) is (roll is Roll.NEXT)
        between = list(trigger.origins(one.fire_at))
        assert all(sieve.excluded_by(each) is not None for each in between)


def test_the_last_working_day_of_each_month() -> None:
    closed = make({"tz": BERLIN, "rules": [{"weekly": ["SAT", "SUN"]}, {"yearly": "12-31"}]})
    own = Cron("0 18 L * *", BERLIN)
    trigger = with_calendars(own, make_sieve(own, (), (closed,), Roll.PREVIOUS))
    assert trigger is not None
    found = fires_of(trigger, datetime(2026, 9, 1, tzinfo=UTC), datetime(2027, 3, 1, tzinfo=UTC))
    assert [fire.strftime("%a %d %b") for fire in found] == [
        *("Wed 30 Sep", "Fri 30 Oct", "Mon 30 Nov", "Wed 30 Dec", "Fri 29 Jan", "Fri 26 Feb"),
    ]


def test_a_search_without_end_gives_up() -> None:
    night = make({"rules": [{"weekly": ["MON-SUN"], "from": "22:00", "to": "06:00"}]})
    own = Cron("0 23 * * *")
    for roll in (None, *Roll):
        trigger = with_calendars(own, make_sieve(own, (), (night,), roll))
        assert trigger is not None
        assert trigger.next_after(START) is None


def test_a_far_opening_is_found() -> None:
    far = make({"rules": [{"date": "2090-05-01"}]})
    for own in (Cron("* * * * *"), Cron("0 9 * * *"), Interval(timedelta(hours=5), START)):
        for roll in (None, *Roll):
            trigger = with_calendars(own, make_sieve(own, (far,), (), roll))
            assert trigger is not None
            if roll is not None and is_too_frequent(own, START):
                continue
            found = trigger.next_after(START)
            assert found is not None
            assert found.date().isoformat() == "2090-05-01"


@pytest.mark.parametrize(
    ("text", "is_much"), [("0 * * * *", False), ("*/30 * * * *", True), ("0 9 * * *", False)]
)
def test_a_trigger_may_be_too_frequent_to_move(text: str, is_much: bool) -> None:
    cron = Cron(text)
    first = cron.next_after(START)
    assert first is not None
    assert is_too_frequent(cron, first) is is_much


def test_an_unknown_trigger_stays_as_it_is() -> None:
    own = UnknownTrigger({"type": "moon"})
    closed = make({"rules": [{"date": "2026-01-01"}]})
    assert with_calendars(own, make_sieve(own, (), (closed,), None)) is own
    assert preview_fires(own, START, 5) == []
    assert with_calendars(None, None) is None
