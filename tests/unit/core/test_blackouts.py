"""Blackouts hold while their calendars do, and say when that changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.blackouts import Blackout, BlackoutWindow, read_blackouts, renew_blackout, state_of
from mainspring.core.calendars.resolved import CalendarVersion, ResolvedCalendar, resolve
from mainspring.core.calendars.spec import read_calendar
from mainspring.core.model import LaneKey, Priority
from mainspring.core.pauses import LanePauses, Pause, PauseMode, PauseScope
from mainspring.errors import InvalidInput
from mainspring.testing.factories import START, at

MAIL = LaneKey("mail", "function", "acme", Priority.LOW)


def calendar(*spans: tuple[float, float], invert: bool = False) -> ResolvedCalendar:
    """A calendar that holds from some seconds after the start to others."""
    rules = [
        {"from": at(low).strftime("%Y-%m-%dT%H:%M:%S"), "to": at(high).strftime("%Y-%m-%dT%H:%M:%S")}
        for low, high in spans
    ]
    spec = read_calendar({"rules": rules, "invert": invert})
    return resolve(CalendarVersion("default", "off", 1, spec, {}, START), lambda key: pytest.fail(str(key)))


def window(*spans: tuple[float, float], invert: bool = False, **facts: Any) -> BlackoutWindow:
    values: dict[str, Any] = {
        "scope": PauseScope.QUEUE,
        "name": "mail",
        "tenant": "default",
        "calendar": "off",
        "version": 1,
        "made_by": "ann",
        "since": START,
    }
    return BlackoutWindow(Blackout(**values | facts), calendar(*spans, invert=invert))


def test_it_holds_from_its_edge_up_to_its_other_edge() -> None:
    one = window((10, 20), (30, 40))
    assert [one.is_on(at(second)) for second in (9.999, 10, 19.999, 20, 30, 40)] == [
        False, True, True, False, True, False,
    ]  # fmt: skip
    assert [one.next_change(at(second)) for second in (0, 10, 25, 40)] == [at(10), at(20), at(30), None]


def test_it_says_how_it_stands() -> None:
    one = window((10, 20))
    assert (state_of(one, at(12)).until, state_of(one, at(12)).next_at) == (at(20), None)
    assert (state_of(one, at(2)).until, state_of(one, at(2)).next_at) == (None, at(10))
    always = window((10, 20), (20, 30), invert=True)
    assert (state_of(always, at(40)).is_on, state_of(always, at(40)).until) == (True, None)


@pytest.mark.parametrize(
    ("after", "through", "begun"),
    [(0, 9, None), (0, 10, 10), (0, 35, 30), (10, 29, None), (15, 30, 30), (30, 99, None)],
)
def test_its_last_beginning(after: float, through: float, begun: float | None) -> None:
    found = window((10, 20), (30, 40)).last_beginning(at(after), at(through))
    assert found == (None if begun is None else at(begun))


spans = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 60)), min_size=1, max_size=6)


@given(spans, st.booleans(), st.floats(0, 250), st.floats(0, 100))
def test_nothing_changes_in_between(
    made: list[tuple[int, int]], invert: bool, now: float, later: float
) -> None:
    one = window(*((low, low + length) for low, length in made), invert=invert)
    fresh = window(*((low, low + length) for low, length in made), invert=invert)
    change, then = one.next_change(at(now)), at(now + later)
    if change is None or then < change:
        assert fresh.is_on(then) is one.is_on(at(now))
        assert fresh.last_beginning(at(now), then) is None
    else:
        assert fresh.is_on(change) is not one.is_on(at(now))
        begun = fresh.last_beginning(at(now), then)
        assert begun is None or (fresh.is_on(begun) and not fresh.is_on(begun - timedelta(microseconds=1)))
        assert begun is not None or fresh.is_on(at(now))


def test_fires_are_skipped_by_when_they_fall_due() -> None:
    found = LanePauses(blackouts=[window((10, 20), mode=PauseMode.SKIP, since=at(12))])
    assert [found.reason_to_skip(MAIL, at(second)) for second in (11, 12, 19, 20)] == [
        None, "blackout", "blackout", None,
    ]  # fmt: skip
    assert found.skipped_by(MAIL, at(15)) == "off@1"
    assert not LanePauses(blackouts=[window((10, 20))]).skips(MAIL, at(15))
    paused = Pause(scope=PauseScope.ALL, name="", mode=PauseMode.SKIP, made_by="ann", since=at(0))
    assert found.with_blackouts(found.blackouts).reason_to_skip(MAIL, at(15)) == "blackout"
    assert LanePauses([paused], found.blackouts).reason_to_skip(MAIL, at(15)) == "paused"


def test_lanes_are_held_by_what_covers_them() -> None:
    held = LanePauses(blackouts=[window((10, 20)), window((10, 30), scope=PauseScope.TENANT, name="acme")])
    assert [held.is_held(MAIL, at(second)) for second in (9, 10, 25, 30)] == [False, True, True, False]
    assert not held.is_held(LaneKey("bulk", "function", "other", Priority.LOW), at(15))
    found = held.find_blackout(MAIL, at(15))
    assert found is not None
    assert found.blackout.what == "Tenant 'acme'"
    assert (held.next_change(at(0)), held.next_change(at(15)), held.next_change(at(30))) == (
        at(10),
        at(20),
        None,
    )
    assert held.last_beginning(at(0), at(40)) == at(10)


def test_one_whose_calendar_cannot_be_read_holds() -> None:
    one = BlackoutWindow(window((10, 20)).blackout, None)
    assert one.is_on(datetime(2030, 1, 1, tzinfo=UTC))
    assert (one.next_change(at(0)), one.last_beginning(at(0), at(99))) == (None, None)


def test_the_same_mode_goes_on_since_then() -> None:
    old, new = window((1, 2)).blackout, window((1, 2), since=at(9), note="b").blackout
    assert renew_blackout(new, old).since == START
    assert renew_blackout(new, None) is new
    skipping = window((1, 2), since=at(9), mode=PauseMode.SKIP).blackout
    assert renew_blackout(skipping, old) is skipping


def test_a_body_is_read() -> None:
    body = {"items": [{"calendar": "month-end", "mode": "skip", "note": "closed"}, {"calendar": "nights@3"}]}
    first, second = read_blackouts(body)
    assert (str(first.calendar), first.mode, first.note) == ("month-end", PauseMode.SKIP, "closed")
    assert (str(second.calendar), second.mode, second.note) == ("nights@3", PauseMode.HOLD, "")
    assert read_blackouts({"items": []}) == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "items"),
        ({"items": {}}, "items"),
        ({"items": [{"calendar": "a"}] * 21}, "items"),
        ({"items": ["a"]}, "items[0]"),
        ({"items": [{}]}, "items[0].calendar"),
        ({"items": [{"calendar": "a b"}]}, "items[0].calendar"),
        ({"items": [{"calendar": "a", "mode": "stop"}]}, "items[0].mode"),
        ({"items": [{"calendar": "a", "note": "\n"}]}, "items[0].note"),
        ({"items": [{"calendar": "a", "until": 1}]}, "items[0].until"),
        ({"items": [{"calendar": "a"}, {"calendar": "a@2"}]}, "items[1].calendar"),
        ({"items": [], "mode": "hold"}, "mode"),
    ],
)
def test_a_wrong_body_is_refused(body: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_blackouts(body)
    assert refused.value.field == field
