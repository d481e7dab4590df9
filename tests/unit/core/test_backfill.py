"""What a backfill makes: its sections, its plan, and its steps."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.backfill import (
    BackfillDefinition,
    BackfillOptions,
    BackfillPlan,
    BackfillWork,
    Section,
    SkipDone,
    VersionTime,
    cut_sections,
    done_states,
    plan_backfill,
    plan_step,
    reach_back,
    room_of,
    walk_section,
)
from mainspring.core.backfill_settings import BackfillLimits, read_backfill
from mainspring.core.ids import BackfillId, FireRangeId, JobId, job_shard, make_backfill_id
from mainspring.core.model import FireRange, FireRangeKind, Priority
from mainspring.core.rates import Rate
from mainspring.core.states import RunState
from mainspring.core.triggers import Interval, Once, Trigger
from mainspring.errors import InvalidInput

START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
TICK = timedelta(microseconds=1)
MINUTES = Interval(timedelta(minutes=1), START)


def at(seconds: float) -> datetime:
    return START + seconds * SECOND


def whole_plan(
    sections: Sequence[Section],
    triggers: dict[int, Trigger],
    done: set[datetime] | None = None,
    most: int = 10_000,
) -> BackfillPlan:
    plans = list(plan_backfill(sections, triggers, done or set(), most=most))
    return plans[-1]


# -- sections --------------------------------------------------------------------------------------------------


@given(
    changes=st.lists(st.integers(-50, 150), min_size=1, max_size=6, unique=True).map(sorted),
    low=st.integers(0, 60),
    length=st.integers(1, 60),
)
def test_sections_cover_each_instant_once_by_the_version_of_its_time(
    changes: list[int], low: int, length: int
) -> None:
    versions = [VersionTime(number, at(second)) for number, second in enumerate(changes, 1)]
    sections = cut_sections(versions, at(low), at(low + length), BackfillDefinition.THEN)
    for tenth in range(low * 10, (low + length) * 10):
        instant = at(tenth / 10)
        holding = [one.version for one in versions if one.created_at < instant]
        covering = [one.version for one in sections if one.from_at <= instant <= one.to_at]
        assert covering == [holding[-1] if holding else 1]
    assert sections[0].from_at == at(low)
    assert sections[-1].to_at == at(low + length) - TICK


def test_newest_definition_makes_one_section() -> None:
    versions = [VersionTime(1, at(0)), VersionTime(2, at(30))]
    sections = cut_sections(versions, at(10), at(60), BackfillDefinition.NOW)
    assert sections == [Section(2, at(10), at(60) - TICK)]


def test_fire_at_the_instant_of_an_edit_is_of_the_version_before() -> None:
    versions = [VersionTime(1, at(0)), VersionTime(2, at(30))]
    before, after = cut_sections(versions, at(10), at(60), BackfillDefinition.THEN)
    assert (before.to_at, after.from_at) == (at(30), at(30) + TICK)


# -- triggers --------------------------------------------------------------------------------------------------


@given(every=st.integers(1, 10_000), anchor=st.integers(0, 10**9), back=st.integers(0, 10**7))
def test_interval_reaches_back_at_the_same_distances(every: int, anchor: int, back: int) -> None:
    trigger = Interval(every * SECOND, datetime(1971, 1, 1, tzinfo=UTC) + anchor * SECOND)
    reaching = reach_back(trigger)
    assert isinstance(reaching, Interval)
    fire = reaching.next_after(trigger.anchor - min(back, anchor) * SECOND)
    assert fire is not None
    assert (fire - trigger.anchor) % trigger.every == timedelta(0)
    assert reaching.next_after(trigger.anchor) == trigger.next_after(trigger.anchor)


def test_other_triggers_stay_as_they_are() -> None:
    once = Once(at(5))
    assert reach_back(once) is once


# -- plans -----------------------------------------------------------------------------------------------------


def test_plan_counts_by_version_and_shows_the_first_that_are_not_done() -> None:
    sections = [Section(1, at(0), at(300)), Section(2, at(301), at(3000))]
    done = {at(60), at(120), at(360)}
    plan = whole_plan(sections, {1: MINUTES, 2: MINUTES}, done)
    assert (plan.fires, plan.done, plan.excluded) == (50, 3, 0)
    assert plan.versions == {1: 5, 2: 45}
    assert plan.first == [at(second) for second in (180, 240, 300, *range(420, 780 + 60, 60))]
    assert plan.sections == sections


def test_section_without_fires_or_without_a_trigger_is_no_section() -> None:
    sections = [Section(1, at(1), at(50)), Section(2, at(51), at(110)), Section(3, at(111), at(130))]
    plan = whole_plan(sections, {1: MINUTES, 3: MINUTES})
    assert (plan.fires, plan.sections) == (1, [sections[2]])


def test_plan_of_too_many_fires_is_refused() -> None:
    section = Section(1, at(0), at(3600))
    assert whole_plan([section], {1: MINUTES}, most=60).fires == 60
    with pytest.raises(InvalidInput, match="more than 59 fires"):
        whole_plan([section], {1: MINUTES}, most=59)


# -- steps -----------------------------------------------------------------------------------------------------


@given(
    done=st.sets(st.integers(1, 40)),
    rooms=st.lists(st.integers(1, 7), min_size=1),
    looks=st.integers(1, 9),
)
def test_steps_make_what_the_plan_says_each_once(done: set[int], rooms: list[int], looks: int) -> None:
    section = Section(1, at(0), at(40 * 60))
    done_fires = {at(60 * number) for number in done}
    plan = whole_plan([section], {1: MINUTES}, done_fires)
    made: list[datetime] = []
    skipped, cursor, number = 0, None, 0
    while True:
        fires = list(walk_section(section, MINUTES, cursor))
        is_end = len(fires) <= looks
        step = plan_step(
            fires[:looks], done_fires, rooms[number % len(rooms)], ends_at=section.to_at if is_end else None
        )
        number += 1
        assert step is not None
        assert len(step.fires) <= rooms[(number - 1) % len(rooms)]
        made += step.fires
        skipped += step.skipped
        assert cursor is None or step.cursor_to >= cursor
        cursor = step.cursor_to
        if step.is_section_done:
            break
    assert len(made) == len(set(made)) == plan.fires - plan.done
    assert not done_fires & set(made)
    assert skipped == plan.done
    assert made[:10] == plan.first


def test_without_room_a_step_skips_only_what_is_done() -> None:
    step = plan_step([at(1), at(2), at(3)], {at(1)}, 0, ends_at=None)
    assert step is not None
    assert (step.fires, step.skipped, step.cursor_to) == ((), 1, at(1))
    assert plan_step([at(2), at(3)], {at(1)}, 0, ends_at=at(9)) is None


@pytest.mark.parametrize(
    ("live", "is_busy", "is_alone", "room"),
    [
        (0, False, False, 5),
        (8, True, False, 2),
        (10, True, False, 0),
        (12, True, False, 0),
        (0, False, True, 1),
        (0, True, True, 0),
    ],
)
def test_room_is_what_rate_and_live_runs_leave(live: int, is_busy: bool, is_alone: bool, room: int) -> None:
    options = BackfillOptions(rate=Rate(5, SECOND), max_live=10)
    section = FireRange(
        id=FireRangeId(1),
        job_id=JobId(UUID(int=1)),
        tenant="default",
        version=1,
        kind=FireRangeKind.BACKFILL,
        from_at=at(0),
        to_at=at(1),
        cursor_at=None,
        reason="backfill",
        is_open=True,
        created_at=at(0),
    )
    work = BackfillWork(
        id=BackfillId(UUID(int=2)),
        options=options,
        section=section,
        is_last=True,
        level=None,
        level_at=None,
        live=live,
        is_job_busy=is_busy,
    )
    assert room_of(work, options.pace.permits(None, None, at(0)), is_alone=is_alone) == room


def test_skipped_runs_never_make_a_fire_done() -> None:
    assert done_states(SkipDone.NONE) == frozenset()
    assert RunState.SKIPPED not in done_states(SkipDone.ANY)
    assert {RunState.FAILED, RunState.CANCELLED} <= done_states(SkipDone.ANY)
    assert {RunState.FAILED, RunState.CANCELLED}.isdisjoint(done_states(SkipDone.SUCCEEDED))
    assert {RunState.SUCCEEDED, RunState.RUNNING, RunState.PENDING} <= done_states(SkipDone.SUCCEEDED)


# -- what users say --------------------------------------------------------------------------------------------

RANGE = {"from": "2025-12-01T00:00Z", "to": "2025-12-31T00:00Z"}


def test_defaults_are_the_servers() -> None:
    request = read_backfill(RANGE, BackfillLimits(), now=START)
    assert (request.options.rate, request.options.max_live) == (Rate(50, SECOND), 100)
    assert (request.options.skip_done, request.options.definition) == ("succeeded", "then")
    assert (request.options.priority, request.options.note, request.is_dry_run) == (Priority.LOW, "", False)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "from"),
        ({"from": "2025-12-01T00:00Z"}, "to"),
        ({**RANGE, "to": "2025-12-01T00:00Z"}, "to"),
        ({**RANGE, "to": "2026-01-01T00:00:01Z"}, "to"),
        ({**RANGE, "from": "2025-12-01"}, "from"),
        ({**RANGE, "rate": "0/s"}, "rate"),
        ({**RANGE, "rate": 5}, "rate"),
        ({**RANGE, "max_live": 0}, "max_live"),
        ({**RANGE, "skip_done": "failed"}, "skip_done"),
        ({**RANGE, "definition": 3}, "definition"),
        ({**RANGE, "priority": "URGENT"}, "priority"),
        ({**RANGE, "dry_run": "yes"}, "dry_run"),
        ({**RANGE, "note": ""}, "note"),
        ({**RANGE, "dryrun": True}, "dryrun"),
    ],
)
def test_wrong_field_is_named(body: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_backfill(body, BackfillLimits(), now=START)
    assert caught.value.field == field


def test_id_of_a_backfill_has_the_shard_of_its_job() -> None:
    job_id = JobId(UUID(int=0x1234))
    assert make_backfill_id(UUID(int=2**100 + 0xFF), job_id).int & 0xFF == job_shard(job_id)
