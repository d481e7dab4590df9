"""Rules judged from outside, where no transitions were recorded: by what was surely so."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.ids import JobId, RunId
from mainspring.core.limits import Hold, JobLimit
from mainspring.core.model import Overlap
from mainspring.core.once import DebounceRule, OnConflict, ThrottleRule, UniqueRule, UniqueScope
from mainspring.core.rates import parse_rate
from mainspring.testing.factories import at
from tests.unit.judge.histories import Story, every
from tools.judge import Bound, ChangeKind, Operation, Pausing, judge


def seen_from_outside(story: Story) -> set[str]:
    """Judge without the events; return the rules that are broken."""
    history = story.history
    history.events.clear()
    history.grants.clear()
    verdict = judge(history)
    return {violation.rule for violation in verdict.violations}


def ask(
    story: Story,
    job: JobId,
    when: float,
    *,
    run: RunId | None = None,
    key: str = "a",
    number: int = 0,
    status: str = "submitted",
    **facts: Any,
) -> None:
    """Note a submission that was answered at once."""
    story.history.operations.append(
        Operation(
            kind="submit",
            job_id=job,
            asked_at=at(when),
            answered_at=at(when + 0.05),
            outcome="refused" if status == "rejected" else "ok",
            key=f"request-{len(story.history.operations)}",
            run_id=run,
            status=status,
            payload={"key": key, "number": number},
            **facts,
        )
    )


def submit(story: Story, job: JobId, when: float, *tries: str, key: str = "a", number: int = 0) -> RunId:
    """Submit a run under a key; it is claimed 0.1 s later, and takes half a second."""
    payload = json.dumps({"key": key, "number": number}).encode()
    run_id = story.submit(job, when, *tries, payload=payload)
    story.history.operations.pop()
    ask(story, job, when, run=run_id, key=key, number=number)
    return run_id


def limited(hold: Hold = Hold.ATTEMPT, **rule: Any) -> tuple[Story, JobId]:
    story = Story()
    return story, story.job(concurrency=(JobLimit(key="$.key", hold=hold, **rule),))


# -- limits ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cap", "rules"), [(1, {"S14"}), (2, set()), (None, set())])
def test_cap_of_a_queue_is_kept_by_all_its_jobs(cap: int | None, rules: set[str]) -> None:
    story = Story()
    for queue in ("capped", "capped", "open"):
        submit(story, story.job(queue=queue), 10.0)
    story.history.bounds.append(Bound(name="queue:capped", at=at(0), until=at(0), cap=cap))
    assert seen_from_outside(story) == rules


def test_runs_of_a_key_that_follow_one_another_are_good() -> None:
    story, job = limited(limit=1)
    submit(story, job, 10.0)
    submit(story, job, 10.0, key="b")
    submit(story, job, 11.0)
    assert seen_from_outside(story) == set()


def test_two_runs_of_a_key_at_a_time_are_more_than_one() -> None:
    story, job = limited(limit=1)
    submit(story, job, 10.0)
    submit(story, job, 10.2)
    assert seen_from_outside(story) == {"S14"}


def test_a_lost_attempt_has_its_place_until_it_is_declared_lost() -> None:
    story, job = limited(limit=1)
    submit(story, job, 10.0, "lost", "done")
    submit(story, job, 12.0)
    assert seen_from_outside(story) == {"S14"}


@pytest.mark.parametrize(("hold", "rules"), [(Hold.ATTEMPT, set[str]()), (Hold.RUN, {"S14"})])
def test_a_place_of_a_run_is_kept_between_attempts(hold: Hold, rules: set[str]) -> None:
    story, job = limited(hold, limit=1)
    submit(story, job, 10.0, "failed", "done")  # fails at 10.6, and goes on at 11.7
    submit(story, job, 10.7)  # has ended by 11.3
    assert seen_from_outside(story) == rules


def shared(*caps: tuple[float, int]) -> tuple[Story, JobId]:
    story = Story()
    story.history.bounds += [
        Bound(name="crm", at=at(when), until=at(when + 0.5), cap=cap) for when, cap in caps
    ]
    return story, story.job(concurrency=(JobLimit(use="crm"),))


def test_a_lower_cap_holds_for_what_starts_after_it_and_stops_nobody() -> None:
    story, job = shared((0, 2), (10.25, 1))
    submit(story, job, 10.0)
    submit(story, job, 10.1)
    assert seen_from_outside(story) == set()
    story, job = shared((0, 2), (8, 1))
    submit(story, job, 10.0)
    submit(story, job, 10.1)
    assert seen_from_outside(story) == {"S14"}


def test_more_starts_than_permits_are_noticed() -> None:
    story = Story()
    job = story.job(concurrency=(JobLimit(rate=parse_rate("1/s"), burst=2),))
    for when in (10.0, 10.0, 11.0):
        submit(story, job, when)
    assert seen_from_outside(story) == set()
    submit(story, job, 11.1)
    assert seen_from_outside(story) == {"S14"}


def test_a_start_whose_permit_may_have_been_taken_later_is_good() -> None:
    story = Story()
    job = story.job(concurrency=(JobLimit(rate=parse_rate("1/s"), burst=1),))
    submit(story, job, 10.0)
    late = submit(story, job, 10.0)
    effect = story.history.effects[-1]
    effect.started_at, effect.ended_at = at(11.2), at(11.7)
    story.alter(late, finished_at=at(11.8))
    assert seen_from_outside(story) == set()


# -- one at a time -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", [Overlap.QUEUE_ONE, Overlap.QUEUE_ALL, Overlap.CANCEL_RUNNING])
def test_runs_of_a_line_side_by_side_are_noticed(overlap: Overlap) -> None:
    story = Story()
    job = story.job(overlap=overlap)
    submit(story, job, 10.0)
    submit(story, job, 10.2)
    assert seen_from_outside(story) == {"S14"}


def test_a_fire_is_skipped_only_while_one_waits() -> None:
    for begins_at, rules in ((19.0, {"S18"}), (20.5, set[str]())):
        story = Story(read_at=25)
        job = story.job(every(10), overlap=Overlap.QUEUE_ONE)
        story.fire(job, 10)
        story.fire(job, 20, reason="overlap")
        waiting = submit(story, job, 18.0)
        effect = story.history.effects[-1]
        effect.started_at, effect.ended_at = at(begins_at), at(begins_at + 0.5)
        story.alter(waiting, finished_at=at(begins_at + 0.6))
        assert seen_from_outside(story) == rules


# -- once only ---------------------------------------------------------------------------------------------------


def once(**rule: Any) -> tuple[Story, JobId]:
    story = Story()
    return story, story.job(**rule)


LIVE = UniqueRule(key="$.key")
QUEUED = UniqueRule(key="$.key", scope=UniqueScope.QUEUED)


def test_two_live_runs_of_a_key_are_noticed() -> None:
    story, job = once(unique=LIVE)
    submit(story, job, 10.0)
    submit(story, job, 11.0)
    assert seen_from_outside(story) == set()
    submit(story, job, 11.2)
    assert seen_from_outside(story) == {"S15"}


def test_what_runs_does_not_keep_out_what_waits() -> None:
    story, job = once(unique=QUEUED)
    submit(story, job, 10.0)
    submit(story, job, 10.3)
    assert seen_from_outside(story) == set()


def test_two_waiting_runs_of_a_key_are_noticed() -> None:
    story, job = once(unique=QUEUED)
    submit(story, job, 10.0)
    first = story.history.effects[-1]
    first.started_at, first.ended_at = at(12.0), at(12.5)
    run_id = story.history.runs[-1].id
    story.alter(run_id, started_at=at(11.9), finished_at=at(12.6))
    submit(story, job, 11.0)
    assert seen_from_outside(story) == {"S15"}


def test_a_run_that_was_taken_by_a_worker_that_died_at_once_has_left_its_key() -> None:
    story, job = once(unique=QUEUED)
    submit(story, job, 10.0, "lost", "done")  # taken at 10.1, and again after it was lost at 16.1
    del story.history.effects[0]
    submit(story, job, 11.0)
    assert seen_from_outside(story) == set()


def test_runs_within_a_period_are_noticed() -> None:
    rule = UniqueRule(key="$.key", scope=UniqueScope.PERIOD, period=timedelta(seconds=5))
    story, job = once(unique=rule)
    submit(story, job, 10.0)
    submit(story, job, 15.0)
    assert seen_from_outside(story) == set()
    submit(story, job, 19.5)
    assert seen_from_outside(story) == {"S15"}


def test_more_than_a_throttle_lets_through_is_noticed() -> None:
    story, job = once(throttle=ThrottleRule(key="$.key", limit=2, per=timedelta(seconds=10)))
    for when in (10.0, 10.0, 15.0):
        submit(story, job, when)
    assert seen_from_outside(story) == set()
    submit(story, job, 16.0)
    assert seen_from_outside(story) == {"S15"}


def test_a_run_is_given_the_payload_that_came_last_before_it_was_taken() -> None:
    rule = replace(QUEUED, on_conflict=OnConflict.REPLACE)
    for given, rules in ((2, set[str]()), (1, {"S15"})):
        story, job = once(unique=rule)
        run_id = submit(story, job, 10.0, number=1)
        run = story.run(run_id)
        story.alter(run_id, started_at=at(11.0))
        effect = story.history.effects[-1]
        effect.started_at, effect.ended_at = at(11.1), at(11.5)
        story.alter(run_id, finished_at=at(11.6))
        ask(story, job, 10.5, run=run_id, number=2, status="replaced")
        ask(story, job, 11.05, run=run_id, number=3, status="replaced")
        story.history.seen = {(run_id, run.token): given}
        assert seen_from_outside(story) == rules


def test_a_debounced_run_does_not_start_before_its_time() -> None:
    for starts_at, rules in ((11.6, set[str]()), (11.2, {"S15"})):
        story, job = once(debounce=DebounceRule(key="$.key", wait=timedelta(seconds=1)))
        run_id = submit(story, job, 10.0)
        ask(story, job, 10.5, run=run_id, number=1, status="debounced")
        effect = story.history.effects[-1]
        effect.started_at, effect.ended_at = at(starts_at + 0.1), at(starts_at + 0.5)
        story.alter(run_id, started_at=at(starts_at), finished_at=at(starts_at + 0.6))
        assert seen_from_outside(story) == rules


def test_a_key_that_is_not_free_when_all_is_over_is_noticed() -> None:
    story, job = once(unique=LIVE)
    run_id = submit(story, job, 10.0)
    ask(story, job, 50.0, run=run_id, number=2, status="existing", is_probe=True)
    assert seen_from_outside(story) == {"S15"}


# -- pauses, backfills, jobs that pause themselves ---------------------------------------------------------------


def test_a_claim_within_a_pause_is_noticed_and_one_that_may_have_come_before_is_not() -> None:
    for by, rules in ((9.5, {"S34"}), (10.15, set[str]())):
        story = Story()
        submit(story, story.job(), 10.0)
        story.history.pausings += [
            Pausing(at=at(9), by=at(by), place=0, scope="queue", name="default", since=at(9)),
            Pausing(
                at=at(12), by=at(12), place=0, scope="queue", name="default", since=at(12), is_lifted=True
            ),
        ]
        assert seen_from_outside(story) == rules


def test_an_end_of_a_pause_counts_as_soon_as_it_may_have_come() -> None:
    story = Story()
    submit(story, story.job(), 10.0)
    story.history.pausings += [
        Pausing(at=at(9), by=at(9.2), place=0, scope="queue", name="default", since=at(9)),
        Pausing(at=at(10), by=at(13), place=0, scope="queue", name="default", since=at(10), is_lifted=True),
    ]
    assert seen_from_outside(story) == set()


def test_a_job_that_pauses_itself_too_early_is_noticed() -> None:
    for failures, rules in ((2, set[str]()), (1, {"P1"})):
        story = Story(read_at=30)
        job = story.job(pause_after_failures=2)
        for index in range(failures):
            submit(story, job, 10.0 + 3 * index, "failed", "spent", number=index)
        story.pause(job, 20.0)
        story.history.changes[-1] = replace(story.history.changes[-1], is_by_itself=True)
        assert story.history.changes[-1].kind is ChangeKind.PAUSED
        assert seen_from_outside(story) == rules
