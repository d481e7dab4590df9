"""S3 and S4: what was acknowledged is there, once per key, and nothing that nobody asked for."""

from __future__ import annotations

import pytest

from mainspring.core.ids import RunId
from mainspring.core.model import RunKind
from mainspring.testing.factories import at
from tests.unit.judge.histories import Story, every


def without_operations(story: Story) -> Story:
    story.history.operations.clear()
    return story


def test_acknowledged_submissions_are_good() -> None:
    story = Story()
    job = story.job()
    story.submit(job, 10)
    run_id = story.submit(job, 10, key="a")
    story.ask("submit", job, 11, key="a", run_id=run_id)
    assert story.broken == set()


def test_acknowledged_submission_that_is_lost() -> None:
    story = Story()
    story.ask("submit", story.job(), 10, run_id=RunId(257))
    assert story.broken == {"S3"}


def test_acknowledged_submission_that_is_another_jobs() -> None:
    story = Story()
    job, other = story.job(), story.job()
    run_id = story.submit(other, 10)
    without_operations(story).ask("submit", job, 10, run_id=run_id)
    story.ask("submit", other, 10, "unknown")
    assert story.broken == {"S3"}


def test_acknowledged_submission_that_is_a_fire() -> None:
    story = Story()
    job = story.job(every(50))
    story.ask("submit", job, 50, run_id=story.fire(job, 50))
    assert story.broken == {"S3"}


@pytest.mark.parametrize("keys", [(None, None), ("a", "b"), ("a", None)])
def test_one_run_for_two_submissions(keys: tuple[str | None, str | None]) -> None:
    story = Story()
    job = story.job()
    run_id = story.submit(job, 10, key=keys[0])
    story.ask("submit", job, 11, key=keys[1], run_id=run_id)
    assert story.broken == {"S3"}


def test_one_key_with_two_answers() -> None:
    story = Story()
    job = story.job()
    story.submit(job, 10, key="a")
    story.submit(job, 11, key="a")
    assert story.broken == {"S4"}


@pytest.mark.parametrize("key", [None, "a"])
def test_submission_without_an_answer_is_there_or_not(key: str | None) -> None:
    story = Story()
    job = story.job()
    story.submit(job, 10)
    story.ask("submit", job, 20, "unknown", key=key)
    assert story.broken == set()
    story.submit(job, 20)
    story.history.operations.pop()
    assert story.broken == set()


def test_key_whose_repeated_submission_made_a_second_run() -> None:
    story = Story()
    job = story.job()
    story.submit(job, 10, key="a")
    story.submit(job, 20)
    story.history.operations.pop()
    story.ask("submit", job, 20, "unknown", key="a")
    assert story.broken == {"S4"}


def test_unanswered_repeats_of_one_key_make_one_run() -> None:
    story = Story()
    job = story.job()
    for instant in (10, 20):
        story.submit(job, instant)
        story.history.operations.pop()
        story.ask("submit", job, instant, "unknown", key="a")
    assert story.broken == {"S4"}


def test_refused_submission_that_runs() -> None:
    story = Story()
    job = story.job()
    story.submit(job, 10)
    without_operations(story).ask("submit", job, 10, "fail")
    assert story.broken == {"S3"}


def test_run_that_nobody_asked_for() -> None:
    story = Story()
    story.submit(story.job(), 10)
    assert without_operations(story).broken == {"S3"}


@pytest.mark.parametrize("kind", [RunKind.EVENT, RunKind.CHILD])
def test_runs_of_other_kinds_are_not_counted(kind: RunKind) -> None:
    story = Story()
    story.alter(story.submit(story.job(), 10), kind=kind)
    assert without_operations(story).broken == set()


def test_run_of_a_job_that_never_was() -> None:
    story = Story()
    story.submit(story.job(), 10)
    story.history.changes.clear()
    assert story.broken == {"S2"}
    assert story.history.runs[0].created_at == at(10)
