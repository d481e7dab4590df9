"""S11: what a client was told of its cancel holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mainspring.core.ids import RunId
from mainspring.core.model import Overlap
from mainspring.core.states import RunState
from mainspring.testing.factories import at
from tests.unit.judge.histories import Story, every, seconds


def cancelled() -> tuple[Story, RunId]:
    """A run that is due at 20 and cancelled at 15."""
    story = Story()
    run_id = story.submit(story.job(), 10, "waiting", due_at=at(20))
    story.cancel_waiting(run_id, 15)
    story.cancel(run_id, 15.02, "cancelled")
    return story, run_id


def requested(*tries: str) -> tuple[Story, RunId]:
    """A run whose last attempt is under way from 10.1 to 10.6, and a cancel asked for at 10.3."""
    story = Story()
    run_id = story.submit(story.job(), 10, *tries)
    story.cancel(run_id, 10.3, "requested")
    return story, run_id


def test_cancel_of_a_waiting_run_is_good() -> None:
    assert cancelled()[0].broken == set()


@pytest.mark.parametrize("ending", ["done", "cancelled"])
def test_request_ends_with_the_attempt(ending: str) -> None:
    assert requested(ending)[0].broken == set()


def test_cancel_of_what_has_ended_is_good() -> None:
    story = Story()
    story.cancel(story.submit(story.job(), 10), 11, "finished")
    assert story.broken == set()


def test_second_cancel_is_told_that_it_has_ended() -> None:
    story, run_id = cancelled()
    story.cancel(run_id, 16, "finished")
    assert story.broken == set()


# -- answered: cancelled ---------------------------------------------------------------------------------------


def test_cancelled_run_that_is_carried_out() -> None:
    story, run_id = cancelled()
    story.alter(run_id, state=RunState.PENDING, reason=None)
    story.attempt(run_id, "done")
    story.history.events.clear()
    assert story.broken == {"S11"}


def test_cancelled_run_that_had_succeeded() -> None:
    story = Story()
    story.cancel(story.submit(story.job(), 10), 11, "cancelled")
    assert story.broken == {"S11"}


def test_cancelled_run_that_starts_nevertheless() -> None:
    story, run_id = cancelled()
    story.attempt(run_id, "cancelled")
    story.alter(run_id, finished_at=at(15))
    story.history.events.clear()
    assert story.broken == {"S11"}


def test_cancelled_run_that_waits_for_ever() -> None:
    story, run_id = cancelled()
    story.alter(run_id, state=RunState.PENDING, ready_at=at(90), finished_at=None, reason=None)
    story.history.events.pop()
    assert story.broken == {"S11"}


def test_cancelled_run_that_ended_later() -> None:
    story, run_id = cancelled()
    story.alter(run_id, finished_at=at(16))
    assert story.broken == {"S11"}


# -- answered: requested ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("tries", [("failed", "spent"), ("killed",)])
def test_requested_run_that_failed(tries: tuple[str, ...]) -> None:
    story, _ = requested(*tries)
    assert "S11" in story.broken


@pytest.mark.parametrize("ending", ["failed", "lost", "snoozed", "handed_back"])
def test_requested_run_that_is_tried_again(ending: str) -> None:
    story, _ = requested(ending, "done")
    assert story.broken == {"S11"}


@pytest.mark.parametrize("ending", ["failed", "lost"])
def test_request_concerns_the_attempt_that_was_under_way(ending: str) -> None:
    story, run_id = requested(ending, "done")
    under_way = story.history.effects[1].started_at + seconds(0.2)
    asked = story.history.operations[-1]
    story.history.operations[-1] = replace(asked, asked_at=under_way, answered_at=under_way)
    assert story.broken == set()
    assert story.run(run_id).state is RunState.SUCCEEDED


def test_requested_run_that_goes_on_within_a_lease() -> None:
    """Its claim was on the way when the cancel was asked for."""
    story, _ = requested("cancelled")
    story.history.effects[0].started_at = at(10.5)
    assert story.broken == set()


def test_requested_run_that_starts_long_after() -> None:
    story, run_id = requested("cancelled")
    story.history.effects[0].started_at = at(14)
    story.history.effects[0].ended_at = None
    story.alter(run_id, finished_at=at(15))
    story.alter_attempt(run_id, 0, finished_at=at(15))
    assert "S11" in story.broken


def test_requested_run_that_is_left_waiting() -> None:
    story, run_id = requested("handed_back")
    story.alter(run_id, ready_at=at(90))
    assert story.broken == {"S11"}


# -- answered: finished ----------------------------------------------------------------------------------------


def test_finished_run_that_went_on() -> None:
    story = Story()
    story.cancel(story.submit(story.job(), 10), 10.3, "finished")
    assert story.broken == {"S11"}


def test_finished_run_that_had_not_even_begun() -> None:
    story = Story()
    story.cancel(story.submit(story.job(), 10, due_at=at(20)), 15, "finished")
    assert story.broken == {"S11"}


# -- unasked ---------------------------------------------------------------------------------------------------


def test_cancel_whose_answer_was_lost_counts() -> None:
    story, _run_id = cancelled()
    operation = story.history.operations[-1]
    story.history.operations[-1] = replace(operation, outcome="unknown", answer=None)
    assert story.broken == set()


@pytest.mark.parametrize(
    "changes", [{"outcome": "fail", "answer": None}, {"run_id": None}, {"answer": "finished"}]
)
def test_run_that_nobody_cancelled(changes: dict[str, Any]) -> None:
    story, _ = cancelled()
    story.history.operations[-1] = replace(story.history.operations[-1], **changes)
    assert story.broken == {"S11"}


def test_runs_of_a_deleted_job_are_cancelled() -> None:
    story = Story()
    job = story.job()
    run_id = story.submit(job, 10, "waiting", due_at=at(20))
    story.delete(job, 15)
    story.cancel_waiting(run_id, 15.1, "job_deleted")
    assert story.broken == set()
    story.alter(run_id, finished_at=at(14))
    assert story.broken == {"S11"}


def test_runs_of_a_job_that_was_not_deleted() -> None:
    story = Story()
    job = story.job()
    run_id = story.submit(job, 10, "waiting", due_at=at(20))
    story.cancel_waiting(run_id, 15, "job_deleted")
    assert story.broken == {"S11"}


def test_run_that_is_gone_after_its_cancel() -> None:
    story, run_id = cancelled()
    story.history.runs.clear()
    story.history.operations = [item for item in story.history.operations if item.kind == "cancel"]
    story.history.events.clear()
    assert story.broken == {"S3"}
    assert run_id


def made_way(ended: float) -> Story:
    """A run that ends at an instant because the fire of 20, on record at 20.02, cancels what is live."""
    story = Story()
    job = story.job(every(10), overlap=Overlap.CANCEL_RUNNING)
    first = story.fire(job, 10, "waiting")
    story.cancel_waiting(first, ended, "overlap")
    story.fires(job, 20, 30, 40, 50)
    return story


def test_run_makes_way_for_the_next_fire() -> None:
    assert made_way(20.02).broken == set()


def test_end_that_was_read_before_the_fire_and_committed_after_it() -> None:
    assert made_way(19.9).broken == set()


def test_run_that_made_way_long_before_the_next_fire() -> None:
    assert made_way(15).broken == {"S11"}


@pytest.mark.parametrize(("ended", "is_good"), [(20.02, True), (20.03, False)])
def test_run_makes_way_for_a_fire_that_is_committed_long_after_its_instant(
    ended: float, is_good: bool
) -> None:
    """The fire's server stood still between both, and meanwhile the run was made (seed 1699)."""
    story = Story()
    job = story.job(every(10), overlap=Overlap.CANCEL_RUNNING)
    story.fires(job, 10, 20, 30, 40, 50)
    story.cancel_waiting(story.submit(job, 45, "waiting"), ended, "overlap")
    assert ("S11" not in story.broken) is is_good
