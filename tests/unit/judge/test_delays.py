"""L1 to L3: away from faults, what is due is fired and started at once, and what is lost comes back in time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.model import FireRangeKind
from mainspring.core.triggers import Once
from mainspring.testing.factories import at
from tests.unit.judge.histories import Story, every, grace, seconds
from tools.judge.delays import Times


def fired(late: float) -> Story:
    story = Story()
    story.fire(story.job(every(40)), 40, late=late)
    return story


def started(late: float, **facts: Any) -> Story:
    story = Story()
    run_id = story.submit(story.job(), 40, "waiting", **facts)
    story.attempt(run_id, "done", after=seconds(late))
    return story


# -- L2: fires -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("late", "rules"), [(0, set()), (1.9, set()), (2.1, {"L2"}), (15, {"L2"})])
def test_fire_is_made_at_once(late: float, rules: set[str]) -> None:
    assert fired(late).broken == rules


@pytest.mark.parametrize(
    ("start", "end", "rules"),
    [(39, 40, set()), (41, 42, set()), (30, 32, set()), (20, 30, {"L2"}), (42.1, 44, {"L2"})],
)
def test_fire_near_a_fault_may_be_late(start: float, end: float, rules: set[str]) -> None:
    story = fired(5)
    story.fault(start, end)
    assert story.broken == rules


def test_fire_that_is_skipped_late() -> None:
    story = Story()
    story.fire(story.job(every(40), misfire=grace(1, "skip")), 40, late=5, reason="misfire")
    assert story.broken == {"L2"}


@pytest.mark.parametrize("reason", ["misfire", "edited"])
def test_fires_that_come_into_a_fire_range_late(reason: str) -> None:
    story = Story()
    job = story.job(every(10), misfire=grace(1 if reason == "misfire" else 60, "fire_all"))
    story.fires(job, 10)
    fire_range = story.catch_up(job, 20, 30, reason, when=36)
    story.make_up(job, fire_range, 20, 36.1)
    story.make_up(job, fire_range, 30, 36.1)
    story.fires(job, 40, 50)
    assert story.broken == {"L2"}
    story.fault(15, 30)
    assert story.broken == set()


def test_pause_does_not_hide_what_was_late() -> None:
    story = Story()
    job = story.job(every(10))
    story.fires(job, 10)
    story.pause(job, 35)
    story.gap(job, 20, None, "paused", when=35)
    assert story.broken == {"L2"}


def test_once_is_owed_from_its_creation() -> None:
    story = Story()
    job = story.job(Once(at(-100)), when=20)
    story.fire(job, -100, late=121)
    assert story.broken == set()
    late = Story()
    late.fire(late.job(Once(at(-100)), when=20), -100, late=123)
    assert late.broken == {"L2"}


def test_edit_does_not_excuse_a_late_fire() -> None:
    story = Story()
    job = story.job(every(40))
    story.edit(job, 44, timeout=seconds(9))
    story.fire(job, 40, late=5)
    assert story.broken == {"L2"}


# -- L1: starts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("late", "rules"), [(0, set()), (1.9, set()), (2.1, {"L1"})])
def test_run_is_started_at_once(late: float, rules: set[str]) -> None:
    assert started(late).broken == rules


def test_delayed_run_is_timed_from_its_due_instant() -> None:
    assert started(0.1, due_at=at(50)).broken == set()
    assert started(2.1, due_at=at(50)).broken == {"L1"}


def test_start_near_a_fault_may_be_late() -> None:
    story = started(5)
    story.fault(30, 32)
    assert story.broken == set()


@pytest.mark.parametrize(("busy", "rules"), [(9, {"L1"}), (10, set())])
def test_start_may_be_late_where_there_is_no_room(busy: int, rules: set[str]) -> None:
    story = started(5)
    for _ in range(busy - 1):  # the late run itself is the last of them
        story.attempt(story.submit(story.job(), 39, "waiting"), "done", work=seconds(10))
    assert story.broken == rules


def test_run_that_is_carried_out_alone_leaves_no_room() -> None:
    story = started(5)
    run_id = story.submit(story.job(), 34, "lost", "waiting")
    story.attempt(run_id, "done", work=seconds(6))
    assert story.broken == set()


@pytest.mark.parametrize(("waits", "rules"), [(20, set()), (2, {"L1"})])
def test_worker_empties_itself_for_a_run_that_was_lost(waits: float, rules: set[str]) -> None:
    story = started(5)
    run_id = story.submit(story.job(), 24, "lost", "waiting")
    story.attempt(run_id, "done", after=seconds(waits))
    assert story.broken == rules


def test_run_that_expires_though_there_was_room() -> None:
    story = Story()
    run_id = story.submit(story.job(expires_after=seconds(5)), 40, "waiting")
    story.expire(run_id, 45)
    assert story.broken == {"L1"}


def test_run_that_expires_within_the_bound() -> None:
    story = Story()
    run_id = story.submit(story.job(expires_after=seconds(1)), 40, "waiting")
    story.expire(run_id, 41.1)
    assert story.broken == set()


# -- L3: losses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("after", "rules"), [(8.9, set()), (9.2, {"L3"})])
def test_loss_is_found_within_three_leases(after: float, rules: set[str]) -> None:
    story = Story()
    run_id = story.submit(story.job(), 10, "lost", "waiting")
    story.alter_attempt(run_id, 0, finished_at=at(10.1 + after))
    story.alter(run_id, ready_at=at(10.1 + after))
    story.attempt(run_id, "done")
    story.history.events.clear()
    assert story.broken == rules


def test_loss_during_faults_is_timed_from_their_end() -> None:
    story = Story()
    run_id = story.submit(story.job(), 10, "lost", "waiting")
    story.fault(12, 20)
    story.alter_attempt(run_id, 0, finished_at=at(28))
    story.alter(run_id, ready_at=at(28))
    story.attempt(run_id, "done")
    story.history.events.clear()
    assert story.broken == set()
    story.history.faults[0] = replace(story.history.faults[0], until=at(18))
    assert story.broken == {"L3"}


def test_lease_that_was_never_begun_comes_back_in_time() -> None:
    story = Story()
    run_id = story.submit(story.job(), 10, "waiting")
    story.attempt(run_id, "handed_back", work=seconds(9.2))
    story.attempt(run_id, "done")
    assert story.broken == set()
    del story.history.effects[0]
    assert "L3" in story.broken


def test_work_may_take_long() -> None:
    story = Story()
    run_id = story.submit(story.job(), 10, "waiting")
    story.attempt(run_id, "failed", work=seconds(30))
    story.attempt(run_id, "done")
    assert story.broken == set()


def test_backfills_are_not_timed() -> None:
    story = Story()
    job = story.job()
    story.fire_range(job, FireRangeKind.BACKFILL, 10, 20, "backfill", when=50)
    assert story.broken == set()


# -- periods of time, each asked about by itself -------------------------------------------------------

PERIOD = st.tuples(st.integers(0, 30), st.integers(0, 10)).map(lambda pair: (at(pair[0]), at(sum(pair))))


@given(st.lists(PERIOD, max_size=8), PERIOD)
def test_periods_meet_as_if_each_were_compared(periods: list[Any], asked: Any) -> None:
    begin, end = asked
    assert Times(periods).meet(begin, end) == any(a <= end and begin <= b for a, b in periods)
