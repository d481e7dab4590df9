"""The judge's rules about runs that follow one another, and about jobs that pause themselves: S18 and P1."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mainspring.core.ids import JobId, RunId
from mainspring.core.model import Overlap
from mainspring.core.states import RunState
from mainspring.testing.factories import at
from tests.unit.judge.histories import Story, every
from tools.judge import ChangeKind


def placed(story: Story) -> Story:
    """Note after how many events the changes were committed, by their instants."""
    events = story.history.events
    events.sort(key=lambda event: event.at)
    story.history.changes[:] = [
        replace(change, place=sum(event.at < change.at for event in events))
        for change in story.history.changes
    ]
    return story


def broken(story: Story) -> set[str]:
    return placed(story).broken


def one_after_the_other(overlap: Overlap = Overlap.QUEUE_ALL, **spec: Any) -> tuple[Story, JobId, RunId]:
    """Tell of a job whose run ends before the next one fires."""
    story = Story()
    job = story.job(every(10), overlap=overlap, **spec)
    first, *_ = story.fires(job, 10, 20, 30, 40, 50)
    return story, job, first


def test_runs_that_follow_one_another_are_good() -> None:
    for overlap in (Overlap.QUEUE_ALL, Overlap.QUEUE_ONE, Overlap.CANCEL_RUNNING):
        story, _, _ = one_after_the_other(overlap)
        assert broken(story) == set()


def move_claim(story: Story, run_id: RunId, seconds: float) -> None:
    """Let the end of a run come much later."""
    story.history.events[:] = [
        replace(event, at=at(seconds)) if event.run_id == run_id and event.what == "succeeded" else event
        for event in story.history.events
    ]


def test_a_run_beside_another_one_of_the_line() -> None:
    story, _, first = one_after_the_other()
    move_claim(story, first, 25)
    assert "S18" in broken(story)


def test_only_an_edit_to_allow_opens_a_line() -> None:
    for edits, is_good in (
        ([Overlap.SKIP], False),
        ([Overlap.ALLOW], True),
        ([Overlap.ALLOW, Overlap.SKIP], True),  # seed 301654
        ([Overlap.ALLOW, Overlap.QUEUE_ONE], False),
    ):
        story, job, first = one_after_the_other()
        for place, overlap in enumerate(edits):
            story.edit(job, 15 + place, overlap=overlap)
        move_claim(story, first, 25)
        assert ("S18" not in broken(story)) is is_good, edits


def test_a_run_beside_another_one_of_a_job_that_allows_it() -> None:
    story, _, first = one_after_the_other(Overlap.ALLOW)
    move_claim(story, first, 25)
    assert "S18" not in broken(story)


def test_a_fire_that_is_made_though_one_waits() -> None:
    story, _, first = one_after_the_other(Overlap.QUEUE_ONE)
    story.history.events[:] = [
        event for event in story.history.events if event.run_id != first or event.target is RunState.PENDING
    ]
    assert "S18" in broken(story)


def test_a_fire_that_leaves_a_waiting_run() -> None:
    story, _, first = one_after_the_other(Overlap.CANCEL_RUNNING)
    story.history.events[:] = [
        event for event in story.history.events if event.run_id != first or event.target is RunState.PENDING
    ]
    assert "S18" in broken(story)


def failing(
    *endings: str, threshold: int = 2, paused_at: float | None = None, resumed_at: float = 59
) -> Story:
    """Tell of a watched job whose runs end like that, and which may have been paused by itself."""
    story = Story()
    job = story.job(every(10), pause_after_failures=threshold, retry=story_retry())
    for place, ending in enumerate(endings, 1):
        story.fire(job, 10 * place, ending)
    if paused_at is not None:
        story.pause(job, paused_at)
        story.gap(job, 10 * len(endings) + 10, resumed_at, "failures", when=paused_at)
        story.history.changes[-1] = replace(story.history.changes[-1], is_by_itself=True)
        story.resume(job, resumed_at)
    assert story.history.changes[-1].kind in ChangeKind
    return story


def story_retry() -> Any:
    from mainspring.core.retry import RetryPolicy

    return RetryPolicy(max_retries=0)


def test_a_job_that_paused_itself_had_failed() -> None:
    assert broken(failing("spent", "spent", paused_at=22)) == set()
    assert "P1" in broken(failing("spent", "done", paused_at=22))
    assert "P1" in broken(failing("spent", paused_at=12))


def test_a_job_that_fails_is_paused_soon() -> None:
    assert "P1" in broken(failing("spent", "spent", "spent", "spent", "spent"))
    assert "P1" not in broken(failing("spent", "done", "spent", "done", "spent"))
