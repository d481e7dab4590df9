"""S37: fires after the end."""

from __future__ import annotations

from mainspring.core.ids import JobId
from mainspring.core.triggers import AfterEnd
from tests.unit.judge.histories import Story, seconds
from tools.judge import judge
from tools.judge.ends import tell_ends


def broken(story: Story) -> set[str]:
    """Judge a story with its fires told, as the simulator does."""
    changes = story.history.changes
    story.history.changes = tell_ends(changes, story.history.runs)
    try:
        return {violation.rule for violation in judge(story.history).violations}
    finally:
        story.history.changes = changes


def told(delay: float = 5.0, *, read_at: float = 20.0) -> tuple[Story, JobId]:
    """A job whose runs take 0.6 s: it fires at 0, and 5 s after the end, at 5.62."""
    story = Story(read_at=read_at)
    job = story.job(AfterEnd(seconds(delay)))
    story.fire(job, 0)
    return story, job


def end_of(story: Story) -> float:
    """When the last run ended, in seconds after the first fire."""
    first, last = story.history.runs[0].fire_at, story.history.runs[-1].finished_at
    assert first is not None
    assert last is not None
    return (last - first).total_seconds()


def test_fire_a_delay_after_the_end() -> None:
    story, job = told()
    story.fire(job, end_of(story) + 5)
    assert broken(story) == set()


def test_fire_too_early_or_too_late() -> None:
    for seconds_on in (4.999, 5.001, 10.0):
        story, job = told()
        story.fire(job, end_of(story) + seconds_on)
        assert broken(story) == {"S37"}


def test_fire_while_the_run_before_lives() -> None:
    story, job = told()
    end = end_of(story)
    story.alter(story.history.runs[0].id, finished_at=None)
    story.fire(job, end + 5)
    assert "S37" in broken(story)


def test_record_of_a_skipped_fire_is_an_end() -> None:
    story, job = told()
    story.fire(job, end_of(story) + 5, reason="overlap")
    story.fire(job, end_of(story) + 5)
    assert "S37" not in broken(story)


def test_delays_are_counted_on_in_a_pause_only() -> None:
    story, job = told()
    end = end_of(story)
    story.pause(job, end + 1)
    story.resume(job, end + 12)
    story.fire(job, end + 15)
    assert broken(story) == set()
    story, job = told()
    story.pause(job, 0.1)
    story.resume(job, 0.2)  # before the end
    story.fire(job, end_of(story) + 10)
    assert broken(story) == {"S37"}


def test_edit_counts_the_new_delay_or_fires_at_once() -> None:
    for delay, at in ((3.0, 3.0), (1.0, 2.0)):
        story, job = told()
        end = end_of(story)
        story.edit(job, end + 2, trigger=AfterEnd(seconds(delay)))
        story.fire(job, end + at)
        assert broken(story) == set()
    story, job = told()
    end = end_of(story)
    story.edit(job, end + 2, trigger=AfterEnd(seconds(3)))
    story.fire(job, end + 4)
    assert broken(story) == {"S37"}


def test_first_fire_that_nothing_made() -> None:
    story = Story()
    job = story.job(AfterEnd(seconds(5)), 0)
    story.fire(job, 2)
    assert "S37" in broken(story)


def test_fire_that_is_missing_at_the_end() -> None:
    story, _ = told(read_at=19)
    assert broken(story) == set()
    story, job = told(read_at=60)
    assert broken(story) == {"S37"}
    story.pause(job, 18)
    assert broken(story) == set()
    story, job = told(read_at=60)
    story.delete(job, 40)
    assert broken(story) == set()


def test_run_that_lives_at_the_end_is_waited_for() -> None:
    story, _ = told(read_at=60)
    story.alter(story.history.runs[0].id, finished_at=None)
    assert "S37" not in broken(story)


def test_fire_is_held_to_one_record() -> None:
    story, job = told()
    end = end_of(story)
    story.fire(job, end + 5)
    story.fire(job, end + 5)
    assert "S1" in broken(story)
