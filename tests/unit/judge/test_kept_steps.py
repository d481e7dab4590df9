"""W12, W7 and S8: what is kept of a durable function's steps stands, sleeps are slept, and steps come before poison."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.core.checkpoints import Checkpoint
from mainspring.core.ids import RunId
from mainspring.core.states import RunState
from mainspring.testing.factories import at
from tests.unit.judge.histories import Story
from tools.judge import StepNote


def note(
    run_id: RunId, token: int, what: str, when: float, value: object = None, **facts: object
) -> StepNote:
    given = {"name": "charge", "number": 0, **facts}
    return StepNote(run_id=run_id, token=token, what=what, at=at(when), value=value, **given)  # type: ignore[arg-type]


def told(*tries: str, **spec: Any) -> tuple[Story, RunId]:
    """Return a story of one run whose first attempt has kept its step, and whose later ones got it."""
    story = Story()
    run_id = story.submit(story.job(**spec), 10, *tries)
    tokens = [one.token for one in story.attempts.get(run_id, [])] + [story.run(run_id).token]
    steps = story.history.steps
    steps += [note(run_id, tokens[0], "began", 10.2), note(run_id, tokens[0], "kept", 10.3, "a")]
    steps += [note(run_id, token, "given", 10.4 + place, "a") for place, token in enumerate(tokens)]
    story.history.kept = {run_id: [Checkpoint("charge", 0, tokens[0], False, b'"a"', at(10.3))]}
    return story, run_id


def tokens_of(story: Story) -> tuple[int, int]:
    given = [one.token for one in story.history.steps if one.what == "given"]
    return given[0], given[-1]


def test_a_kept_step_that_is_given_again_is_good() -> None:
    story, _ = told("failed", "done")
    assert story.broken == set()


def test_a_body_that_runs_again_in_a_later_attempt() -> None:
    story, run_id = told("failed", "done")
    story.history.steps.append(note(run_id, tokens_of(story)[1], "began", 12))
    assert story.broken == {"W12"}


def test_a_body_that_runs_twice_in_the_attempt_that_keeps_it() -> None:
    story, run_id = told("done")
    story.history.steps.append(note(run_id, tokens_of(story)[0], "began", 10.25))
    assert story.broken == {"W12"}


def test_a_step_that_was_kept_without_its_body() -> None:
    story, _ = told("failed", "done")
    first, last = tokens_of(story)
    story.history.steps = [
        note(one.run_id, last, "began", 10.2) if one.what == "began" else one for one in story.history.steps
    ]
    assert first != last
    assert story.broken == {"W12"}


def test_a_body_of_a_step_that_is_not_kept_may_run_again() -> None:
    story, run_id = told("failed", "done")
    for token in tokens_of(story):
        story.history.steps.append(note(run_id, token, "began", 10.5, name="pack"))
    assert story.broken == set()


@pytest.mark.parametrize("name", ["charge", "pack"])
def test_a_function_that_gets_what_is_not_kept(name: str) -> None:
    story, run_id = told("failed", "done")
    story.history.steps.append(note(run_id, tokens_of(story)[1], "given", 12, "b", name=name))
    assert story.broken == {"W12"}


def test_a_step_that_is_kept_twice() -> None:
    story, run_id = told("failed", "done")
    story.history.steps.append(note(run_id, tokens_of(story)[1], "kept", 12, "a"))
    assert story.broken == {"W12"}


def test_a_kept_step_that_is_lost() -> None:
    story, _ = told("done")
    story.history.kept = {}
    assert story.broken == {"W12"}


def test_a_step_on_record_that_nobody_has_kept() -> None:
    story, run_id = told("done")
    story.history.kept = {run_id: [*story.history.kept[run_id], Checkpoint("x", 0, 1, False, None, at(10))]}
    assert story.broken == {"W12"}


@pytest.mark.parametrize(("woken", "broken"), [(15.2, set()), (14.9, {"W7"})])
def test_a_function_that_wakes_before_its_time(woken: float, broken: set[str]) -> None:
    story, run_id = told("snoozed", "done")
    first, last = tokens_of(story)
    story.history.steps += [
        note(run_id, first, "kept", 10.1, {"seconds": 5.0}, name="$sleep"),
        note(run_id, last, "given", woken, 5.0, name="$sleep"),
    ]
    story.history.kept[run_id].append(Checkpoint("$sleep", 0, first, False, b"{}", at(10.1)))
    assert story.broken == broken


LOSSES = ("lost", "lost", "lost", "done")


def test_deaths_count_from_the_last_step_that_was_kept() -> None:
    story, run_id = told(*LOSSES, poison_limit=1)
    assert "S8" in story.broken, "lost three times since the step"
    tokens = [one.token for one in story.attempts[run_id]]
    for place, token in enumerate(tokens[:2]):
        name = f"more {place}"
        story.history.steps += [
            note(run_id, token, "began", 10.2, name=name),
            note(run_id, token, "kept", 10.3, name=name),
        ]
        story.history.kept[run_id].append(Checkpoint(name, 0, token, False, None, at(10.3)))
    assert story.broken == set()


def test_poison_of_a_run_that_got_further() -> None:
    story, run_id = told("lost", "lost", "killed", poison_limit=3)
    assert story.run(run_id).state is RunState.FAILED
    assert story.broken == set()
    token = story.attempts[run_id][1].token
    story.history.steps += [
        note(run_id, token, "began", 10.2, name="more"),
        note(run_id, token, "kept", 10.3, name="more"),
    ]
    story.history.kept[run_id].append(Checkpoint("more", 0, token, False, None, at(10.3)))
    assert story.broken == {"S13"}
