from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.ids import RunId, SessionId
from mainspring.core.model import Delivery, JobSpec, Target
from mainspring.core.outcomes import (
    AttemptFacts,
    AttemptOutcome,
    Failure,
    Transition,
    cancelled,
    clamp_snooze,
    failed,
    handed_back,
    lost,
    preempted,
    repeated,
    snoozed,
    succeeded,
)
from mainspring.core.retry import Backoff, RetryPolicy
from mainspring.core.states import FINAL_STATES, RunState, is_legal
from mainspring.testing.factories import START, at

RUN = RunId(4711)
SESSION = SessionId(12)
AMO = Delivery.AT_MOST_ONCE


def make_facts(**overrides: Any) -> AttemptFacts:
    values: dict[str, Any] = {
        "run_id": RUN,
        "token": 7,
        "session_id": SESSION,
        "attempt": 1,
        "is_quarantined": False,
        "quarantined_crashes": 0,
        "is_cancel_requested": False,
    }
    return AttemptFacts(**values | overrides)


def make_job(**overrides: Any) -> JobSpec:
    return JobSpec(name="job", target=Target("shell"), **overrides)


def fail(facts: AttemptFacts, spec: JobSpec, **overrides: Any) -> Transition:
    failure = Failure(**{"error": "boom"} | overrides)
    return failed(facts, spec, failure, now=START, random=lambda: 0.5)


facts_strategy = st.builds(
    AttemptFacts,
    run_id=st.just(RUN),
    token=st.integers(1, 2**62),
    session_id=st.just(SESSION),
    attempt=st.integers(1, 12),
    is_quarantined=st.booleans(),
    quarantined_crashes=st.integers(0, 5),
    is_cancel_requested=st.booleans(),
)
specs = st.builds(
    make_job,
    retry=st.builds(RetryPolicy, max_retries=st.integers(0, 10)),
    delivery=st.sampled_from(Delivery),
    poison_limit=st.integers(1, 5),
)
failures = st.builds(
    Failure,
    error=st.text(max_size=5),
    is_retryable=st.booleans(),
    retry_after=st.none() | st.timedeltas(timedelta(days=-5), timedelta(days=900_000_000)),
    is_timeout=st.booleans(),
)


@st.composite
def endings(draw: st.DrawFn) -> tuple[AttemptFacts, JobSpec, Transition]:
    facts, spec = draw(facts_strategy), draw(specs)
    transition = draw(
        st.sampled_from(
            [
                succeeded(facts.run_id, facts.token, facts.session_id),
                failed(facts, spec, draw(failures), now=START, random=lambda: draw(st.floats(0, 0.999))),
                lost(facts, spec, now=START),
                handed_back(facts, spec, now=START, was_started=draw(st.booleans())),
                preempted(facts, spec, by="HIGH work of queue mail", now=START),
                snoozed(facts, until=at(90)),
                cancelled(facts),
                repeated(facts.run_id, facts.token, facts.session_id, AttemptOutcome.FAILED, now=START),
            ]
        )
    )
    return facts, spec, transition


@given(endings())
def test_transition_is_a_legal_edge_with_what_its_state_needs(
    ending: tuple[AttemptFacts, JobSpec, Transition],
) -> None:
    facts, _, transition = ending
    assert is_legal(RunState.RUNNING, transition.to)
    assert (transition.run_id, transition.token) == (facts.run_id, facts.token)
    assert (transition.ready_at is not None) == (transition.to in {RunState.PENDING, RunState.RETRYING})
    assert transition.ready_at is None or transition.ready_at >= START
    if transition.to in {RunState.FAILED, RunState.CANCELLED}:
        assert transition.reason
    if transition.to in FINAL_STATES:
        assert not transition.counts_attempt


@given(endings())
def test_cancel_request_leaves_only_success_or_cancelled(
    ending: tuple[AttemptFacts, JobSpec, Transition],
) -> None:
    facts, _, transition = ending
    is_repeat = transition.outcome is AttemptOutcome.FAILED and transition.error is None
    if facts.is_cancel_requested and not is_repeat:
        assert transition.to in {RunState.SUCCEEDED, RunState.CANCELLED}


@given(facts_strategy, specs, failures)
def test_attempts_never_exceed_the_policy(facts: AttemptFacts, spec: JobSpec, failure: Failure) -> None:
    transition = failed(facts, spec, failure, now=START, random=lambda: 0.5)
    if transition.to is RunState.RETRYING:
        assert transition.counts_attempt
        assert facts.attempt + 1 <= spec.retry.max_retries + 1


