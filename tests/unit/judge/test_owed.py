"""When a fire is owed that its job's jitter holds back: L1, L2, S1 and S20 count from there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mainspring.core.ids import JobId
from mainspring.core.model import FireRangeKind
from mainspring.core.triggers import Once
from mainspring.testing.factories import at
from tests.unit.judge.histories import Story, closed_fires, every, grace, seconds

JITTER = seconds(5)


def held_back(*, until: float, committed: float, **spec: Any) -> Story:
    """Tell of a fire at 40 s, held back until then, that is committed then."""
    story = Story()
    job = story.job(every(40), jitter=JITTER, **spec)
    story.fire(job, 40, late=committed - 40, due_at=at(until))
    return story


@pytest.mark.parametrize(
    ("committed", "rules"), [(40, {"L1"}), (43.9, {"L1"}), (44, set()), (45.9, set()), (46.1, {"L2"})]
)
def test_fire_is_committed_at_its_jittered_instant(committed: float, rules: set[str]) -> None:
    assert held_back(until=44, committed=committed, misfire=grace(60, "skip")).broken == rules


def test_newest_of_several_may_be_committed_early() -> None:
    assert held_back(until=44, committed=40, misfire=grace(60)).broken == set()


@pytest.mark.parametrize(("committed", "rules"), [(45.5, set()), (44.5, set()), (47.1, {"L2", "S20"})])
def test_grace_counts_from_the_jittered_instant(committed: float, rules: set[str]) -> None:
    assert held_back(until=44, committed=committed, misfire=grace(3, "skip")).broken == rules


def test_fire_whose_jitter_is_longer_than_its_period_is_committed_when_the_next_one_comes() -> None:
    story = Story()
    job = story.job(every(2), jitter=seconds(30), misfire=grace(60, "skip"))
    for instant in range(2, 60, 2):
        story.fire(job, instant, late=2, due_at=at(instant + 25))
    assert story.broken == set()


@pytest.mark.parametrize(("instant", "rules"), [(50, {"S1"}), (53, set())])
def test_fire_that_may_still_be_held_back_need_not_be_on_record(instant: float, rules: set[str]) -> None:
    story = Story()
    story.job(every(instant), jitter=JITTER)
    assert story.broken == rules


def test_fire_that_an_edit_lets_go_is_owed_from_then_on() -> None:
    story = Story()
    job = story.job(every(40), jitter=JITTER, misfire=grace(1, "skip"))
    story.edit(job, 44, jitter=seconds(0))
    story.fire(job, 40, late=4.02)
    assert story.broken == set()


def test_instant_that_has_passed_when_the_job_is_made_is_owed_from_then_on() -> None:
    story = Story()
    job = story.job(Once(at(5)), when=30)
    story.fire(job, 5, late=25.02)
    assert story.broken == set()


def test_fire_range_of_a_fire_that_was_held_back_is_not_late() -> None:
    story = Story()
    job = story.job(every(40), jitter=JITTER, misfire=grace(1, "skip"))
    story.edit(job, 44, trigger=every(100))
    caught_up = story.fire_range(job, FireRangeKind.CATCH_UP, 40, 40, "edited", when=44, version=1)
    story.make_up(job, caught_up, 40, 44.5)
    story.history.runs[-1] = replace(story.history.runs[-1], version=1)
    assert story.broken == set()


# -- fires that a calendar keeps out: one record of those in a row, made when the last of them has passed -------------


def kept_out(recorded: float, *, through: float = 30) -> tuple[Story, JobId]:
    """Tell of a calendar that keeps out the fires from 20 to 40 s, and of one record of those up to an instant."""
    story = Story()
    job = story.job(closed_fires(every(10), (15, 45)))
    story.fires(job, 10)
    story.fire_range(job, FireRangeKind.GAP, 20, through, "calendar:closed@1", when=recorded)
    return story, job


@pytest.mark.parametrize(("recorded", "rules"), [(40.1, set()), (41.9, set()), (42.1, {"L2"})])
def test_fires_that_a_calendar_keeps_out_are_recorded_with_the_last_in_a_row(
    recorded: float, rules: set[str]
) -> None:
    story, job = kept_out(recorded, through=40)
    story.fires(job, 50)
    assert story.broken == rules


@pytest.mark.parametrize(("recorded", "rules"), [(35, set()), (36.9, set()), (37.1, {"L2"})])
def test_calendar_that_ends_a_row_before_its_time_has_it_recorded(recorded: float, rules: set[str]) -> None:
    story, job = kept_out(recorded)
    story.write_calendar(job, 35)
    story.fires(job, 40, 50)
    assert story.broken == rules


def test_pause_ends_a_row_before_its_time_too() -> None:
    story, job = kept_out(35)
    story.pause(job, 35)
    story.gap(job, 40, None, "paused", when=35)
    assert story.broken == set()


@pytest.mark.parametrize(("recorded", "rules"), [(48, set()), (50.1, {"L2"})])
def test_row_without_an_end_is_recorded_when_the_next_calendar_comes(
    recorded: float, rules: set[str]
) -> None:
    story = Story()
    job = story.job(closed_fires(every(10), (15, 1e6)))
    story.fires(job, 10)
    story.write_calendar(job, 48)
    story.fires(job, 50)
    story.fire_range(job, FireRangeKind.GAP, 20, 40, "calendar:closed@1", when=recorded)
    assert story.broken == rules
