"""S34: nothing of what is paused is given out, and only a pause that says so skips fires."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.testing.factories import at
from tests.unit.judge.histories import Story, every
from tools.judge import Pausing


def note(story: Story, when: float, scope: str = "queue", name: str = "default", **facts: Any) -> None:
    """Note a pause, or the end of one, committed at an instant."""
    story.history.events.sort(key=lambda event: event.at)
    place = sum(event.at <= at(when) for event in story.history.events)
    values: dict[str, Any] = {"at": at(when), "place": place, "since": at(when)} | facts
    story.history.pausings.append(Pausing(scope=scope, name=name, **values))


def told(*, submitted: float = 10.0) -> Story:
    """A run that is made at 10, claimed at 10.1, and succeeds at 10.6."""
    story = Story()
    story.submit(story.job(), submitted)
    return story


@pytest.mark.parametrize(
    ("scope", "name", "is_good"),
    [
        ("all", "", False),
        ("queue", "default", False),
        ("tenant", "default", False),
        ("queue", "mail", True),
        ("tenant", "acme", True),
    ],
)
def test_a_claim_of_what_is_paused_is_wrong(scope: str, name: str, is_good: bool) -> None:
    story = told()
    note(story, 9.0, scope, name)
    assert story.broken == (set() if is_good else {"S34"})


def test_what_was_claimed_before_goes_on() -> None:
    story = told()
    note(story, 10.2)
    assert story.broken == set()


@pytest.mark.parametrize(("lifted", "is_good"), [(10.05, True), (10.2, False)])
def test_a_claim_after_the_end_of_a_pause_is_right(lifted: float, is_good: bool) -> None:
    story = told()
    note(story, 9.0)
    note(story, lifted, is_lifted=True)
    assert story.broken == (set() if is_good else {"S34"})


@pytest.mark.parametrize(("until", "is_good"), [(10.1, True), (10.11, False)])
def test_a_pause_ends_by_itself(until: float, is_good: bool) -> None:
    story = told()
    note(story, 9.0, until=at(until))
    assert story.broken == (set() if is_good else {"S34"})


def test_one_pause_does_not_end_another() -> None:
    story = told()
    note(story, 9.0, "all", "")
    note(story, 9.1)
    note(story, 9.2, is_lifted=True)
    assert story.broken == {"S34"}


def test_a_run_that_waits_for_a_resume_is_not_late() -> None:
    story = Story()
    run_id = story.submit(story.job(), 10.0, "waiting")
    story.alter(run_id, ready_at=at(19.9))
    story.attempt(run_id, "done")
    assert story.broken == {"L1"}
    note(story, 9.0)
    note(story, 19.5, is_lifted=True)
    assert story.broken == set()


@pytest.mark.parametrize(
    ("facts", "is_good"),
    [
        ({"mode": "skip", "until": at(15)}, True),
        ({"mode": "skip", "until": at(10)}, False),
        ({"mode": "skip", "since": at(11)}, False),
        ({"mode": "hold", "until": at(15)}, False),
        ({"mode": "skip", "name": "mail"}, False),
    ],
)
def test_a_fire_is_skipped_only_by_a_pause_that_says_so(facts: dict[str, Any], is_good: bool) -> None:
    story = Story(read_at=19.0)
    story.fire(story.job(every(10)), 10, reason="paused")
    note(story, 9.0, **facts)
    assert story.broken == (set() if is_good else {"S34"})


@pytest.mark.parametrize(
    ("begun", "facts", "is_good"),
    [
        (5.0, {"mode": "skip"}, False),
        (9.0, {"mode": "skip"}, True),  # it has hardly begun
        (5.0, {"mode": "hold"}, True),
        (5.0, {"mode": "skip", "name": "mail"}, True),
        (5.0, {"mode": "skip", "until": at(9.9)}, True),
        (5.0, {"mode": "skip", "until": at(10.5)}, True),  # it is stored after the end (seed 5746)
    ],
)
def test_a_fire_that_falls_due_in_a_skipping_pause_is_skipped(
    begun: float, facts: dict[str, Any], is_good: bool
) -> None:
    story = Story(read_at=19.0)
    story.fire(story.job(every(10)), 10, "waiting")
    note(story, begun, **facts)
    assert ("S34" in story.broken) is not is_good


def test_only_fires_are_skipped() -> None:
    story = Story()
    story.submit(story.job(), 10.0, reason="paused")
    note(story, 9.0, mode="skip")
    assert "S34" in story.broken


def test_a_dead_letter_that_is_run_again_is_no_fire() -> None:
    """It keeps the instant of the fire that it repeats, and waits for the end of the pause (seeds 1225, 1298)."""
    story = Story(read_at=60.0)
    letter = story.fire(story.job(every(10)), 10, "failed", "spent")
    note(story, 20.0, mode="skip", until=at(30.0))
    story.redrive(letter, 25.0, "waiting")
    assert "S34" not in story.broken