@pytest.mark.parametrize(
    ("facts", "spec", "failure", "expected"),
    [
        ({}, {}, {}, (RunState.RETRYING, None, AttemptOutcome.FAILED)),
        ({}, {}, {"is_timeout": True}, (RunState.RETRYING, None, AttemptOutcome.TIMED_OUT)),
        ({"attempt": 3}, {}, {}, (RunState.RETRYING, None, AttemptOutcome.FAILED)),
        ({"attempt": 4}, {}, {}, (RunState.FAILED, "retries_exhausted", AttemptOutcome.FAILED)),
        (
            {"attempt": 4},
            {},
            {"is_timeout": True},
            (RunState.FAILED, "retries_exhausted", AttemptOutcome.TIMED_OUT),
        ),
        ({}, {}, {"is_retryable": False}, (RunState.FAILED, "not_retryable", AttemptOutcome.FAILED)),
        ({}, {"delivery": AMO}, {}, (RunState.FAILED, "failed", AttemptOutcome.FAILED)),
        (
            {},
            {"delivery": AMO},
            {"is_timeout": True},
            (RunState.FAILED, "timed_out", AttemptOutcome.TIMED_OUT),
        ),
        ({}, {"delivery": Delivery.EXACTLY_ONCE}, {}, (RunState.RETRYING, None, AttemptOutcome.FAILED)),
        ({"is_cancel_requested": True}, {}, {}, (RunState.CANCELLED, "cancelled", AttemptOutcome.FAILED)),
        (
            {"is_cancel_requested": True, "attempt": 4},
            {"delivery": AMO},
            {"is_retryable": False},
            (RunState.CANCELLED, "cancelled", AttemptOutcome.FAILED),
        ),
    ],
)
def test_failed(
    facts: dict[str, Any],
    spec: dict[str, Any],
    failure: dict[str, Any],
    expected: tuple[RunState, str | None, AttemptOutcome],
) -> None:
    transition = fail(make_facts(**facts), make_job(**spec), **failure)
    assert (transition.to, transition.reason, transition.outcome) == expected
    assert transition.error == "boom"
    assert not transition.is_crash


def test_failed_waits_out_the_backoff_of_its_attempt() -> None:
    assert fail(make_facts(attempt=2), make_job()).ready_at == at(10)


@pytest.mark.parametrize(
    ("asked", "waited"),
    [
        (timedelta(seconds=-9), 5.0),
        (timedelta(0), 5.0),
        (timedelta(seconds=3), 5.0),
        (timedelta(minutes=2), 120.0),
        (timedelta(days=1), 86_400.0),
        (timedelta.max, 86_400.0),
    ],
)
def test_failed_heeds_the_target_within_reason(asked: timedelta, waited: float) -> None:
    assert fail(make_facts(), make_job(), retry_after=asked).ready_at == at(waited)


def test_failed_backoff_longer_than_the_targets_limit_stays() -> None:
    slow = RetryPolicy(backoff=Backoff.FIXED, delay=timedelta(days=3), cap=timedelta(days=9), jitter=0.0)
    transition = fail(make_facts(), make_job(retry=slow), retry_after=timedelta(days=30))
    assert transition.ready_at == START + timedelta(days=3)


def test_failed_keeps_what_the_attempt_left() -> None:
    transition = fail(make_facts(), make_job(), output="log", result=b"{}")
    assert (transition.error, transition.output, transition.result) == ("boom", "log", b"{}")


@pytest.mark.parametrize(
    ("facts", "spec", "expected"),
    [
        ({}, {}, (RunState.PENDING, "lost")),
        ({"attempt": 99}, {}, (RunState.PENDING, "lost")),  # an infrastructure loss uses up no attempt
        ({"is_quarantined": True, "quarantined_crashes": 1}, {}, (RunState.PENDING, "lost")),
        ({"is_quarantined": True, "quarantined_crashes": 2}, {}, (RunState.FAILED, "poison")),
        ({"quarantined_crashes": 2}, {}, (RunState.PENDING, "lost")),  # in company: not its own doing
        ({"is_quarantined": True}, {"poison_limit": 1}, (RunState.FAILED, "poison")),
        ({}, {"delivery": AMO}, (RunState.FAILED, "lost")),
        ({"is_quarantined": True, "quarantined_crashes": 2}, {"delivery": AMO}, (RunState.FAILED, "lost")),
        ({"is_cancel_requested": True}, {}, (RunState.CANCELLED, "cancelled")),
        ({"is_cancel_requested": True}, {"delivery": AMO}, (RunState.CANCELLED, "cancelled")),
    ],
)
def test_lost(facts: dict[str, Any], spec: dict[str, Any], expected: tuple[RunState, str]) -> None:
    transition = lost(make_facts(**facts), make_job(**spec), now=START)
    assert (transition.to, transition.reason) == expected
    assert transition.is_crash
    assert transition.error == "the worker died or lost contact during this attempt"
    assert not transition.counts_attempt
    assert transition.ready_at == (START if transition.to is RunState.PENDING else None)


