"""S9 to S12 and S18: the order of what the store committed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mainspring.core.ids import RunId, SessionId
from mainspring.core.model import Overlap
from mainspring.core.states import RunState
from mainspring.testing.factories import at
from tests.unit.judge.histories import Story, every, seconds
from tools.judge import Event


def told(*tries: str) -> tuple[Story, RunId]:
    story = Story()
    return story, story.submit(story.job(), 10, *tries)


def add(story: Story, when: float, target: RunState, what: str, token: int) -> None:
    run = story.history.runs[0]
    story.event(at(when), run, target, what, token=token)


@pytest.mark.parametrize(
    "tries", [("done",), ("lost", "done"), ("failed", "spent"), ("handed_back", "snoozed", "done")]
)
def test_legal_steps_are_good(tries: tuple[str, ...]) -> None:
    story, _ = told(*tries)
    assert story.broken == set()


def test_refused_writes_are_no_steps() -> None:
    story, _ = told("lost", "done")
    add(story, 30, RunState.SUCCEEDED, "succeeded", 1)
    story.alter_event(-1, is_stale=True)
    assert story.broken == set()


@pytest.mark.parametrize(("token", "rules"), [(1, set()), (2, set()), (3, {"S9"})])
def test_holder_is_not_refused(token: int, rules: set[str]) -> None:
    story, _ = told("lost", "done")
    story.history.events.insert(4, replace(story.history.events[4], token=token, is_stale=True))
    assert story.broken == rules


def test_another_sessions_write_may_be_refused() -> None:
    story, _ = told("done")
    end = story.history.events[-1]
    story.history.events.insert(-1, replace(end, session_id=SessionId(7), is_stale=True))
    assert story.broken == set()


def test_without_events_nothing_is_judged() -> None:
    story, _ = told("done")
    story.history.events.clear()
    assert story.broken == set()


# -- S12 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target", [RunState.RUNNING, RunState.RETRYING, RunState.SUCCEEDED, RunState.CANCELLED]
)
def test_run_that_begins_in_its_middle(target: RunState) -> None:
    story, _ = told("waiting")
    story.alter_event(0, target=target)
    story.alter(story.history.runs[0].id, ready_at=at(90), state=target)
    assert "S12" in story.broken


@pytest.mark.parametrize("target", [RunState.BLOCKED, RunState.SUCCEEDED, RunState.RETRYING])
def test_step_that_is_not_legal(target: RunState) -> None:
    story, _ = told("done")
    story.alter_event(1, target=target)
    assert story.broken == {"S12"}


def test_claim_that_is_missing() -> None:
    story, _ = told("done")
    del story.history.events[1]
    assert story.broken == {"S12"}


# -- S9 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", [0, 1, 2])
def test_token_that_does_not_grow(token: int) -> None:
    story, _ = told("lost", "done")
    story.alter_event(3, token=min(token, 1))
    assert story.broken == {"S9"}


@pytest.mark.parametrize("token", [1, 2, 4])
def test_end_under_a_token_that_is_not_the_holders(token: int) -> None:
    story, _ = told("lost", "done")
    story.alter_event(4, token=token)
    assert story.broken == {"S9"}


def test_end_by_a_session_that_is_not_the_holder() -> None:
    story, _ = told("lost", "done")
    story.alter_event(4, session_id=SessionId(7))
    assert story.broken == {"S9"}


def test_end_that_nobody_could_bring_about() -> None:
    story, run_id = told("lost")
    add(story, 20, RunState.CANCELLED, "cancelled", 1)
    story.alter(run_id, state=RunState.CANCELLED, reason="cancelled", finished_at=at(20))
    story.ask("cancel", story.history.runs[0].job_id, 19, "unknown", run_id=run_id)
    assert story.broken == {"S9"}


def test_cancel_and_expiry_of_a_waiting_run_need_no_holder() -> None:
    story = Story()
    job = story.job(expires_after=seconds(3))
    story.fault(9, 20)
    story.cancel_waiting(story.submit(job, 10, "waiting"), 11)
    story.cancel(story.history.runs[0].id, 11, "cancelled")
    story.expire(story.submit(job, 10, "waiting"), 13.1)
    assert story.broken == set()


# -- S11 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tries", [("done",), ("failed", "spent")])
@pytest.mark.parametrize("target", [RunState.RUNNING, RunState.SUCCEEDED, RunState.PENDING])
def test_step_after_the_end(tries: tuple[str, ...], target: RunState) -> None:
    story, run_id = told(*tries)
    add(story, 30, target, "claimed", 9)
    assert story.broken == {"S11"}
    assert run_id


def test_end_that_is_not_what_is_on_record() -> None:
    story, run_id = told("done")
    story.alter_event(-1, target=RunState.CANCELLED)
    assert story.broken == {"S11"}
    assert story.run(run_id).state is RunState.SUCCEEDED


def test_end_that_is_not_on_record_at_all() -> None:
    story, _ = told("done")
    del story.history.events[-1]
    assert story.broken == {"S11"}


def test_committed_run_that_is_not_on_record() -> None:
    story, _ = told("waiting")
    story.history.runs.clear()
    story.history.operations.clear()
    assert story.broken == {"S3"}


# -- S18 -------------------------------------------------------------------------------------------------------


def overlapping(overlap: Overlap = Overlap.SKIP) -> Story:
    """The run of 10 goes on until 25, so that of 20 is passed over."""
    story = Story()
    job = story.job(every(10), overlap=overlap)
    first = story.fire(job, 10, "waiting")
    story.attempt(first, "done", work=seconds(15))
    story.fire(job, 20, reason="overlap")
    story.fires(job, 30, 40, 50)
    return story


def test_overlap_that_is_passed_over_is_good() -> None:
    assert overlapping().broken == set()


def test_overlaps_that_are_allowed_are_good() -> None:
    story = Story()
    job = story.job(every(10))
    story.attempt(story.fire(job, 10, "waiting"), "done", work=seconds(15))
    story.fires(job, 20, 30, 40, 50)
    assert story.broken == set()


def test_overlap_that_is_fired() -> None:
    story = Story()
    job = story.job(every(10), overlap=Overlap.SKIP)
    story.attempt(story.fire(job, 10, "waiting"), "done", work=seconds(15))
    story.fires(job, 20, 30, 40, 50)
    assert story.broken == {"S18"}


def test_submitted_run_is_live_too() -> None:
    story = Story()
    job = story.job(every(50), overlap=Overlap.SKIP)
    story.attempt(story.submit(job, 48, "waiting"), "done", work=seconds(5))
    story.fire(job, 50)
    assert story.broken == {"S18"}


def test_submission_is_never_passed_over() -> None:
    story = Story()
    job = story.job(every(50), overlap=Overlap.SKIP)
    story.attempt(story.fire(job, 50, "waiting"), "done", work=seconds(5))
    story.submit(job, 51)
    assert story.broken == set()


def test_fire_that_is_passed_over_for_nothing() -> None:
    story = Story()
    job = story.job(every(10), overlap=Overlap.SKIP)
    story.fires(job, 10)
    story.fire(job, 20, reason="overlap")
    story.fires(job, 30, 40, 50)
    assert story.broken == {"S18"}


def test_fire_that_is_passed_over_though_overlaps_are_allowed() -> None:
    assert overlapping(Overlap.ALLOW).broken == {"S18"}


def test_policy_is_that_of_the_version() -> None:
    story = Story()
    job = story.job(every(10))
    story.attempt(story.fire(job, 10, "waiting"), "done", work=seconds(25))
    story.fire(job, 20)
    story.edit(job, 25, overlap=Overlap.SKIP)
    story.fire(job, 30, reason="overlap")
    story.fires(job, 40, 50)
    assert story.broken == set(), story.told
    story.history.runs[2] = replace(story.history.runs[2], version=1)
    assert "S18" in story.broken


# -- S10 -------------------------------------------------------------------------------------------------------


def test_rights_that_are_given_and_used_are_good() -> None:
    story = Story()
    story.grant("shard 1", "used", epoch=1)
    story.grant("shard 1", "given", epoch=2, actor="server-2")
    story.grant("shard 1", "used", epoch=2, actor="server-2")
    story.grant("session 1", "used")
    story.grant("session 1", "used", actor="server-2")
    assert story.broken == set()


def test_write_under_an_epoch_that_is_over() -> None:
    story = Story()
    story.grant("shard 1", "given", epoch=2, actor="server-2")
    story.grant("shard 1", "used", epoch=1)
    assert story.broken == {"S10"}


def test_write_under_somebody_elses_epoch() -> None:
    story = Story()
    story.grant("shard 1", "used", epoch=1, actor="server-2")
    assert story.broken == {"S10"}


@pytest.mark.parametrize("what", ["shard 7", "session 7"])
def test_write_under_a_right_that_was_never_given(what: str) -> None:
    story = Story()
    story.grant(what, "used", epoch=int(what == "shard 7"))
    assert story.broken == {"S10"}


def test_write_under_a_session_that_has_ended() -> None:
    story = Story()
    story.grant("session 1", "ended")
    story.grant("session 1", "used")
    assert story.broken == {"S10"}


@pytest.mark.parametrize("epoch", [0, 1])
def test_epoch_that_does_not_grow(epoch: int) -> None:
    story = Story()
    story.grant("shard 1", "given", epoch=epoch, actor="server-2")
    assert story.broken == {"S10"}


def test_session_that_is_given_twice() -> None:
    story = Story()
    story.grant("session 1", "given")
    assert story.broken == {"S10"}


def test_event_has_a_story() -> None:
    story, _ = told("done")
    story.alter_event(2, token=7)
    assert "succeeded by server-1: SUCCEEDED, token 7" in story.told
    assert isinstance(story.history.events[0], Event)


# -- S23: deaths -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "end", "rules"),
    [
        ("outage", 40, {"S23"}),
        ("full", 40, {"S23"}),
        ("pause", 40, set()),
        ("cut", 40, set()),
        ("pause", 3, {"S23"}),
    ],
)
def test_living_worker_dies_of_its_own_fault_only(kind: str, end: float, rules: set[str]) -> None:
    story = Story()
    story.fault(2, end, kind)
    story.grant("session 9", "given", when=1)
    story.grant("session 9", "used", when=2)
    story.grant("session 9", "expired", when=41)
    assert story.broken == rules


def test_session_that_its_worker_never_heard_of_may_end() -> None:
    story = Story()
    story.grant("session 9", "given", when=1)
    story.grant("session 9", "expired", when=41)
    assert story.broken == set()


def test_nothing_is_accepted_from_the_dead() -> None:
    story = Story()
    story.fault(2, 40, "pause")
    story.grant("session 9", "given")
    story.grant("session 9", "expired", when=41)
    story.grant("session 9", "used", when=42)
    assert story.broken == {"S10"}
