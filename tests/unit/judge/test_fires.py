"""S1 and S2: every fire that was owed is on record once, and nothing else is."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.cron import Cron
from mainspring.core.model import FireRangeKind, Priority
from mainspring.core.triggers import Once
from mainspring.testing.factories import at
from tests.unit.judge.histories import Story, every, grace, seconds
from tools.judge import Pausing


def steady() -> Story:
    """A job that fires every ten seconds, until the read at 60."""
    story = Story()
    story.fires(story.job(every(10)), 10, 20, 30, 40, 50)
    return story


def paused() -> Story:
    """The same, paused from 25 to 45; the fires of 30 and 40 are on record as a gap."""
    story = Story()
    job = story.job(every(10))
    story.fires(job, 10, 20)
    story.pause(job, 25)
    story.gap(job, 30, 45, "paused", when=25)
    story.resume(job, 45)
    story.fires(job, 50)
    return story


def test_regular_fires_are_good() -> None:
    assert steady().broken == set()


def test_cron_and_once_are_good() -> None:
    story = Story()
    story.fires(story.job(Cron("*/20 * * * * *")), 20, 40)
    story.fires(story.job(Once(at(7))), 7)
    assert story.broken == set()


def test_history_without_anything_is_good() -> None:
    assert Story().broken == set()


@pytest.mark.parametrize("index", [0, 2, 4])
def test_missing_fire_is_missed(index: int) -> None:
    story = Story()
    instants = [10, 20, 30, 40, 50]
    del instants[index]
    story.fires(story.job(every(10)), *instants)
    assert story.broken == {"S1"}


def test_fire_close_to_the_read_may_be_under_way() -> None:
    story = Story(read_at=52)
    story.fires(story.job(every(10)), 10, 20, 30, 40)
    assert story.broken == set()


def test_fire_with_two_runs_is_doubled() -> None:
    story = Story()
    story.fires(story.job(every(10)), 10, 20, 30, 40, 50, 30)
    assert story.broken == {"S1"}


def test_skipped_run_is_a_record() -> None:
    story = Story()
    job = story.job(every(10), misfire=grace(1, "skip"))
    story.fault(8, 14)
    story.fire(job, 10, late=5, reason="misfire")
    story.fires(job, 20, 30, 40, 50)
    assert story.broken == set()


def test_run_skipped_without_a_reason_is_no_record() -> None:
    story = Story()
    job = story.job(every(10))
    run_id = story.fire(job, 10, reason="misfire")
    story.alter(run_id, reason=None)
    story.fires(job, 20, 30, 40, 50)
    assert story.broken == {"S1"}


def test_fire_at_an_instant_that_the_trigger_does_not_give() -> None:
    story = steady()
    story.fire(story.history.runs[0].job_id, 33)
    assert story.broken == {"S2"}


def test_shifted_fire_is_missed_and_surplus() -> None:
    story = steady()
    run = story.history.runs[2]
    story.alter(run.id, fire_at=at(29.5), due_at=at(29.5))
    assert story.broken == {"S1", "S2"}


def test_fire_of_a_job_without_a_trigger() -> None:
    story = Story()
    story.fire(story.job(), 10)
    assert story.broken == {"S2"}


def test_fire_of_an_unknown_version() -> None:
    story = Story()
    job = story.job(every(10))
    story.fires(job, 10, 20, 30, 40)
    story.fire(job, 50, version=2)
    assert story.broken == {"S2"}


def test_scheduled_run_without_an_instant() -> None:
    story = steady()
    story.alter(story.fire(story.history.runs[0].job_id, 50), fire_at=None)
    assert story.broken == {"S2"}


# -- edits and deletes -----------------------------------------------------------------------------------------


def edited() -> Story:
    story = Story()
    job = story.job(every(10))
    story.fires(job, 10, 20)
    story.edit(job, 25, trigger=every(15))
    story.fires(job, 30, 45)
    return story


def test_edit_of_the_trigger_is_good() -> None:
    assert edited().broken == set()


def test_fire_of_the_old_trigger_after_the_edit() -> None:
    story = edited()
    story.fire(story.history.runs[0].job_id, 50, version=1)
    assert story.broken == {"S2"}


def test_fire_of_the_old_version_after_an_edit_that_keeps_the_trigger() -> None:
    story = Story()
    job = story.job(every(10))
    story.fires(job, 10, 20)
    story.edit(job, 25, priority=Priority.HIGH)
    story.fires(job, 30, 40)
    assert story.broken == {"S1"}
    story.fire(job, 50)
    assert story.broken == set()
    story.alter(story.history.runs[-1].id, version=1)
    assert story.broken == {"S2"}


def test_fire_that_was_due_at_the_edit_may_be_of_either_version() -> None:
    story = Story()
    job = story.job(every(10))
    story.fires(job, 10)
    story.edit(job, 20.01, priority=Priority.HIGH)
    story.fire(job, 20, late=0.05, version=2)
    story.fires(job, 30, 40, 50)
    assert story.broken == set()


def test_what_was_due_at_an_edit_is_caught_up() -> None:
    story = Story()
    job = story.job(every(10))
    story.fires(job, 10)
    fire_range = story.catch_up(job, 20, 20, "edited", when=20.1)
    story.make_up(job, fire_range, 20, 20.5)
    story.edit(job, 20.1, trigger=every(45))
    story.fires(job, 45)
    assert story.broken == set()


@pytest.mark.parametrize("instant", [30, 40])
def test_nothing_is_owed_after_a_delete(instant: int) -> None:
    story = Story()
    job = story.job(every(10))
    story.fires(job, 10, 20)
    story.delete(job, 25)
    assert story.broken == set()
    story.fire(job, instant)
    assert story.broken == {"S2"}


def test_what_was_due_at_a_delete_is_a_gap() -> None:
    story = Story()
    job = story.job(every(10))
    story.fires(job, 10)
    story.gap(job, 20, 20, "deleted", when=20.1)
    story.delete(job, 20.1)
    assert story.broken == set()


def test_gap_for_a_delete_that_never_was_is_no_record() -> None:
    story = Story()
    job = story.job(every(10))
    story.fires(job, 10, 30, 40, 50)
    story.gap(job, 20, 20, "deleted", when=20.1)
    assert story.broken == {"S1"}


def test_gap_without_a_known_reason_is_no_record() -> None:
    story = Story()
    job = story.job(every(10))
    story.fires(job, 10, 30, 40, 50)
    story.gap(job, 20, 20, "tired", when=20.1)
    assert story.broken == {"S1"}


def test_instants_at_which_a_change_may_have_taken_effect_are_not_judged() -> None:
    story = edited()
    story.history.changes[1] = replace(story.history.changes[1], at=at(18), until=at(25))
    del story.history.runs[1]
    del story.history.effects[1]
    story.history.events.clear()
    assert story.broken == set()


# -- Once ------------------------------------------------------------------------------------------------------


def test_instant_that_had_passed_at_the_creation_is_owed() -> None:
    story = Story()
    job = story.job(Once(at(-5)), when=1)
    assert story.broken == {"S1"}
    story.fire(job, -5, late=6.1)
    assert story.broken == set()


def test_instant_that_had_passed_at_an_edit_may_fire_or_not() -> None:
    story = Story()
    job = story.job()
    story.edit(job, 10, trigger=Once(at(5)))
    assert story.broken == set()
    story.fire(job, 5, late=5.1)
    assert story.broken == set()


def test_once_is_once() -> None:
    story = Story()
    story.fires(story.job(Once(at(7))), 7, 7)
    assert story.broken == {"S1"}


# -- pauses ----------------------------------------------------------------------------------------------------


def test_pause_with_its_gap_is_good() -> None:
    assert paused().broken == set()


def test_fire_during_a_pause() -> None:
    story = paused()
    story.fire(story.history.runs[0].job_id, 30)
    assert story.broken == {"S2"}


def test_pause_without_a_gap() -> None:
    story = paused()
    story.history.fire_ranges.clear()
    assert story.broken == {"S1"}


def test_pause_with_two_gaps() -> None:
    story = paused()
    story.gap(story.history.runs[0].job_id, 30, 45, "paused", when=25)
    assert story.broken == {"S1"}


@pytest.mark.parametrize(
    "changes", [{"from_at": at(31)}, {"to_at": at(39)}, {"reason": "misfire"}, {"version": 2}]
)
def test_gap_that_does_not_cover_its_pause(changes: dict[str, Any]) -> None:
    story = paused()
    story.history.fire_ranges[0] = replace(story.history.fire_ranges[0], **changes)
    assert "S1" in story.broken


def test_catch_up_does_not_stand_for_a_pause() -> None:
    story = paused()
    story.history.fire_ranges[0] = replace(
        story.history.fire_ranges[0], kind=FireRangeKind.CATCH_UP, cursor_at=None
    )
    assert "S1" in story.broken


def test_gap_that_stays_open_after_its_pause_hides_nothing() -> None:
    story = paused()
    story.history.fire_ranges[0] = replace(story.history.fire_ranges[0], to_at=None, is_open=True)
    assert story.broken == {"S1"}  # the fire at 50 has two records
    run_id = story.history.runs.pop().id
    story.history.effects = [effect for effect in story.history.effects if effect.run_id != run_id]
    story.history.events = [event for event in story.history.events if event.run_id != run_id]
    assert story.broken == {"S1"}  # and here a wrong one


def test_what_was_due_and_not_made_is_part_of_the_pause() -> None:
    story = Story()
    job = story.job(every(10))
    story.fires(job, 10)
    story.pause(job, 20.1)
    story.gap(job, 20, 45, "paused", when=20.1)
    story.resume(job, 45)
    story.fires(job, 50)
    assert story.broken == set()


def test_pause_that_lasts_has_an_open_gap() -> None:
    story = Story()
    job = story.job(every(10))
    story.fires(job, 10)
    story.pause(job, 15)
    story.gap(job, 20, None, "paused", when=15)
    assert story.broken == set()


def test_edit_of_the_trigger_during_a_pause_has_a_gap_for_each() -> None:
    story = Story()
    job = story.job(every(10))
    story.fires(job, 10)
    story.pause(job, 15)
    story.gap(job, 20, 25, "paused", when=15)
    story.edit(job, 25, trigger=every(4))
    story.gap(job, 28, 45, "paused", when=25)
    story.resume(job, 45)
    story.fires(job, 48, 52, 56)
    assert story.broken == set()
    story.history.fire_ranges.pop()
    assert story.broken == {"S1"}


# -- fire ranges -----------------------------------------------------------------------------------------------------


def caught_up() -> Story:
    """The fires of 10 to 30 are missed in an outage and made up for from 35 on."""
    story = Story()
    job = story.job(every(10), misfire=grace(1, "fire_all"))
    story.fault(5, 34)
    fire_range = story.catch_up(job, 10, 30, "misfire", when=35)
    for instant in (10, 20, 30):
        story.make_up(job, fire_range, instant, 35.5)
    story.fires(job, 40, 50)
    return story


def test_catch_up_is_good() -> None:
    assert caught_up().broken == set()


def test_fire_that_a_catch_up_left_out() -> None:
    story = caught_up()
    run_id = story.history.runs.pop(1).id
    story.history.effects = [effect for effect in story.history.effects if effect.run_id != run_id]
    story.history.events = [event for event in story.history.events if event.run_id != run_id]
    assert story.broken == {"S1"}


def test_fire_that_a_catch_up_has_still_to_make_is_on_record() -> None:
    story = Story(read_at=37)
    job = story.job(every(10), misfire=grace(1, "fire_all"))
    story.fault(5, 34)
    fire_range = story.catch_up(job, 10, 30, "misfire", when=35, cursor_at=at(20), is_open=True)
    for instant in (10, 20):
        story.make_up(job, fire_range, instant, 35.5)
    assert story.broken == set()
    story.fire(job, 30, late=5.5, fire_range_id=fire_range, due_at=at(35.5))
    assert story.broken == {"S1", "S2"}  # before the fire range came to it, and so twice on record


def test_fire_ranges_that_overlap() -> None:
    story = Story()
    job = story.job(every(10), misfire=grace(1, "skip"))
    story.fault(5, 34)
    story.gap(job, 10, 30, "misfire", when=35)
    story.fires(job, 40, 50)
    assert story.broken == set()
    story.gap(job, 20, 30, "misfire", when=35)
    assert story.broken == {"S1"}


@pytest.mark.parametrize(
    "changes",
    [
        {"job_id": None},
        {"version": 9},
        {"kind": FireRangeKind.GAP},
        {"cursor_at": at(5)},
        {"from_at": at(31)},
    ],
)
def test_run_that_its_fire_range_does_not_know(changes: dict[str, Any]) -> None:
    story = caught_up()
    if "job_id" in changes:
        changes = {"job_id": story.job()}
    story.history.fire_ranges[0] = replace(story.history.fire_ranges[0], **changes)
    assert "S2" in story.broken


def test_run_of_no_fire_range() -> None:
    story = caught_up()
    story.history.fire_ranges.clear()
    assert story.broken == {"S2"}


# -- due instants ----------------------------------------------------------------------------------------------


def test_jitter_moves_the_start_and_not_the_fire() -> None:
    story = Story()
    job = story.job(every(30), jitter=seconds(5))
    story.fire(job, 30, due_at=at(34.9))
    assert story.broken == set()


def test_start_later_than_the_jitter() -> None:
    story = Story()
    job = story.job(every(30), jitter=seconds(5))
    story.fire(job, 30, due_at=at(35.1))
    assert story.broken == {"L1"}


def test_start_before_the_fire_time() -> None:
    story = Story()
    story.fire(story.job(every(30)), 30, due_at=at(29.5))
    assert story.broken == {"S19"}


@pytest.mark.parametrize(("jitter", "is_missed"), [(5, False), (3, True)])
def test_a_pause_that_skips_leaves_out_what_jitter_held_back_until_it_began(
    jitter: int, is_missed: bool
) -> None:
    story = Story()
    job = story.job(every(10), jitter=timedelta(seconds=jitter))
    story.fires(job, 10)
    story.history.pausings.append(
        Pausing(
            at=at(24),
            by=at(24),
            place=0,
            scope="queue",
            name="default",
            since=at(24),
            until=at(36),
            mode="skip",
        )
    )
    story.gap(job, 20, 30, "paused", when=35)
    story.fires(job, 40, 50)
    assert ("S1" in story.broken) == is_missed
