"""S5 to S8, S13, S19, S25, S27: what runs did is what is on record of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.ids import RunId
from mainspring.core.model import Delivery, Overlap
from mainspring.core.once import DebounceRule
from mainspring.core.retry import Backoff, RetryPolicy, retry_delay
from mainspring.core.states import RunState
from mainspring.testing.factories import at
from tests.unit.judge.histories import RETRY, Story, every, grace, seconds
from tools.judge.retries import shortest_wait


def told(*tries: str, **spec: Any) -> tuple[Story, RunId]:
    """A story of one run whose attempts end like that. Its events are left out, they have rules of their own."""
    story = Story()
    run_id = story.submit(story.job(**spec), 10, *tries)
    story.history.events.clear()
    return story, run_id


# -- good ones -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tries",
    [
        ("done",),
        ("failed", "done"),
        ("timed_out", "done"),
        ("lost", "done"),
        ("handed_back", "done"),
        ("snoozed", "snoozed", "done"),
        ("failed", "spent"),
        ("lost", "lost", "failed", "lost", "done"),
        ("refused",),
        ("lost", "lost", "lost", "killed"),
        ("failed", "lost", "handed_back", "snoozed", "spent"),
    ],
)
def test_run_that_keeps_its_promises(tries: tuple[str, ...]) -> None:
    story = Story()
    story.submit(story.job(), 10, *tries)
    assert story.broken == set(), story.told


def test_at_most_once_may_be_snoozed_or_come_back_unbegun() -> None:
    story = Story()
    job = story.job(delivery=Delivery.AT_MOST_ONCE)
    story.submit(job, 10, "snoozed", "done")
    run_id = story.submit(job, 20, "handed_back", "done")
    story.history.effects = [
        item for item in story.history.effects if (item.run_id, item.token) != (run_id, 1)
    ]
    assert story.broken == set()


def test_at_most_once_ends_with_its_first_failure_or_loss() -> None:
    story = Story()
    job = story.job(delivery=Delivery.AT_MOST_ONCE)
    story.submit(job, 10, "killed")
    story.submit(job, 20, "spent")
    assert story.broken == set()


# -- S3 --------------------------------------------------------------------------------------------------------


def test_what_is_not_on_record_was_carried_out() -> None:
    story, _run_id = told("done")
    story.history.runs.clear()
    story.history.operations.clear()
    assert story.broken == {"S3"}


# -- S5, S7 ----------------------------------------------------------------------------------------------------


def test_at_most_once_that_starts_again() -> None:
    story, _ = told("lost", "done", delivery=Delivery.AT_MOST_ONCE)
    assert story.broken == {"S5"}


def test_at_most_once_whose_snooze_was_never_recorded_starts_again() -> None:
    story, run_id = told("snoozed", "done", delivery=Delivery.AT_MOST_ONCE)
    story.alter_attempt(run_id, 0, outcome="handed_back")
    assert story.broken == {"S5"}


def test_token_that_starts_twice() -> None:
    story, _ = told("done")
    story.history.effects.append(replace(story.history.effects[0]))
    assert story.broken == {"S7"}


def test_second_attempt_without_a_record_of_the_first() -> None:
    story, run_id = told("handed_back", "done")
    del story.attempts[run_id][0]
    assert story.broken == {"S7"}


def test_second_attempt_before_the_first_was_over() -> None:
    story, run_id = told("handed_back", "done")
    story.alter_attempt(run_id, 0, finished_at=story.history.effects[1].started_at + seconds(0.5))
    assert story.broken == {"S7"}


def test_second_attempt_within_the_slack_of_clocks() -> None:
    story, run_id = told("handed_back", "done")
    story.alter_attempt(run_id, 0, finished_at=story.history.effects[1].started_at + story.history.slack)
    assert story.broken == set()


def test_second_attempt_after_a_success() -> None:
    story, run_id = told("handed_back", "done")
    story.alter_attempt(run_id, 0, outcome="succeeded")
    assert story.broken == {"S7"}


def test_attempt_that_begins_after_its_own_end() -> None:
    story, run_id = told("handed_back", "done")
    effect = story.history.effects[0]
    effect.started_at = story.attempts[run_id][0].finished_at + seconds(0.05)
    effect.ended_at = None
    assert story.broken == {"S7"}


def test_loser_that_ends_long_after_its_loss_is_allowed() -> None:
    story, _ = told("lost", "done")
    story.history.effects[0].ended_at = at(40)
    story.history.effects[0].ending = "done"
    assert story.broken == set()


# -- S19 -------------------------------------------------------------------------------------------------------


def test_start_before_it_was_due() -> None:
    story = Story()
    run_id = story.submit(story.job(), 10, due_at=at(20))
    assert story.broken == set()
    story.history.effects[0].started_at = at(19.9)
    assert story.broken == {"S19"}
    story.history.effects[0].started_at = at(20) - story.history.slack
    assert story.broken == set()
    assert story.run(run_id).due_at == at(20)


def test_fire_that_starts_before_its_time() -> None:
    story = Story()
    run_id = story.fire(story.job(every(50)), 50)
    story.alter(run_id, due_at=at(49), created_at=at(48.5))
    story.history.effects[0].started_at = at(49.2)
    assert story.broken == {"S19"}


# -- S6, S25 ---------------------------------------------------------------------------------------------------


def test_success_without_an_effect() -> None:
    story, _ = told("done")
    story.history.effects.clear()
    assert story.broken == {"S6"}


def test_success_of_work_that_did_not_come_to_its_end() -> None:
    story, _ = told("done")
    story.history.effects[0].ended_at = story.history.effects[0].ending = None
    assert story.broken == {"S6"}


def test_success_before_the_work_was_done() -> None:
    story, run_id = told("done")
    story.history.effects[0].ended_at = at(12)
    assert story.broken == {"S6"}
    story.alter(run_id, finished_at=at(12))
    assert story.broken == set()


def test_success_of_another_attempt_than_the_last() -> None:
    story, _run_id = told("lost", "done")
    story.history.effects[0].ending = "done"
    story.history.effects[1].ending = None
    assert story.broken == {"S25"}


@pytest.mark.parametrize("result", [b"1", None, b"4"])
def test_result_of_another_attempt(result: bytes | None) -> None:
    story, run_id = told("lost", "done")
    story.alter(run_id, result=result)
    assert story.broken == {"S25"}


@pytest.mark.parametrize(
    ("outcome", "ending"), [("failed", "done"), ("failed", "snoozed"), ("snoozed", "failed")]
)
def test_outcome_that_the_job_never_gave(outcome: str, ending: str) -> None:
    story, _run_id = told(outcome, "done")
    story.history.effects[0].ending = ending
    assert story.broken == {"S25"}


@pytest.mark.parametrize("outcome", ["lost", "timed_out", "handed_back"])
@pytest.mark.parametrize("ending", ["done", "failed", None])
def test_work_whose_report_came_too_late(outcome: str, ending: str | None) -> None:
    story, _ = told(outcome, "done")
    story.history.effects[0].ending = ending
    assert story.broken == set()


# -- S13 -------------------------------------------------------------------------------------------------------


def test_failure_with_attempts_left() -> None:
    story, _ = told("spent")
    assert story.broken == {"S13"}


def test_failure_without_any_attempt() -> None:
    story, run_id = told("waiting")
    story.alter(run_id, state=RunState.FAILED, reason="lost", error="it went wrong", finished_at=at(11))
    assert story.broken == {"S13"}


def test_failure_as_lost_of_a_run_that_may_start_again() -> None:
    story, run_id = told("killed")
    story.alter(run_id, reason="lost")
    assert story.broken == {"S13"}


def test_poison_before_its_limit() -> None:
    story, _ = told("lost", "killed", poison_limit=3)
    assert story.broken == {"S13"}


def test_poison_of_what_did_not_crash_at_last() -> None:
    story, run_id = told("lost", "handed_back", poison_limit=1)
    story.alter(run_id, state=RunState.FAILED, reason="poison", error="it went wrong")
    assert story.broken == {"S13"}


def test_refusal_of_what_did_not_fail() -> None:
    story, run_id = told("killed")
    story.alter(run_id, reason="not_retryable")
    assert story.broken == {"S13"}


def test_failure_without_its_error() -> None:
    story, run_id = told("failed", "spent")
    story.alter(run_id, error=None)
    assert story.broken == {"S13"}


# -- S8 --------------------------------------------------------------------------------------------------------


def test_success_after_the_last_retry() -> None:
    story, _ = told("failed", "failed", "done")
    assert story.broken == {"S8"}


def test_run_that_waits_for_a_retry_it_has_not() -> None:
    story, run_id = told("failed", "failed")
    story.alter(run_id, ready_at=at(70))
    assert story.broken == {"S8"}


def test_failure_after_too_many_attempts() -> None:
    story, _ = told("failed", "failed", "spent")
    assert "S8" in story.broken


def test_cancelled_with_its_last_attempt() -> None:
    story = Story()
    run_id = story.submit(story.job(), 10, "failed", "waiting")
    story.attempt(run_id, "cancelled")
    story.alter_attempt(run_id, 1, outcome="failed")
    story.history.effects[-1].ending = "failed"
    story.history.events.clear()
    story.cancel(run_id, 11.7, "requested")
    assert story.broken == set(), story.told


def test_more_crashes_than_allowed() -> None:
    story, _ = told("lost", "lost", "lost", "done", poison_limit=1)
    assert story.broken == {"S8"}


def test_crashes_that_were_not_counted() -> None:
    story, run_id = told("lost", "done")
    story.alter(run_id, crashes=0)
    assert story.broken == {"S8"}


@pytest.mark.parametrize("tries", [("lost", "done"), ("failed", "done"), ("snoozed", "done")])
def test_attempt_under_a_wrong_number(tries: tuple[str, ...]) -> None:
    story, run_id = told(*tries)
    story.history.effects[1].attempt += 1
    assert story.broken == {"S8"}
    story.history.effects[1].attempt -= 1
    story.alter_attempt(run_id, 0, number=2)
    assert story.broken == {"S8"}


def test_retry_before_its_backoff_is_over() -> None:
    story, _ = told("failed", "done")
    story.history.effects[1].started_at -= seconds(0.12)
    assert story.broken == {"S8"}
    story.history.effects[1].started_at += seconds(0.015)
    assert story.broken == set()


def test_loss_has_no_backoff() -> None:
    story, run_id = told("failed", "lost", "done")
    effects = story.history.effects
    assert effects[2].started_at - story.attempts[run_id][1].finished_at < RETRY.delay
    assert story.broken == set()


@given(
    backoff=st.sampled_from([Backoff.FIXED, Backoff.LINEAR, Backoff.EXPONENTIAL, Backoff.LIST]),
    delay=st.timedeltas(timedelta(milliseconds=1), timedelta(hours=2)),
    delays=st.lists(st.timedeltas(timedelta(0), timedelta(hours=2)), min_size=1, max_size=4),
    cap=st.timedeltas(timedelta(milliseconds=1), timedelta(hours=3)),
    jitter=st.floats(0, 1),
    number=st.integers(1, 30),
)
def test_shortest_wait_is_that_of_the_policy(
    backoff: Backoff, delay: timedelta, delays: list[timedelta], cap: timedelta, jitter: float, number: int
) -> None:
    policy = RetryPolicy(backoff=backoff, delay=delay, delays=tuple(delays), cap=cap, jitter=jitter)
    shortest = retry_delay(policy, number, lambda: 0.0)
    assert abs(shortest_wait(policy, number) - shortest) <= timedelta(milliseconds=1)


# -- S1, S18: what was skipped ---------------------------------------------------------------------------------


def test_run_that_expired() -> None:
    story = Story()
    story.fault(9, 20)
    run_id = story.submit(story.job(expires_after=seconds(5)), 10, "waiting")
    story.expire(run_id, 15.2)
    assert story.broken == set(), story.told


@pytest.mark.parametrize(("after", "rules"), [(4.9, set()), (5.2, {"S1"})])
def test_run_that_begins_after_its_expiry(after: float, rules: set[str]) -> None:
    story = Story()
    story.fault(5, 20)
    run_id = story.submit(story.job(expires_after=seconds(5)), 10, "waiting")
    story.attempt(run_id, "done", after=seconds(after))
    assert story.broken == rules


@pytest.mark.parametrize(("after", "rules"), [(8.9, set()), (9.2, {"S1"})])
def test_expiry_of_a_debounced_run_is_put_off_with_its_start(after: float, rules: set[str]) -> None:
    story = Story()
    story.fault(5, 20)
    rule = DebounceRule(wait=seconds(1), max_wait=seconds(4))
    run_id = story.submit(story.job(expires_after=seconds(5), debounce=rule), 10, "waiting")
    story.attempt(run_id, "done", after=seconds(after))
    assert ("S1" in story.broken) == ("S1" in rules)


def test_run_that_was_given_in_time_may_be_carried_out_again_after_its_expiry() -> None:
    story = Story()
    story.fault(5, 20)
    run_id = story.submit(story.job(expires_after=seconds(5)), 10, "lost", "waiting")
    story.attempt(run_id, "done", after=seconds(9))
    assert story.broken == set()


def test_fire_that_is_skipped_for_an_invented_reason() -> None:
    story = Story()
    job = story.job(every(10))
    story.fires(job, 10, 20, 30, 40)
    story.fire(job, 50, reason="weather")
    assert story.broken == {"S1"}


def test_fire_that_is_skipped_by_a_blackout_that_there_was_not() -> None:
    story = Story()
    job = story.job(every(10))
    story.fires(job, 10, 20, 30, 40)
    story.fire(job, 50, reason="blackout")
    assert story.broken == {"S35"}


def test_run_that_goes_back_and_forth() -> None:
    story = Story()
    run_id = story.submit(story.job(), 10, *["handed_back"] * 6, "waiting")
    story.attempt(run_id, "done")
    assert story.broken == {"S8"}
    story.fault(1, 2)
    assert story.broken == set()


def test_run_that_expired_too_soon() -> None:
    story = Story()
    story.fault(9, 20)
    run_id = story.submit(story.job(expires_after=seconds(5)), 10, "waiting")
    story.expire(run_id, 14.9)
    assert story.broken == {"S1"}


def test_run_that_expired_though_it_never_does() -> None:
    story = Story()
    story.fault(9, 20)
    run_id = story.submit(story.job(), 10, "waiting")
    story.expire(run_id, 15.2)
    assert story.broken == {"S1"}


def test_overlap_of_a_job_that_allows_it() -> None:
    story = Story()
    job = story.job(every(50), overlap=Overlap.ALLOW)
    story.fire(job, 50, reason="overlap")
    story.history.events.clear()
    assert story.broken == {"S18"}


# -- S27 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tries", [("waiting",), ("lost",), ("handed_back",), ("failed",), ("snoozed",)])
def test_run_that_is_stuck(tries: tuple[str, ...]) -> None:
    story, _ = told(*tries)
    assert story.broken == {"S27"}


def test_run_that_is_stuck_while_it_runs() -> None:
    story, run_id = told("waiting")
    story.alter(run_id, state=RunState.RUNNING, token=1)
    assert story.broken == {"S27"}


def test_run_that_is_not_yet_due() -> None:
    story = Story()
    story.submit(story.job(), 10, "waiting", due_at=at(70))
    story.submit(story.job(), 59, "waiting")
    assert story.broken == set()


def open_catch_up(*, idle: float) -> Story:
    """A catch-up that comes to nothing for so many seconds after the system was whole again."""
    story = Story(read_at=100 + idle)
    job = story.job(every(10), misfire=grace(1, "fire_all"))
    story.fault(5, 91)
    story.catch_up(job, 10, 80, "misfire", when=92, cursor_at=None, is_open=True)
    story.fires(job, *range(90, int(100 + idle) - 3, 10))
    return story


@pytest.mark.parametrize(("idle", "rules"), [(5, set()), (15, set()), (40, {"S27"})])
def test_catch_up_that_is_stuck(idle: float, rules: set[str]) -> None:
    assert open_catch_up(idle=idle).broken == rules


@pytest.mark.parametrize("hold", [Story.pause, Story.delete])
def test_catch_up_of_a_job_that_is_held(hold: Callable[..., None]) -> None:
    story = open_catch_up(idle=5)
    job = story.history.changes[0].job_id
    hold(story, job, 104.5)
    story.gap(job, 110, None, "paused" if hold is Story.pause else "deleted", when=104.5)
    story.history.read_at = at(200)
    assert story.broken == set(), story.told
