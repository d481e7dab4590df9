"""S20: a backfill makes the fires of its range, each once, as fast as it may, and leaves out only what is done."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.ids import JobId, RunId
from mainspring.core.model import RunKind
from mainspring.testing.factories import at
from tests.unit.judge.histories import Story, every
from tools.judge import BackfillMove, BackfillStory

PAST = (-40.0, -30.0, -20.0, -10.0)


def make(story: Story, job_id: JobId, fire: float, when: float) -> RunId:
    """Carry out one fire of a backfill."""
    run_id = story.fire(job_id, fire, late=when - fire, due_at=at(when))
    story.alter(run_id, kind=RunKind.BACKFILL)
    return run_id


def backfill(
    story: Story, job_id: JobId, steps: dict[float, tuple[float, ...]], **facts: Any
) -> BackfillStory:
    """Record a backfill of the 45 s before the start, with what it made when."""
    values: dict[str, Any] = {
        "name": "backfill_1",
        "job_id": job_id,
        "from_at": at(-45),
        "to_at": at(-5),
        "skip_done": "succeeded",
        "count": 2,
        "per": timedelta(seconds=1),
        "max_live": 10,
        "fires": 4,
        "place": len(story.history.changes),
        "state": "done",
    }
    moves = [
        BackfillMove(
            at=at(when), runs=tuple((make(story, job_id, fire, when), at(fire)) for fire in fires), skipped=0
        )
        for when, fires in steps.items()
    ]
    made = BackfillStory(**values | {"steps": moves} | facts)
    story.history.backfills.append(made)
    return made


@pytest.fixture
def story() -> Story:
    return Story(read_at=9.0)


def test_backfill_that_makes_what_it_said_is_good(story: Story) -> None:
    backfill(story, story.job(every(10)), {1: PAST[:2], 3: PAST[2:]})
    assert story.broken == set(), story.told


@pytest.mark.parametrize(
    ("steps", "facts", "why"),
    [
        ({1: PAST[:2], 3: (PAST[1], PAST[2]), 5: PAST[3:]}, {}, "twice"),
        ({1: PAST[:2], 3: (-20.0, -15.0)}, {}, "no fire of its range"),
        ({1: PAST[:2], 3: PAST[2:3]}, {}, "ended with 3 made and 0 skipped of 4"),
        ({1: PAST[:3], 3: PAST[3:]}, {}, "more than its rate allows"),
        ({1: PAST[:2], 1.2: PAST[2:]}, {}, "more than its rate allows"),
        ({1: PAST[:2], 3: PAST[2:]}, {"max_live": 1}, "2 of its runs are live"),
        ({1: PAST[:2], 3: PAST[2:]}, {"fires": 7}, "which no definition gives"),
    ],
)
def test_backfill_that_does_otherwise_is_accused(
    story: Story, steps: dict[float, tuple[float, ...]], facts: dict[str, Any], why: str
) -> None:
    backfill(story, story.job(every(10)), steps, **facts)
    assert story.broken == {"S20"}
    assert why in story.told


def test_fire_that_had_succeeded_is_not_made_again(story: Story) -> None:
    job_id = story.job(every(10))
    backfill(story, job_id, {1: PAST[:1]}, state="open", name="backfill_0")
    story.history.read_at = at(40)
    backfill(story, job_id, {20: PAST[:2], 22: PAST[2:]}, skip_done="none")
    for fire in (10.0, 20.0, 30.0, 40.0):
        story.fire(job_id, fire)
    assert story.broken == set(), story.told
    story.history.backfills[1].skip_done = "succeeded"
    assert story.broken == {"S20"}


def test_fire_that_is_left_out_has_another_run(story: Story) -> None:
    job_id = story.job(every(10))
    steps: dict[float, tuple[float, ...]] = {1: PAST[:2], 3: PAST[2:3]}
    made = backfill(story, job_id, steps)
    made.steps.append(BackfillMove(at=at(4), runs=(), skipped=1))
    assert story.broken == {"S20"}
    assert "which has no other run" in story.told
    backfill(story, job_id, {2: PAST[3:]}, state="open", name="backfill_2")
    assert story.broken == set(), story.told
    made.skip_done = "none"
    assert "though it is to make all" in story.told


def test_run_that_no_step_made_is_accused(story: Story) -> None:
    job_id = story.job(every(10))
    make(story, job_id, -10.0, 1.0)
    assert story.broken == {"S20"}


def test_fires_are_those_of_the_version_of_their_time(story: Story) -> None:
    job_id = story.job(every(10), when=-25)
    story.edit(job_id, -12, trigger=every(5))
    story.history.read_at = at(4)
    fires = (-40.0, -30.0, -20.0, -10.0)
    backfill(story, job_id, {1: fires[:2], 3: fires[2:]})
    assert story.broken == set(), story.told
