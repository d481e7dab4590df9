"""Decides what becomes of a run when an attempt ends: facts in, a `Transition` out (design 3 and 3.1).

Only the named constructors below build a transition, so no illegal combination exists. It carries the lease of the
attempt that it ends, token and session. The store refuses it if the run has moved on, or if another session holds the
lease. One rule is applied where the store writes (`core.applying`), because only the store sees the newest fact: after
a cancel request, every transition except a success ends CANCELLED.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from mainspring.core.ids import RunId, SessionId
from mainspring.core.model import Delivery, JobSpec
from mainspring.core.retry import Random, has_attempts_left, retry_delay
from mainspring.core.states import RunState
from mainspring.core.values import value

MAX_RETRY_AFTER = timedelta(days=1)
"""The longest delay that a target can ask for. A broken answer must not delay a run for years."""

MAX_SNOOZE = timedelta(days=365)
"""The longest snooze. A job that asks for more is called again after this."""


class AttemptOutcome(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    LOST = "lost"
    HANDED_BACK = "handed_back"
    PREEMPTED = "preempted"
    SNOOZED = "snoozed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFacts:
    """The store's facts about a RUNNING run, from which the next state is decided.

    Attributes:
        session_id: the session that holds the lease.
        attempt: the number of the attempt that ends, from 1.
        is_quarantined: the run was claimed alone, so it caused the crash.
        quarantined_crashes: crashes while it ran alone, not counting this one.
    """

    run_id: RunId
    token: int
    session_id: SessionId
    attempt: int
    is_quarantined: bool
    quarantined_crashes: int
    is_cancel_requested: bool


_TO_SUCCEEDED, _BY_SUCCESS = RunState.SUCCEEDED, AttemptOutcome.SUCCEEDED


@value()
class Transition:
    """The end of one attempt.

    Attributes:
        token: the lease's token. If the run has another token by now, the write is refused as stale.
        session_id: the session that holds the lease. If another session holds it, the write is refused as stale. The
            engine, too, names the session whose lease it ends.
        to: the run's next state.
        outcome: how the attempt ended, kept in its attempt row.
        reason: why the run is FAILED or CANCELLED, or PENDING again.
        ready_at: for RETRYING and PENDING, when the run may be claimed again.
        counts_attempt: the next claim starts a new attempt number.
        is_crash: the worker died with the attempt; raises the crash counters.
    """

    run_id: RunId
    token: int
    session_id: SessionId
    to: RunState
    outcome: AttemptOutcome
    reason: str | None = None
    error: str | None = None
    result: bytes | None = None
    output: str | None = None
    ready_at: datetime | None = None
    counts_attempt: bool = False
    is_crash: bool = False


def succeeded(
    run_id: RunId,
    token: int,
    session_id: SessionId,
    result: bytes | None = None,
    output: str | None = None,
) -> Transition:
    """The attempt succeeded. A success wins over a cancel that was only requested."""
    # Nearly every run ends this way, so the arguments are positional for speed.
    return Transition(run_id, token, session_id, _TO_SUCCEEDED, _BY_SUCCESS, None, None, result, output)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What the executor reported about an attempt that failed or timed out.

    Attributes:
        retry_after: how long the target asked to wait, at most `MAX_RETRY_AFTER`. The longer of this and the
            backoff applies.
    """

    error: str
    output: str | None = None
    result: bytes | None = None
    is_retryable: bool = True
    retry_after: timedelta | None = None
    is_timeout: bool = False


def failed(
    facts: AttemptFacts, spec: JobSpec, failure: Failure, *, now: datetime, random: Random
) -> Transition:
    """The attempt failed or timed out: retry after the backoff, or end FAILED.

    An at-most-once run never starts again, whatever its retry policy says.
    """
    outcome = AttemptOutcome.TIMED_OUT if failure.is_timeout else AttemptOutcome.FAILED
    reason = None
    ready_at = None
    if facts.is_cancel_requested:
        target, reason = RunState.CANCELLED, "cancelled"
    elif not failure.is_retryable:
        target, reason = RunState.FAILED, "not_retryable"
    elif spec.delivery is Delivery.AT_MOST_ONCE:
        target, reason = RunState.FAILED, outcome.value
    elif has_attempts_left(spec.retry, facts.attempt):
        target = RunState.RETRYING
        wait = retry_delay(spec.retry, facts.attempt, random)
        ready_at = now + max(wait, min(failure.retry_after or wait, MAX_RETRY_AFTER))
    else:
        target, reason = RunState.FAILED, "retries_exhausted"
    return Transition(
        run_id=facts.run_id,
        token=facts.token,
        session_id=facts.session_id,
        to=target,
        outcome=outcome,
        reason=reason,
        error=failure.error,
        result=failure.result,
        output=failure.output,
        ready_at=ready_at,
        counts_attempt=target is RunState.RETRYING,
    )


