"""What becomes of a run when an attempt ends, as every store writes it, and which lease may end it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.applying import CancelVerdict, LiveRun, judge_cancel, settle
from mainspring.core.fencing import ENGINE_SESSION, FIRST_TOKEN, is_held, is_repeat
from mainspring.core.ids import RunId, SessionId
from mainspring.core.outcomes import AttemptOutcome, Transition
from mainspring.core.states import FINAL_STATES, RunState, is_legal
from mainspring.testing.factories import START, at

SESSION = SessionId(3)
ENDS = [
    (RunState.SUCCEEDED, AttemptOutcome.SUCCEEDED),
    (RunState.FAILED, AttemptOutcome.FAILED),
    (RunState.RETRYING, AttemptOutcome.TIMED_OUT),
    (RunState.RETRYING, AttemptOutcome.SNOOZED),
    (RunState.PENDING, AttemptOutcome.LOST),
    (RunState.PENDING, AttemptOutcome.HANDED_BACK),
    (RunState.CANCELLED, AttemptOutcome.CANCELLED),
]


def make_run(**overrides: Any) -> LiveRun:
    values: dict[str, Any] = {
        "state": RunState.RUNNING,
        "token": 1,
        "session_id": SESSION,
        "attempt": 1,
        "crashes": 0,
        "quarantined_crashes": 0,
        "is_quarantined": False,
        "is_cancel_requested": False,
        "cancel_reason": None,
    }
    return LiveRun(**values | overrides)


def make_end(to: RunState, outcome: AttemptOutcome, **overrides: Any) -> Transition:
    values: dict[str, Any] = {"run_id": RunId(1), "token": 1, "session_id": SESSION}
    return Transition(**values | {"to": to, "outcome": outcome, "reason": "why"} | overrides)


runs = st.builds(
    make_run,
    token=st.integers(1, 99),
    attempt=st.integers(1, 9),
    crashes=st.integers(0, 5),
    quarantined_crashes=st.integers(0, 5),
    is_quarantined=st.booleans(),
    is_cancel_requested=st.booleans(),
    cancel_reason=st.just("operator"),
)
ends = st.builds(
    lambda how, ready_at, counts, is_crash: make_end(
        *how, ready_at=at(ready_at), counts_attempt=counts, is_crash=is_crash
    ),
    st.sampled_from(ENDS),
    st.integers(-100, 100),
    st.booleans(),
    st.booleans(),
)


@given(run=runs, end=ends)
def test_run_goes_where_the_edges_lead_and_cancel_wins_over_all_but_a_success(
    run: LiveRun, end: Transition
) -> None:
    settled = settle(end, run, now=START)
    assert is_legal(RunState.RUNNING, settled.state)
    assert settled.is_final == (settled.state in FINAL_STATES)
    if end.to is RunState.SUCCEEDED:
        assert settled.state is RunState.SUCCEEDED
    elif run.is_cancel_requested:
        assert (settled.state, settled.reason) == (RunState.CANCELLED, "operator")
    else:
        assert settled.state is end.to


@given(run=runs, end=ends)
def test_a_run_that_goes_on_has_a_higher_token_and_no_ready_at_in_the_past(
    run: LiveRun, end: Transition
) -> None:
    settled = settle(end, run, now=START)
    if settled.is_final:
        assert (settled.token, settled.attempt, settled.ready_at) == (run.token, run.attempt, None)
    else:
        assert settled.token == run.token + 1
        assert settled.attempt - run.attempt == end.counts_attempt
        assert settled.ready_at is not None
        assert settled.ready_at >= START
        assert settled.reason is None


@pytest.mark.parametrize(
    ("asked", "given"), [(at(60), at(60)), (at(0), START), (at(-60), START), (None, START)]
)
def test_run_that_goes_on_is_ready_when_it_asks_to_be_and_now_where_it_does_not(
    asked: datetime | None, given: datetime
) -> None:
    end = make_end(RunState.RETRYING, AttemptOutcome.SNOOZED, ready_at=asked)
    assert settle(end, make_run(), now=START).ready_at == given


@given(run=runs, end=ends)
def test_crashes_are_counted_those_alone_apart(run: LiveRun, end: Transition) -> None:
    settled = settle(end, run, now=START)
    assert settled.crashes - run.crashes == end.is_crash
    assert settled.quarantined_crashes - run.quarantined_crashes == (end.is_crash and run.is_quarantined)


@given(run=runs, end=ends)
def test_only_a_success_at_the_first_claim_leaves_no_attempt_row(run: LiveRun, end: Transition) -> None:
    first = FIRST_TOKEN + 1 if run.session_id == ENGINE_SESSION else FIRST_TOKEN
    is_first_success = end.outcome is AttemptOutcome.SUCCEEDED and run.token == first
    assert settle(end, run, now=START).writes_attempt is not is_first_success


def test_first_claim_has_the_token_1() -> None:
    end = make_end(RunState.SUCCEEDED, AttemptOutcome.SUCCEEDED)
    assert not settle(end, make_run(token=1), now=START).writes_attempt
    assert settle(end, make_run(token=2), now=START).writes_attempt


def test_the_hand_over_to_the_engine_raises_the_token_of_the_first_attempt() -> None:
    end = make_end(RunState.SUCCEEDED, AttemptOutcome.SUCCEEDED)
    assert not settle(end, make_run(token=2, session_id=ENGINE_SESSION), now=START).writes_attempt
    assert settle(end, make_run(token=5, session_id=ENGINE_SESSION), now=START).writes_attempt


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({}, True),
        ({"token": 2}, False),
        ({"session_id": SessionId(4)}, False),
        ({"state": RunState.PENDING, "session_id": None}, False),
        ({"state": RunState.RETRYING}, False),
    ],
)
def test_lease_is_state_token_and_session(overrides: dict[str, Any], expected: bool) -> None:
    assert is_held(make_run(**overrides), 1, SESSION) is expected


@pytest.mark.parametrize(
    ("outcome", "state", "token", "expected"),
    [
        (None, RunState.SUCCEEDED, 1, True),
        (None, RunState.SUCCEEDED, 2, False),
        (None, RunState.RUNNING, 1, False),
        ("succeeded", RunState.SUCCEEDED, 1, True),
        ("failed", RunState.RETRYING, 2, False),
        ("lost", RunState.SUCCEEDED, 1, False),
    ],
)
def test_repeat_of_a_success(outcome: str | None, state: RunState, token: int, expected: bool) -> None:
    end = make_end(RunState.SUCCEEDED, AttemptOutcome.SUCCEEDED)
    assert is_repeat(end, outcome=outcome, state=state, token=token) is expected


@pytest.mark.parametrize("how", ENDS[1:])
def test_run_that_succeeded_under_the_token_makes_no_other_end_a_repeat(
    how: tuple[RunState, AttemptOutcome],
) -> None:
    assert not is_repeat(make_end(*how), outcome=None, state=RunState.SUCCEEDED, token=1)


@given(kept=st.sampled_from(AttemptOutcome), how=st.sampled_from(ENDS), state=st.sampled_from(RunState))
def test_what_was_kept_under_the_token_decides(
    kept: AttemptOutcome, how: tuple[RunState, AttemptOutcome], state: RunState
) -> None:
    end = make_end(*how)
    assert is_repeat(end, outcome=kept.value, state=state, token=1) is (kept is end.outcome)


@given(state=st.sampled_from(RunState))
def test_only_running_runs_are_asked_to_stop(state: RunState) -> None:
    verdict = judge_cancel(state)
    assert (verdict is CancelVerdict.FINISHED) == (state in FINAL_STATES)
    assert (verdict is CancelVerdict.REQUESTED) == (state is RunState.RUNNING)


def test_cancel_of_an_unknown_run() -> None:
    assert judge_cancel(None) is CancelVerdict.MISSING