@pytest.mark.parametrize(
    ("facts", "spec", "was_started", "expected"),
    [
        ({}, {}, True, (RunState.PENDING, "handed_back")),
        ({}, {}, False, (RunState.PENDING, "handed_back")),
        ({}, {"delivery": AMO}, False, (RunState.PENDING, "handed_back")),
        ({}, {"delivery": AMO}, True, (RunState.FAILED, "lost")),
        ({}, {"delivery": Delivery.EXACTLY_ONCE}, True, (RunState.PENDING, "handed_back")),
        ({"is_cancel_requested": True}, {"delivery": AMO}, True, (RunState.CANCELLED, "cancelled")),
    ],
)
def test_handed_back(
    facts: dict[str, Any], spec: dict[str, Any], was_started: bool, expected: tuple[RunState, str]
) -> None:
    transition = handed_back(make_facts(**facts), make_job(**spec), now=START, was_started=was_started)
    assert (transition.to, transition.reason) == expected
    assert transition.ready_at == (START if transition.to is RunState.PENDING else None)
    assert not transition.counts_attempt
    assert not transition.is_crash


def test_snoozed_comes_back_at_its_instant_without_counting() -> None:
    transition = snoozed(make_facts(), until=at(90))
    assert (transition.to, transition.ready_at, transition.counts_attempt) == (
        RunState.RETRYING,
        at(90),
        False,
    )


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (timedelta(seconds=-1), timedelta(0)),
        (timedelta(0), timedelta(0)),
        (timedelta(seconds=1), timedelta(seconds=1)),
        (timedelta(days=365), timedelta(days=365)),
        (timedelta(days=366), timedelta(days=365)),
    ],
)
def test_snooze_lasts_from_nothing_to_a_year(asked: timedelta, given: timedelta) -> None:
    assert clamp_snooze(asked) == given


def test_snoozed_after_a_cancel_ends_cancelled() -> None:
    transition = snoozed(make_facts(is_cancel_requested=True), until=at(90))
    assert (transition.to, transition.reason, transition.ready_at) == (RunState.CANCELLED, "cancelled", None)


def test_succeeded_wins_over_a_cancel_and_keeps_its_result() -> None:
    transition = succeeded(RUN, 7, SESSION, b"1", "out")
    assert (transition.to, transition.result, transition.output) == (RunState.SUCCEEDED, b"1", "out")


def test_cancelled_ends_the_run() -> None:
    transition = cancelled(make_facts(), error="stopped", output="log")
    assert (transition.to, transition.reason) == (RunState.CANCELLED, "cancelled")
    assert (transition.error, transition.output) == ("stopped", "log")


def test_preempted_is_ready_at_once_and_counts_nothing() -> None:
    end = preempted(make_facts(attempt=2), make_job(), by="HIGH work of queue mail", now=at(9))
    assert (end.to, end.outcome, end.reason) == (RunState.PENDING, AttemptOutcome.PREEMPTED, "preempted")
    assert (end.ready_at, end.counts_attempt, end.is_crash) == (at(9), False, False)
    assert end.error == "preempted by HIGH work of queue mail"


@pytest.mark.parametrize(
    ("facts", "spec", "expected"),
    [
        ({"is_cancel_requested": True}, {}, (RunState.CANCELLED, "cancelled")),
        ({}, {"delivery": Delivery.AT_MOST_ONCE}, (RunState.FAILED, "lost")),
    ],
)
def test_preempted_run_that_must_not_start_again_ends(
    facts: dict[str, Any], spec: dict[str, Any], expected: tuple[RunState, str]
) -> None:
    end = preempted(make_facts(**facts), make_job(**spec), by="HIGH work of queue mail", now=START)
    assert (end.to, end.reason) == expected
    assert end.ready_at is None
