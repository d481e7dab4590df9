"""S1 and S2 of jobs with a maximum of fires: all that are left, and none after the last."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.core.ids import JobId
from mainspring.core.model import Overlap
from tests.unit.judge.histories import Story, every, grace


def counted(*instants: float, max_fires: int = 3, **spec: Any) -> tuple[Story, JobId]:
    """A job that fires every ten seconds until the read at 60, so many times at most."""
    story = Story()
    job = story.job(every(10), max_fires=max_fires, **spec)
    story.fires(job, *instants)
    return story, job


def test_fires_up_to_the_maximum_and_none_after_it_are_good() -> None:
    assert counted(10, 20, 30)[0].broken == set()
    assert counted(10, 20, 30, 40, 50, max_fires=9)[0].broken == set()


def test_fire_beyond_the_maximum_is_not_owed() -> None:
    assert counted(10, 20, 30, 40)[0].broken == {"S2"}


@pytest.mark.parametrize("instants", [(10, 20), (10, 30, 40), ()])
def test_fire_that_was_left_is_missed(instants: tuple[float, ...]) -> None:
    assert counted(*instants)[0].broken == {"S1"}


@pytest.mark.parametrize("reason", ["misfire", "paused"])
def test_fire_that_was_left_out_does_not_count(reason: str) -> None:
    story = Story()
    job = story.job(every(10), max_fires=2, misfire=grace(1, "skip"))
    if reason == "misfire":
        story.fault(8, 14)
    story.fire(job, 10, late=5 if reason == "misfire" else 0.02, reason=reason)
    story.fires(job, 20, 30)
    assert story.broken - {"S34"} == set()  # no pause is told of here


def test_fire_that_overlaps_counts() -> None:
    story = Story()
    job = story.job(every(10), max_fires=2, overlap=Overlap.SKIP)
    story.fire(job, 10, "done")
    story.fire(job, 20, reason="overlap")
    assert "S1" not in story.broken
    story.fires(job, 30)
    assert "S2" in story.broken


def caught_up(*instants: int) -> Story:
    """These fires, of two that are left, were missed and are caught up."""
    story = Story()
    job = story.job(every(10), max_fires=2, misfire=grace(1, "fire_all"))
    story.fault(5, 34)
    fire_range = story.catch_up(job, instants[0], instants[-1], "misfire", when=34)
    for instant in instants:
        story.make_up(job, fire_range, instant, when=34.5)
    if len(instants) < 2:
        story.fires(job, 40)
    return story


def test_fires_of_a_catch_up_count() -> None:
    assert caught_up(10, 20).broken == set()
    assert caught_up(10, 20, 30).broken == {"S2"}


def test_fires_of_a_catch_up_that_are_still_to_come_count() -> None:
    story = Story()
    job = story.job(every(10), max_fires=2, misfire=grace(1, "fire_all"))
    story.fault(5, 56)
    story.catch_up(job, 10, 20, "misfire", when=56, cursor_at=None, is_open=True)
    assert story.broken == set()
    story.catch_up(job, 30, 30, "misfire", when=56, cursor_at=None, is_open=True)
    assert story.broken == {"S2"}


def test_edit_of_the_trigger_or_the_maximum_counts_from_the_beginning() -> None:
    for change in ({"max_fires": 2}, {"trigger": every(5)}):
        story, job = counted(10, 20, 30)
        story.edit(job, 32, **change)
        story.fires(job, *((40, 50) if "max_fires" in change else (35, 40, 45)))
        assert story.broken == set()


def test_edit_of_something_else_keeps_the_count() -> None:
    story, job = counted(10, 20)
    story.edit(job, 25, queue="other")
    story.fires(job, 30)
    assert story.broken == set()
    story.fires(job, 40)
    assert story.broken == {"S2"}


def test_pause_of_a_finished_job_has_no_gap() -> None:
    story, job = counted(10, 20, 30)
    story.pause(job, 35)
    story.resume(job, 45)
    assert story.broken == set()
