"""O4: what failed for good is open, redriven by one run, or discarded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from mainspring.core.dead_letters import LAST_RUN, DeadFilter, SettledLetter, Settlement
from mainspring.core.ids import RedriveId, RunId
from mainspring.core.redrives import Redrive, RedriveState
from mainspring.testing.factories import at
from tests.unit.judge.histories import Story

REDRIVE = RedriveId(UUID(int=7))


def bury(story: Story) -> RunId:
    """Let a run of a job fail for good."""
    return story.submit(story.job(), 1, "failed", "spent")


def settle(story: Story, run_id: RunId, by: RunId | None, when: float = 10) -> None:
    """Note in the record that a dead letter is redriven by a run, or discarded."""
    settlement = Settlement.DISCARDED if by is None else Settlement.REDRIVEN
    reason = "gone" if by is None else None
    settled = SettledLetter(settlement=settlement, at=at(when), reason=reason, redriven_as=by)
    story.history.settled = {**story.history.settled, run_id: settled}


def go_through(story: Story, **fields: Any) -> None:
    """Let a redrive of everything be done, which began after nine seconds."""
    values: dict[str, Any] = {"state": RedriveState.DONE, "done": 1, "closed_at": at(20), **fields}
    redrive = Redrive(
        id=REDRIVE,
        tenant="default",
        wanted=DeadFilter(until=at(9)),
        is_newest=True,
        rate=10,
        cursor=LAST_RUN,
        total=1,
        created_at=at(9),
        **values,
    )
    story.history.redrives = [redrive]
    story.history.redrive_places = {REDRIVE: len(story.history.events)}


def test_each_dead_letter_has_one_end() -> None:
    story = Story()
    for_good, again, away = bury(story), bury(story), bury(story)
    settle(story, again, story.redrive(again, 10))
    settle(story, away, None)
    assert story.broken == set(), story.told
    assert for_good not in story.history.settled


def test_dead_letter_that_two_runs_repeat() -> None:
    story = Story()
    dead = bury(story)
    settle(story, dead, story.redrive(dead, 10))
    story.redrive(dead, 11)
    assert story.broken == {"O4"}


def test_dead_letter_that_is_open_and_repeated() -> None:
    story = Story()
    dead = bury(story)
    repeat = story.redrive(dead, 10)
    assert story.broken == {"O4"}
    settle(story, dead, repeat)
    assert story.broken == set()


def test_dead_letter_that_is_redriven_by_no_run() -> None:
    story = Story()
    dead = bury(story)
    settle(story, dead, RunId(999))
    assert story.broken == {"O4"}


def test_dead_letter_that_is_discarded_and_repeated() -> None:
    story = Story()
    dead = bury(story)
    story.redrive(dead, 10)
    settle(story, dead, None)
    assert story.broken == {"O4"}


def test_discard_that_was_answered_holds() -> None:
    story = Story()
    dead = bury(story)
    story.history.discarded = {dead}
    assert story.broken == {"O4"}
    settle(story, dead, None)
    assert story.broken == set()


def test_redrive_of_what_succeeded() -> None:
    story = Story()
    story.redrive(story.submit(story.job(), 1, "done"), 10)
    assert story.broken == {"O4"}


def test_redrive_that_names_no_run() -> None:
    story = Story()
    dead = bury(story)
    repeat = story.redrive(dead, 10)
    story.alter(repeat, redrive_of=None)
    assert story.broken == {"O4"}


def test_redrive_that_is_done() -> None:
    story = Story()
    dead = bury(story)
    go_through(story)
    settle(story, dead, story.redrive(dead, 10))
    assert story.broken == set(), story.told


@pytest.mark.parametrize("done", [0, 2])
def test_redrive_that_counts_wrongly(done: int) -> None:
    story = Story()
    dead = bury(story)
    go_through(story, done=done)
    settle(story, dead, story.redrive(dead, 10))
    assert story.broken == {"O4"}


def test_redrive_that_leaves_one_out() -> None:
    story = Story()
    dead, left = bury(story), bury(story)
    go_through(story)
    settle(story, dead, story.redrive(dead, 10))
    assert story.broken == {"O4"}
    story.delete(story.run(left).job_id, 15)
    assert story.broken == set()


def test_what_failed_after_a_redrive_was_made_is_not_left_out() -> None:
    story = Story()
    go_through(story, done=0)
    bury(story)
    assert story.broken == set(), story.told


def test_redrive_that_never_ends() -> None:
    story = Story()
    go_through(story, state=RedriveState.RUNNING, done=0, closed_at=None)
    assert story.broken == {"O4"}
    [redrive] = story.history.redrives
    story.history.redrives = [replace(redrive, state=RedriveState.PAUSED)]
    assert story.broken == set()
