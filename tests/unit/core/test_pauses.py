from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.model import LaneKey, Priority
from mainspring.core.pauses import (
    KEPT,
    MOST_NOTE,
    LanePauses,
    Pause,
    PauseKey,
    PauseMode,
    PauseScope,
    is_over_for_long,
    read_pause,
    renew,
)
from mainspring.errors import InvalidInput
from mainspring.testing.factories import at

MAIL = PauseKey(PauseScope.QUEUE, "mail")
NAMES = st.sampled_from(["mail", "acme", "bulk"])
INSTANTS = st.integers(0, 20).map(at)


def lane(queue: str = "mail", tenant: str = "acme") -> LaneKey:
    return LaneKey(queue, "function:send", tenant, Priority.LOW)


@st.composite
def pauses(draw: st.DrawFn) -> Pause:
    scope = draw(st.sampled_from(PauseScope))
    return Pause(
        scope=scope,
        name="" if scope is PauseScope.ALL else draw(NAMES),
        mode=draw(st.sampled_from(PauseMode)),
        made_by="ann",
        since=draw(INSTANTS),
        until=draw(st.none() | INSTANTS),
    )


def of(scope: PauseScope, name: str, **facts: Any) -> Pause:
    values: dict[str, Any] = {"made_by": "ann", "since": at(0)} | facts
    return Pause(scope=scope, name=name, **values)


def stops(pause: Pause, key: LaneKey) -> bool:
    """The rule once more, by hand."""
    names = {PauseScope.ALL: "", PauseScope.QUEUE: key.queue, PauseScope.TENANT: key.tenant}
    return names[pause.scope] == pause.name


@given(st.lists(pauses()), NAMES, NAMES, INSTANTS)
def test_a_lane_is_stopped_by_what_covers_it_and_lasts_longest(
    made: list[Pause], queue: str, tenant: str, now: datetime
) -> None:
    key = lane(queue, tenant)
    ends = [pause.until for pause in made if stops(pause, key) and (pause.until is None or now < pause.until)]
    found = LanePauses(made).find(key, now)
    if not ends:
        assert found is None
    else:
        assert found is not None
        known = [end for end in ends if end is not None]
        assert found.until == (None if len(known) < len(ends) else max(known))


@given(st.lists(pauses()), NAMES, NAMES, INSTANTS)
def test_a_fire_is_skipped_if_it_fell_due_within_a_pause_that_says_so(
    made: list[Pause], queue: str, tenant: str, due_at: datetime
) -> None:
    key = lane(queue, tenant)
    expected = any(
        stops(pause, key)
        and pause.mode is PauseMode.SKIP
        and pause.since <= due_at
        and (pause.until is None or due_at < pause.until)
        for pause in made
    )
    assert LanePauses(made).skips(key, due_at) is expected


@given(st.lists(pauses()), INSTANTS)
def test_nothing_changes_before_the_next_change(made: list[Pause], now: datetime) -> None:
    found = LanePauses(made)
    end = found.next_change(now)
    last = at(20) if end is None else end - timedelta(microseconds=1)
    assert end is None or end > now
    for queue in ("mail", "acme", "bulk"):
        if last >= now:
            assert found.find(lane(queue), now) == found.find(lane(queue), last)
    assert found.on(now) == tuple(sorted(found.on(now), key=lambda pause: pause.key))


def test_a_new_pause_of_the_same_goes_on_from_the_old_one() -> None:
    old, new = of(*MAIL, until=at(9)), of(*MAIL, since=at(5), note="longer")
    assert renew(new, old).since == at(0)
    assert renew(new, old).note == "longer"
    assert renew(new, None) is new
    assert renew(new, of(*MAIL, until=at(5))) is new
    assert renew(new, of(*MAIL, mode=PauseMode.SKIP)) is new


def test_a_pause_is_kept_for_a_day() -> None:
    assert not is_over_for_long(of(*MAIL), at(0) + 100 * KEPT)
    assert not is_over_for_long(of(*MAIL, until=at(0)), at(-1) + KEPT)
    assert is_over_for_long(of(*MAIL, until=at(0)), at(0) + KEPT)


def test_a_body_says_how_to_pause() -> None:
    plain = read_pause(MAIL, {}, made_by="ann", now=at(3))
    assert plain == of(*MAIL, since=at(3))
    body = {"note": "db upgrade", "until": at(9).isoformat(), "mode": "skip"}
    told = read_pause(MAIL, body, made_by="ann", now=at(3))
    assert told == of(*MAIL, since=at(3), note="db upgrade", until=at(9), mode=PauseMode.SKIP)
    assert read_pause(MAIL, {"until": None}, made_by="ann", now=at(3)).until is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("until", at(3).isoformat()),
        ("until", "soon"),
        ("mode", "drop"),
        ("note", "x" * (MOST_NOTE + 1)),
        ("note", "two\nlines"),
        ("note", 7),
        ("untill", at(9).isoformat()),
    ],
)
def test_a_wrong_field_is_named(field: str, value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_pause(MAIL, {field: value}, made_by="ann", now=at(3))
    assert caught.value.field == field


def test_a_pause_says_what_it_stops() -> None:
    assert of(PauseScope.ALL, "").what == "Everything"
    assert of(*MAIL).what == "Queue 'mail'"
    assert of(PauseScope.TENANT, "acme").what == "Tenant 'acme'"
