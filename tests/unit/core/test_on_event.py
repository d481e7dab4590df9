"""A trigger on events has no instants, and says what it is for."""

from __future__ import annotations

from datetime import UTC, datetime

from mainspring.core.events.patterns import read_pattern
from mainspring.core.triggers import OnEvent, load_trigger, store_trigger, tell_trigger
from mainspring.core.triggers.words import explain_trigger, warn_of_trigger

NOW = datetime(2026, 1, 5, tzinfo=UTC)
ALL = OnEvent("orders.paid")
SOME = OnEvent("orders.paid", read_pattern({"key": ["a"]}, "pattern"))


def test_no_instant_is_its_own() -> None:
    assert ALL.next_after(NOW) is None
    assert ALL.previous_before(NOW) is None
    assert warn_of_trigger(ALL, now=NOW) == []


def test_takes_what_fits() -> None:
    assert ALL.takes({})
    assert SOME.takes({"key": "a"})
    assert not SOME.takes({"key": "b"})


def test_forms() -> None:
    for trigger in (ALL, SOME):
        plain = store_trigger(trigger)
        assert plain is not None
        assert load_trigger(plain) == trigger
    assert tell_trigger(store_trigger(SOME)) == "on event orders.paid that fits"
    assert explain_trigger(ALL) == "with each event of the topic orders.paid"
    assert explain_trigger(SOME) == "with each event of the topic orders.paid that fits its pattern"
