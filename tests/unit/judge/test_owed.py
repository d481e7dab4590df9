"""When a fire is owed that its job's jitter holds back: L1, L2, S1 and S20 count from there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mainspring.core.model import FireRangeKind
from mainspring.core.triggers import Once
from mainspring.testing.factories import at
from tests.unit.judge.histories import Story, every, grace, seconds

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