def lost(facts: AttemptFacts, spec: JobSpec, *, now: datetime) -> Transition:
    """The worker died with the attempt. The run is ready again at once; a crash counts, an attempt does not.

    An at-most-once run ends FAILED, because no one can know whether it ran. So does a run that crashed its worker
    `poison_limit` times while quarantined.
    """
    quarantined_crashes = facts.quarantined_crashes + (1 if facts.is_quarantined else 0)
    ready_at = None
    if facts.is_cancel_requested:
        target, reason = RunState.CANCELLED, "cancelled"
    elif spec.delivery is Delivery.AT_MOST_ONCE:
        target, reason = RunState.FAILED, "lost"
    elif quarantined_crashes >= spec.poison_limit:
        target, reason = RunState.FAILED, "poison"
    else:
        target, reason, ready_at = RunState.PENDING, "lost", now
    return Transition(
        run_id=facts.run_id,
        token=facts.token,
        session_id=facts.session_id,
        to=target,
        outcome=AttemptOutcome.LOST,
        reason=reason,
        error="the worker died or lost contact during this attempt",
        ready_at=ready_at,
        is_crash=True,
    )


def handed_back(facts: AttemptFacts, spec: JobSpec, *, now: datetime, was_started: bool) -> Transition:
    """The worker gives the run back unfinished (drain, a claim whose answer was lost).

    A started at-most-once run cannot go back: it ends FAILED as lost.
    """
    ready_at = None
    if facts.is_cancel_requested:
        target, reason = RunState.CANCELLED, "cancelled"
    elif was_started and spec.delivery is Delivery.AT_MOST_ONCE:
        target, reason = RunState.FAILED, "lost"
    else:
        target, reason, ready_at = RunState.PENDING, "handed_back", now
    return Transition(
        run_id=facts.run_id,
        token=facts.token,
        session_id=facts.session_id,
        to=target,
        outcome=AttemptOutcome.HANDED_BACK,
        reason=reason,
        ready_at=ready_at,
    )


def preempted(facts: AttemptFacts, spec: JobSpec, *, by: str, now: datetime) -> Transition:
    """The worker has stopped the attempt, as it was asked, to make room for more urgent work.

    The run is ready again at once; no attempt is counted, and no crash.

    Args:
        by: for whom, as it stands in a sentence.
    """
    end = handed_back(facts, spec, now=now, was_started=True)
    reason = "preempted" if end.to is RunState.PENDING else end.reason
    return replace(end, outcome=AttemptOutcome.PREEMPTED, reason=reason, error=f"preempted by {by}")


def snoozed(facts: AttemptFacts, *, until: datetime) -> Transition:
    """The job asked to be called again at an instant; no attempt is counted."""
    if facts.is_cancel_requested:
        return Transition(
            run_id=facts.run_id,
            token=facts.token,
            session_id=facts.session_id,
            to=RunState.CANCELLED,
            outcome=AttemptOutcome.SNOOZED,
            reason="cancelled",
        )
    return Transition(
        run_id=facts.run_id,
        token=facts.token,
        session_id=facts.session_id,
        to=RunState.RETRYING,
        outcome=AttemptOutcome.SNOOZED,
        ready_at=until,
    )


def clamp_snooze(delay: timedelta) -> timedelta:
    """Return a snooze within the allowed limit."""
    return min(max(delay, timedelta(0)), MAX_SNOOZE)


def cancelled(facts: AttemptFacts, *, error: str | None = None, output: str | None = None) -> Transition:
    """The attempt was stopped because a cancel was requested."""
    return Transition(
        run_id=facts.run_id,
        token=facts.token,
        session_id=facts.session_id,
        to=RunState.CANCELLED,
        outcome=AttemptOutcome.CANCELLED,
        reason="cancelled",
        error=error,
        output=output,
    )


def repeated(
    run_id: RunId, token: int, session_id: SessionId, outcome: AttemptOutcome, *, now: datetime
) -> Transition:
    """A report about a run that does not run under this lease: a repeat or a stale one.

    It changes nothing, because tokens only grow and a lease never changes hands. It exists so that the report gets an
    answer: the store can tell a repeat from a stale report.
    """
    return Transition(run_id, token, session_id, to=RunState.RETRYING, outcome=outcome, ready_at=now)
