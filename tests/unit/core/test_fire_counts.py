"""The maximum of fires: what is read and refused, and how plans and previews keep to what is left."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.calendars.preview import preview_fires
from mainspring.core.clocks import NextFire
from mainspring.core.definition import (
    edit_definition,
    plain_from_spec,
    read_definition,
    read_timing,
    spec_from_plain,
)
from mainspring.core.definition.short import shorten_definition
from mainspring.core.fire_counts import keeps_count, limit_plan, settle_count, take_left
from mainspring.core.ids import FireRangeId
from mainspring.core.ledger import balance_fires
from mainspring.core.model import FireRange, FireRangeKind, JobSpec, Misfire, MisfireRule
from mainspring.core.planning import PlannedRange, plan_fires, walk_range
from mainspring.core.triggers import AtStart, Interval, UnknownTrigger
from mainspring.core.triggers.words import tell_count
from mainspring.errors import InvalidInput
from mainspring.testing.factories import START, IdSequence, at, make_spec

JOB = IdSequence(7).new_job_id()
TEN = timedelta(seconds=10)
EVERY_TEN = Interval(TEN, START)


def read(**fields: Any) -> JobSpec:
    return read_definition({"name": "one", "function": "work", **fields}, now=START)


def refusal(read_it: Any) -> tuple[str, str]:
    with pytest.raises(InvalidInput) as refused:
        read_it()
    return refused.value.field, refused.value.message


def test_maximum_is_kept_and_shown() -> None:
    spec = read(every="10s", max_fires=5)
    plain = plain_from_spec(spec)
    assert (spec.max_fires, plain["max_fires"], spec_from_plain(plain)) == (5, 5, spec)
    assert shorten_definition(plain)["max_fires"] == 5
    assert "max_fires" not in shorten_definition(plain_from_spec(read(every="10s")))
    del plain["max_fires"]  # as an earlier release kept it
    assert spec_from_plain(plain).max_fires is None


@pytest.mark.parametrize("wrong", [0, -1, 10_001, 1.5, "many", True])
def test_maximum_is_a_whole_number_within_bounds(wrong: object) -> None:
    field, message = refusal(lambda: read(every="10s", max_fires=wrong))
    assert field == "max_fires"
    assert "10000" in message.replace(",", "")


@pytest.mark.parametrize(
    ("trigger", "part"),
    [
        ({"run_at": "in 10m"}, "not with run_at"),
        ({"schedule": "@reboot"}, "not with at_start"),
        ({}, "goes with a trigger; give one of cron, "),
    ],
)
def test_maximum_needs_a_trigger_that_recurs_by_a_rule(trigger: dict[str, Any], part: str) -> None:
    field, message = refusal(lambda: read(**trigger, max_fires=5))
    assert (field, message.endswith("leave max_fires out")) == ("max_fires", True)
    assert part in message
    if trigger:
        assert refusal(lambda: read_timing({**trigger, "max_fires": 5}, now=START)) == (field, message)


def test_edit_that_leaves_nothing_to_count_says_what_to_do() -> None:
    spec = read(every="10s", max_fires=5)
    for patch in ({"run_at": "in 10m"}, {"trigger": None}):
        field, message = refusal(lambda patch=patch: edit_definition(spec, patch, now=START))
        assert (field, message.endswith("set max_fires to null, too")) == ("max_fires", True)
        edited = edit_definition(spec, {**patch, "max_fires": None}, now=START)
        assert edited.max_fires is None


def test_maximum_stays_with_a_trigger_of_a_type_that_is_unknown_here() -> None:
    unknown = UnknownTrigger({"type": "tides"})
    spec = replace(read(every="10s", max_fires=5), trigger=unknown)
    assert edit_definition(spec, {"queue": "mail"}, now=START).max_fires == 5


@pytest.mark.parametrize(
    "name", ["max_runs", "repeat_count", "repeatCount", "count", "repeats", "max_executions"]
)
def test_names_of_other_schedulers_lead_to_ours(name: str) -> None:
    field, message = refusal(lambda: read(every="10s", **{name: 5}))
    assert field == name
    assert "max_fires" in message


def test_maximum_is_told_in_words() -> None:
    assert [tell_count(count) for count in (None, 1, 5, 10_000)] == [
        "",
        ", once",
        ", 5 times",
        ", 10,000 times",
    ]


def test_count_goes_on_unless_the_trigger_or_the_maximum_changes() -> None:
    old = read(every="10s", max_fires=5)
    assert keeps_count(old, replace(old, queue="mail"))
    assert not keeps_count(old, replace(old, max_fires=6))
    assert not keeps_count(old, replace(old, trigger=Interval(2 * TEN, START)))


def plan(spec: JobSpec, fire_at: datetime, now: datetime, left: int) -> Any:
    planned = plan_fires(spec, JOB, NextFire(fire_at, fire_at), now=now)
    assert planned is not None
    assert spec.trigger is not None
    return limit_plan(planned, spec.trigger, left, why=lambda _: None)


def test_last_fire_leaves_the_clock_without_a_next_one() -> None:
    spec = make_spec(trigger=EVERY_TEN)
    planned, left = plan(spec, at(10), at(10), 2)
    assert (planned.fires, planned.next_fire_at, left) == ((at(10),), at(20), 1)
    planned, left = plan(spec, at(20), at(20), 1)
    assert (planned.fires, planned.next_fire_at, planned.fired_through, left) == ((at(20),), None, at(20), 0)


def test_fire_that_a_pause_leaves_out_does_not_count() -> None:
    planned = plan_fires(make_spec(trigger=EVERY_TEN), JOB, NextFire(at(10), at(10)), now=at(10))
    assert planned is not None
    assert limit_plan(planned, EVERY_TEN, 1, why=lambda _: "paused") == (planned, 1)


def test_catch_up_ends_with_the_last_fire_that_is_left() -> None:
    rule = MisfireRule(policy=Misfire.FIRE_ALL, grace=timedelta(seconds=1))
    spec = make_spec(trigger=EVERY_TEN, misfire=rule)
    planned, left = plan(spec, at(10), at(100.5), 3)
    assert planned.ranges == (PlannedRange(FireRangeKind.CATCH_UP, at(10), at(30), "misfire"),)
    assert (planned.fired_through, planned.next_fire_at, left) == (at(30), None, 0)
    planned, left = plan(spec, at(10), at(100.5), 12)
    assert (planned.ranges[0].to_at, planned.next_fire_at, left) == (at(90), at(100), 3)


def test_caught_up_fires_that_a_pause_leaves_out_do_not_count() -> None:
    rule = MisfireRule(policy=Misfire.FIRE_ALL, grace=timedelta(seconds=1))
    planned = plan_fires(
        make_spec(trigger=EVERY_TEN, misfire=rule), JOB, NextFire(at(10), at(10)), now=at(95)
    )
    assert planned is not None
    limited, left = limit_plan(
        planned,
        EVERY_TEN,
        3,
        why=lambda fire_at: "paused" if fire_at <= at(30) or fire_at == at(50) else None,
    )
    catch_up = PlannedRange(FireRangeKind.CATCH_UP, at(40), at(40), "misfire")
    assert limited.ranges == (
        PlannedRange(FireRangeKind.GAP, at(10), at(30), "paused"),
        catch_up,
        replace(catch_up, from_at=at(60), to_at=at(70)),
    )
    assert (limited.skips, left) == (((at(50), "paused"),), 0)


def test_what_an_edit_settles_ends_with_the_last_fire_that_is_left() -> None:
    gap = PlannedRange(FireRangeKind.GAP, at(10), at(30), "misfire")
    owed = (
        gap,
        PlannedRange(FireRangeKind.CATCH_UP, at(40), at(60), "misfire"),
        PlannedRange(FireRangeKind.CATCH_UP, at(70), at(90), "edited"),
        replace(gap, from_at=at(100), to_at=at(120)),
    )
    assert settle_count(EVERY_TEN, owed, 7) == (owed, 1)
    assert settle_count(EVERY_TEN, owed, 4) == ((*owed[:2], replace(owed[2], to_at=at(70))), 0)
    assert settle_count(EVERY_TEN, owed, 3) == (owed[:2], 0)
    assert settle_count(EVERY_TEN, owed, None) == (owed, None)
    assert settle_count(None, (), 3) == ((), 3)


@given(
    policy=st.sampled_from(Misfire),
    grace=st.sampled_from([0, 5, 25]),
    max_count=st.sampled_from([1, 3, 100]),
    max_fires=st.integers(1, 12),
    steps=st.lists(st.integers(1, 90), min_size=1, max_size=40),
    skipped=st.sets(st.integers(1, 60), max_size=10),
)
def test_every_fire_up_to_the_last_is_on_record_and_none_after_it(
    policy: Misfire, grace: int, max_count: int, max_fires: int, steps: list[int], skipped: set[int]
) -> None:
    """A clock that is looked at at odd times: what runs is counted exactly, and the ledger is even."""
    rule = MisfireRule(policy=policy, grace=timedelta(seconds=grace), max_count=max_count)
    spec = make_spec(trigger=EVERY_TEN, misfire=rule)
    left_out = {at(10 * number) for number in skipped}
    now, left = START, max_fires
    clock: datetime | None = at(10)
    made: list[datetime] = []
    records: list[datetime] = []
    gaps: list[FireRange] = []
    fired_through = START
    for step in steps:
        now += timedelta(seconds=step)
        while clock is not None and clock <= now:
            planned = plan_fires(spec, JOB, NextFire(clock, clock), now=now)
            assert planned is not None
            planned, left = limit_plan(
                planned, EVERY_TEN, left, why=lambda fire_at: "paused" if fire_at in left_out else None
            )
            records += [instant for instant, _ in planned.skips]
            caught_up = [
                instant
                for one in planned.ranges
                if one.kind is FireRangeKind.CATCH_UP
                for instant in walk_range(EVERY_TEN, one.from_at, one.to_at, None)
            ]
            records += [*planned.fires, *caught_up]
            made += [instant for instant in (*planned.fires, *caught_up) if instant not in left_out]
            gaps += [
                FireRange(
                    id=FireRangeId(0),
                    job_id=JOB,
                    version=1,
                    tenant="",
                    kind=one.kind,
                    from_at=one.from_at,
                    to_at=one.to_at,
                    cursor_at=None,
                    reason=one.reason,
                    is_open=False,
                    created_at=now,
                )
                for one in planned.ranges
                if one.kind is FireRangeKind.GAP
            ]
            fired_through, clock = planned.fired_through, planned.next_fire_at
    assert len(made) == max_fires - left
    assert (clock is None) == (left == 0)
    assert left or fired_through == made[-1]
    assert balance_fires(EVERY_TEN, at(1), fired_through, recorded=records, fire_ranges=gaps).is_even
    assert balance_fires(EVERY_TEN, fired_through, now, recorded=records[:-1]).surplus == ()


def test_preview_shows_no_more_than_is_left() -> None:
    shown = preview_fires(EVERY_TEN, START, 5)
    marked = [
        shown[0],
        replace(shown[1], skipped_by="off@1"),
        replace(shown[2], excluded_by="off@1"),
        *shown[3:],
    ]
    assert take_left(shown, EVERY_TEN, None, now=START, after=START) == shown
    assert take_left(shown, EVERY_TEN, 9, now=START, after=START) == shown
    assert take_left(shown, EVERY_TEN, 2, now=START, after=START) == shown[:2]
    assert take_left(shown, EVERY_TEN, 0, now=START, after=START) == []
    assert take_left(marked, EVERY_TEN, 2, now=START, after=START) == marked[:4]


def test_preview_from_a_later_instant_leaves_out_what_is_used_up_until_then() -> None:
    shown = preview_fires(EVERY_TEN, at(30), 5)
    assert take_left(shown, EVERY_TEN, 5, now=START, after=at(30)) == shown[:2]
    assert take_left(shown, EVERY_TEN, 3, now=START, after=at(30)) == []
    assert take_left(shown, EVERY_TEN, 5, now=at(60), after=at(30)) == shown


def test_preview_of_a_trigger_that_tells_no_fires_stays_empty() -> None:
    for trigger in (AtStart(), UnknownTrigger({"type": "tides"})):
        assert take_left(preview_fires(trigger, START, 5), trigger, 3, now=START, after=at(30)) == []
