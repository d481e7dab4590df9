"""Decides what becomes of a run when an attempt ends: facts in, a `Transition` out (design 3 and 3.1).

Only the named constructors below build a transition, so no illegal combination exists. It carries the lease of the
attempt that it ends, token and session. The store refuses it if the run has moved on, or if another session holds the
lease. One rule is applied where the store writes (`core.applying`), because only the store sees the newest fact: after
a cancel request, every transition except a success ends CANCELLED.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum

from mainspring.core.causes import Cause
from mainspring.core.ids import RunId, SessionId
from mainspring.core.model import Delivery, JobSpec
from mainspring.core.retry import (
    Random,
    RetryRule,
    Then,
    apply_rule,
    find_crash_rule,
    find_rule,
    has_attempts_left,
    retry_delay,
)
from mainspring.core.states import RunState
from mainspring.core.values import value

MAX_RETRY_AFTER = timedelta(days=1)
"""The longest delay that a target can ask for. A broken answer must not delay a run for years."""

_AGAIN_AFTER = timedelta(seconds=30)
"""When a run is offered again whose key one process does not have; another process may have it."""

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


@value(kw_only=True)
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

    @property
    def uncounted(self) -> int:
        """How many earlier attempts did not count: they ended in a snooze, a crash, or were handed back.

        A claim raises the token, and so does the end of an attempt after which the run goes on.
        """
        return (self.token - 1) // 2 - (self.attempt - 1)


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


@value(kw_only=True)
class Failure:
    """What the executor reported about an attempt that failed or timed out.

    Attributes:
        retry_after: how long the target asked to wait, at most `MAX_RETRY_AFTER`. The longer of this and the
            backoff applies.
        cause: why it failed, for the rules of the job's retry policy.
    """

    error: str
    output: str | None = None
    result: bytes | None = None
    is_retryable: bool = True
    retry_after: timedelta | None = None
    is_timeout: bool = False
    cause: Cause | None = None

    @property
    def has_decided(self) -> bool:
        """Whether the work itself has said what follows. No rule is asked then."""
        return self.cause is None and (not self.is_retryable or self.retry_after is not None)


@value()
class _After:
    """What follows the end of an attempt; its fields are those of `Transition`."""

    to: RunState
    reason: str | None
    ready_at: datetime | None = None
    counts_attempt: bool = False


def failed(
    facts: AttemptFacts, spec: JobSpec, failure: Failure, *, now: datetime, random: Random
) -> Transition:
    """The attempt failed or timed out: what follows is for the job's rules to say, or else for its backoff.

    An at-most-once run never starts again, whatever its retry policy says.
    """
    outcome = AttemptOutcome.TIMED_OUT if failure.is_timeout else AttemptOutcome.FAILED
    rule = None
    if spec.retry.rules and not failure.has_decided:
        rule = find_rule(spec.retry, failure.cause, is_timeout=failure.is_timeout)
    is_final = not failure.is_retryable if rule is None else rule.then is Then.FAIL
    if facts.is_cancel_requested:
        after = _After(RunState.CANCELLED, "cancelled")
    elif is_final:
        after = _After(RunState.FAILED, "not_retryable")
    elif spec.delivery is Delivery.AT_MOST_ONCE:
        after = _After(RunState.FAILED, outcome.value)
    else:
        after = _go_on(facts, spec, rule, failure.retry_after, now=now, random=random)
    return Transition(
        run_id=facts.run_id,
        token=facts.token,
        session_id=facts.session_id,
        to=after.to,
        outcome=outcome,
        reason=after.reason,
        error=failure.error,
        result=failure.result,
        output=failure.output,
        ready_at=after.ready_at,
        counts_attempt=after.counts_attempt,
    )


def _go_on(
    facts: AttemptFacts,
    spec: JobSpec,
    rule: RetryRule | None,
    retry_after: timedelta | None,
    *,
    now: datetime,
    random: Random,
) -> _After:
    """Retry or snooze a run, as its rule or its policy says, if it has attempts left."""
    least = min(retry_after or timedelta(0), MAX_RETRY_AFTER)
    if rule is not None and rule.then is Then.SNOOZE:
        if facts.uncounted >= rule.max_snoozes:
            return _After(RunState.FAILED, "snoozes_exhausted")
        return _After(RunState.RETRYING, None, now + max(rule.delay or least, least))
    policy = spec.retry if rule is None else apply_rule(spec.retry, rule)
    if not has_attempts_left(policy, facts.attempt):
        return _After(RunState.FAILED, "retries_exhausted")
    wait = retry_delay(policy, facts.attempt, random)
    return _After(RunState.RETRYING, None, now + max(wait, least), counts_attempt=True)


def lost(facts: AttemptFacts, spec: JobSpec, *, now: datetime, random: Random = lambda: 0.5) -> Transition:
    """The worker died with the attempt. The run is ready again at once; a crash counts, an attempt does not.

    An at-most-once run ends FAILED, because no one can know whether it ran. So does a run that crashed its worker
    `poison_limit` times while quarantined, since the last step that it kept if it keeps any. In all other cases, a rule
    of the job for crashes has its say.

    Args:
        random: of the jitter, if a rule retries; by default there is none.
    """
    quarantined_crashes = facts.quarantined_crashes + (1 if facts.is_quarantined else 0)
    rule = find_crash_rule(spec.retry)
    if facts.is_cancel_requested:
        after = _After(RunState.CANCELLED, "cancelled")
    elif spec.delivery is Delivery.AT_MOST_ONCE or (rule is not None and rule.then is Then.FAIL):
        after = _After(RunState.FAILED, "lost")
    elif quarantined_crashes >= spec.poison_limit:
        after = _After(RunState.FAILED, "poison")
    elif rule is None:
        after = _After(RunState.PENDING, "lost", now)
    else:
        after = _go_on(facts, spec, rule, None, now=now, random=random)
    return Transition(
        run_id=facts.run_id,
        token=facts.token,
        session_id=facts.session_id,
        to=after.to,
        outcome=AttemptOutcome.LOST,
        reason=after.reason,
        error="the worker died or lost contact during this attempt",
        ready_at=after.ready_at,
        counts_attempt=after.counts_attempt,
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


def undecryptable(
    run_id: RunId, token: int, session_id: SessionId, why: str, *, is_key_missing: bool, now: datetime
) -> Transition:
    """The run cannot be given out, because what it needs cannot be decrypted. It was not started.

    Args:
        is_key_missing: it is a key that this process does not have, so another one may run it.
    """
    if is_key_missing:
        back = AttemptOutcome.HANDED_BACK
        again = now + _AGAIN_AFTER
        return Transition(run_id, token, session_id, RunState.PENDING, back, "handed_back", ready_at=again)
    return Transition(run_id, token, session_id, RunState.FAILED, AttemptOutcome.FAILED, "undecryptable", why)


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
