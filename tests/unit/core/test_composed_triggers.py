"""Any-of and windows: unions of triggers, and triggers from an instant on or up to one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.backfill import reach_back
from mainspring.core.cron import Cron
from mainspring.core.definition import edit_definition, plain_from_spec, read_definition, spec_from_plain
from mainspring.core.triggers import (
    AnyOf,
    Interval,
    Trigger,
    UnknownTrigger,
    Windowed,
    load_trigger,
    next_fires,
    store_trigger,
    tell_trigger,
    zone_name,
)
from mainspring.core.triggers.reading import read_trigger
from mainspring.errors import InvalidInput

NOW = datetime(2026, 1, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def make(now: datetime = NOW, old: Trigger | None = None, **short: Any) -> Any:
    return read_trigger(short, base=None, old=old, now=now)


parts = st.one_of(
    st.builds(Interval, st.timedeltas(timedelta(minutes=7), 3 * DAY), st.just(NOW - 5 * DAY)),
    st.sampled_from([Cron("0 */2 * * *"), Cron("*/45 8 * * *"), Cron("0 9 * * MON-FRI", tz="Europe/Berlin")]),
)


@given(st.lists(parts, min_size=1, max_size=5))
def test_any_of_fires_when_a_part_does_and_once_at_equal_instants(found: list[Any]) -> None:
    union = AnyOf(tuple(found))
    end = NOW + 10 * DAY
    wanted: set[datetime] = set()
    for part in found:
        at = part.next_after(NOW)
        while at is not None and at < end:
            wanted.add(at)
            at = part.next_after(at)
    fires = [fire for fire in next_fires(union, NOW, len(wanted) + 1) if fire < end]
    assert fires == sorted(wanted)


@given(parts, st.timedeltas(-3 * DAY, 5 * DAY), st.timedeltas(timedelta(0), 5 * DAY))
def test_a_window_keeps_exactly_what_lies_within(part: Any, lead: timedelta, length: timedelta) -> None:
    starts_at, ends_at = NOW + lead, NOW + lead + length
    window = Windowed(part, starts_at, ends_at)
    wanted = []
    at = part.next_after(NOW - 4 * DAY)
    while at is not None and at <= NOW + 11 * DAY:
        wanted += [at] if starts_at <= at <= ends_at else []
        at = part.next_after(at)
    assert next_fires(window, NOW - 4 * DAY, len(wanted) + 1) == wanted
    back, at = [], window.previous_before(NOW + 11 * DAY)
    while at is not None and at > NOW - 4 * DAY:
        back.append(at)
        at = window.previous_before(at)
    assert back[::-1] == wanted


def test_any_of_takes_short_forms_full_forms_and_schedules() -> None:
    made = make(
        any_of=[
            {"cron": "0 9 * * MON-FRI", "tz": "Europe/Berlin"},
            {"type": "cron", "expression": "0 12 * * SAT", "tz": "Europe/Berlin"},
            "every sunday at 18:00",
            {"every": "2h", "ends_at": "2026-02-01T00:00:00Z"},
        ]
    )
    assert isinstance(made, AnyOf)
    assert isinstance(made.triggers[3], Windowed)
    assert zone_name(made) is None
    assert zone_name(AnyOf(made.triggers[:2])) == "Europe/Berlin"
    plain = store_trigger(made)
    assert plain is not None
    assert load_trigger(plain) == made
    assert read_trigger({"trigger": plain}, base=None, old=None, now=NOW) == made
    assert tell_trigger(plain).startswith("0 9 * * MON-FRI (Europe/Berlin); 0 12 * * SAT (Europe/Berlin); ")


def test_parts_that_stay_keep_their_anchors_and_instants_that_have_passed() -> None:
    parts = [{"every": "1h"}, {"run_at": "2026-01-20T13:00:00Z"}, {"cron": "0 9 * * *"}]
    first = make(any_of=parts)
    assert make(NOW + DAY, first, any_of=parts) == first
    assert make(NOW + DAY, first, any_of=[{"every": "2h"}, *parts]).triggers[1:] == first.triggers
    with pytest.raises(InvalidInput, match=r"^any_of\[1\]\.run_at: .*has passed"):
        make(NOW + DAY, any_of=parts)


@pytest.mark.parametrize(
    ("short", "field", "said"),
    [
        ({"any_of": []}, "any_of", "1 to 16 triggers"),
        ({"any_of": ["hourly"] * 17}, "any_of", "1 to 16 triggers"),
        ({"any_of": "hourly"}, "any_of", "1 to 16 triggers"),
        ({"any_of": [7]}, "any_of[0]", "an object, or the text of a schedule, not a number"),
        ({"any_of": ["hourly", "sometimes"]}, "any_of[1].schedule", "cannot be read"),
        ({"any_of": [{"cron": "x"}]}, "any_of[0].cron", "field"),
        ({"any_of": [{"cron": "@daily", "tzz": "UTC"}]}, "any_of[0].tzz", "did you mean 'tz'?"),
        ({"any_of": [{"type": "moon"}]}, "any_of[0].type", "must be one of"),
        ({"any_of": [{}]}, "any_of[0]", "is no trigger"),
        ({"any_of": [{"any_of": ["hourly"]}]}, "any_of[0]", "outer list"),
        ({"trigger": {"type": "any_of", "triggers": [{"cron": "x"}]}}, "trigger.triggers[0].cron", "field"),
        ({"any_of": ["hourly"], "tz": "UTC"}, "tz", "goes with cron or calendar_interval only"),
    ],
)
def test_refusals_of_any_of_name_the_part(short: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        make(**short)
    assert refused.value.field == field
    assert said in refused.value.message


def test_a_part_of_an_unknown_type_makes_the_whole_unknown() -> None:
    plain = {
        "type": "any_of",
        "triggers": [{"type": "moon"}],
        "starts_at": None,
        "ends_at": "2026-02-01T00:00:00+00:00",
    }
    found = load_trigger(plain)
    assert isinstance(found, UnknownTrigger)
    assert store_trigger(found) == plain


def test_an_interval_is_counted_from_the_start_of_its_window() -> None:
    made = make(every="2h", starts_at="2026-02-01T09:00:00Z", ends_at="2026-02-01T13:00:00Z")
    start = datetime(2026, 2, 1, 9, tzinfo=UTC)
    assert next_fires(made, NOW, 9) == [start, start + 2 * HOUR, start + 4 * HOUR]
    assert make(start + HOUR, made, every="2h", starts_at="2026-02-01T09:00:00Z") == Windowed(
        Interval(2 * HOUR, start - 2 * HOUR), start
    )


@pytest.mark.parametrize(
    "short",
    [{"every": "1h"}, {"calendar_interval": "1 week", "at": "09:00"}, {"calendar_interval": "2 years"}],
)
@pytest.mark.parametrize("begin", [None, "2026-02-01T00:00:00Z"])
def test_what_was_counted_from_a_start_that_is_gone_begins_as_if_it_had_never_been(
    short: dict[str, Any], begin: str | None
) -> None:
    """Else nothing would fire until then: for years, if the start was a slip."""
    late = make(**short, starts_at="2030-01-01T00:00:00Z")
    new = make(**short, starts_at=begin)
    assert make(**short, starts_at=begin, old=late) == new
    spec = read_definition(
        {"name": "a", "function": "f", **short, "starts_at": "2030-01-01T00:00:00Z"}, now=NOW
    )
    assert edit_definition(spec, {"starts_at": begin}, now=NOW).trigger == new


def test_a_start_that_has_passed_may_go_and_an_anchor_that_was_given_stays() -> None:
    early = make(every="1h", starts_at="2026-01-01T00:10:00Z", now=NOW - 30 * DAY)
    assert make(every="1h", old=early) == early.raw
    given = {"type": "interval", "every_seconds": 3600, "anchor": "2029-06-01T00:07:00Z"}
    late = make(trigger={**given, "starts_at": "2030-01-01T00:00:00Z"})
    assert make(every="1h", old=late) == late.raw


def test_windows_go_with_the_full_form_and_come_back() -> None:
    full = {"type": "cron", "expression": "0 9 * * *", "tz": "UTC", "dst": "vixie"}
    spec = read_definition(
        {"name": "a", "function": "f", "trigger": {**full, "ends_at": "2026-02-01T00:00:00+01:00"}}, now=NOW
    )
    plain = plain_from_spec(spec)
    assert plain["trigger"] == {**full, "starts_at": None, "ends_at": "2026-01-31T23:00:00+00:00"}
    assert spec_from_plain(plain) == spec
    assert read_definition(plain, now=NOW) == spec
    assert plain_from_spec(read_definition({**plain, "trigger": full}, now=NOW))["trigger"] == full


def test_a_patch_changes_moves_and_removes_a_window() -> None:
    spec = read_definition({"name": "a", "function": "f", "cron": "0 9 * * *"}, now=NOW)
    ended = edit_definition(spec, {"ends_at": "2026-02-01T00:00:00Z"}, now=NOW)
    assert ended.trigger == Windowed(Cron("0 9 * * *"), None, datetime(2026, 2, 1, tzinfo=UTC))
    assert edit_definition(ended, {"cron": "0 8 * * *"}, now=NOW).trigger == Windowed(
        Cron("0 8 * * *"), None, datetime(2026, 2, 1, tzinfo=UTC)
    )
    assert edit_definition(ended, {"ends_at": None}, now=NOW) == spec
    assert edit_definition(ended, {"every": "1h"}, now=NOW).trigger == Interval(HOUR, NOW)


def test_a_job_whose_end_has_passed_may_be_defined_again_as_it_is() -> None:
    fields = {"name": "a", "function": "f", "cron": "H 9 * * *", "ends_at": "2026-02-01T00:00:00Z"}
    spec = read_definition(fields, now=NOW)
    assert read_definition(fields, now=NOW + 90 * DAY, old=spec.trigger) == spec
    with pytest.raises(InvalidInput, match=r"^ends_at: leaves no fire"):
        read_definition(fields, now=NOW + 90 * DAY)


@pytest.mark.parametrize(
    "short",
    [
        {"run_at": "2025-12-24T09:00:00Z"},
        {"schedule": "2025-12-24 09:00 Europe/Berlin"},
        {"trigger": {"type": "once", "at": "2025-12-24T09:00:00Z"}},
        {"cron": "H 9 * * *", "ends_at": "2025-12-24T00:00:00Z"},
        {"every": "1h", "ends_at": "2025-12-24T00:00:00Z"},
        {"calendar_interval": "2 weeks", "ends_at": "2025-12-24T00:00:00Z"},
        {"any_of": [{"run_at": "2025-12-24T09:00:00Z"}]},
        {"any_of": [{"run_at": "2025-12-24T09:00:00Z"}, "hourly"], "ends_at": "2025-12-25T00:00:00Z"},
    ],
)
def test_a_definition_that_is_as_old_as_code_may_be_over(short: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        make(**short)
    over = read_trigger(short, base=None, old=None, now=NOW, may_be_over=True)
    assert over is not None
    assert over.next_after(NOW) is None
    assert read_trigger(short, base=None, old=over, now=NOW + DAY, may_be_over=True) == over


def test_a_union_of_which_a_part_is_over_counts_its_intervals_from_now() -> None:
    short = {"any_of": [{"run_at": "2025-12-24T09:00:00Z"}, {"every": "10d"}]}
    union = read_trigger(short, base=None, old=None, now=NOW, may_be_over=True)
    assert union is not None
    assert next_fires(union, NOW, 1) == [NOW + 10 * DAY]
    longer = {"any_of": [*short["any_of"], {"run_at": "2025-12-31T09:00:00Z"}]}
    again = read_trigger(longer, base=None, old=union, now=NOW + DAY, may_be_over=True)
    assert again is not None
    assert next_fires(again, NOW + DAY, 1) == [NOW + 10 * DAY]


@pytest.mark.parametrize(
    ("short", "message"),
    [
        ({"cron": "61 * * * *", "ends_at": "2025-12-24T00:00:00Z"}, "^cron: minute"),
        ({"cron": "0 0 29 2 *", "ends_at": "1970-01-02T00:00:00Z"}, "the first would be at 2028-02-29"),
    ],
)
def test_what_was_always_wrong_is_refused_as_ever(short: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_trigger(short, base=None, old=None, now=NOW, may_be_over=True)


@pytest.mark.parametrize(
    ("short", "field", "said"),
    [
        (
            {"cron": "0 9 * * *", "ends_at": "2026-01-21T08:00:00Z"},
            "ends_at",
            "the first would be at 2026-01-21T09:00",
        ),
        (
            {"cron": "0 9 * * *", "starts_at": "2026-03-01T00:00:00Z", "ends_at": "2026-02-01T00:00:00Z"},
            "ends_at",
            "must not be before starts_at",
        ),
        (
            {"run_at": "in 10m", "ends_at": "2026-03-01T00:00:00Z"},
            "ends_at",
            "a trigger that recurs, not with run_at",
        ),
        ({"ends_at": "2026-03-01T00:00:00Z"}, "ends_at", "goes with a trigger"),
        ({"cron": None, "ends_at": "2026-03-01T00:00:00Z"}, "ends_at", "none is given"),
        ({"cron": "0 9 * * *", "starts_at": "soon"}, "starts_at", "not an instant"),
        (
            {"trigger": {"type": "cron", "expression": "0 9 * * *"}, "ends_at": "2026-03-01T00:00:00Z"},
            "ends_at",
            "write it into the trigger",
        ),
    ],
)
def test_refusals_of_windows(short: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        make(**short)
    assert refused.value.field == field
    assert said in refused.value.message


def test_backfills_reach_back_within_the_window_and_the_union() -> None:
    made = AnyOf((Interval(HOUR, NOW), Windowed(Interval(DAY, NOW), NOW - 5 * DAY)))
    back = reach_back(made)
    assert back.previous_before(NOW) == NOW - HOUR
    assert isinstance(back, AnyOf)
    assert back.triggers[1].previous_before(NOW - 5 * DAY) is None
    assert back.triggers[1].next_after(NOW - 9 * DAY) == NOW - 5 * DAY
