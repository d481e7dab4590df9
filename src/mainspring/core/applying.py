"""Decides what a store writes when an attempt ends: the present row and a transition in, the new row out.

Every store calls these functions, so that none decides for itself. Two decisions are repeated in SQL, because a round
trip and a step in Python per run would cost throughput: the end of a first attempt that succeeded
(`apply_successes`), and `is_held` in the same statement. A property test compares them with these functions.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Protocol

from mainspring.core.fencing import ENGINE_SESSION, FIRST_TOKEN, LeaseFacts
from mainspring.core.ids import SessionId
from mainspring.core.outcomes import AttemptOutcome, Transition
from mainspring.core.states import FINAL_STATES, RunState
from mainspring.core.values import value


class RunFacts(LeaseFacts, Protocol):
    """What the end of an attempt depends on, as in the run's row."""

    @property
    def attempt(self) -> int: ...
    @property
    def crashes(self) -> int: ...
    @property
    def quarantined_crashes(self) -> int: ...
    @property
    def is_quarantined(self) -> bool: ...
    @property
    def is_cancel_requested(self) -> bool: ...
    @property
    def cancel_reason(self) -> str | None: ...


@value(kw_only=True)
class LiveRun:
    """A live run's row, for stores whose rows are plain tuples."""

    state: RunState
    token: int
    session_id: SessionId | None
    attempt: int
    crashes: int
    quarantined_crashes: int
    is_quarantined: bool
    is_cancel_requested: bool
    cancel_reason: str | None


@value(kw_only=True)
class Settled:
    """A run after the end of an attempt.

    Attributes:
        state: a final state moves it out of the live runs: FAILED to the dead runs, others to the history.
        reason: why it is FAILED or CANCELLED; None if the run goes on.
        ready_at: the instant from which it may be claimed again; None if the run has ended.
        writes_attempt: the attempt leaves a row of its own, as all do but a success at the first attempt.
    """

    state: RunState
    reason: str | None
    token: int
    attempt: int
    crashes: int
    quarantined_crashes: int
    ready_at: datetime | None
    writes_attempt: bool

    @property
    def is_final(self) -> bool:
        """Whether the run has ended."""
        return self.state in FINAL_STATES


def settle(end: Transition, run: RunFacts, *, now: datetime) -> Settled:
    """Return what becomes of a run whose lease the transition ends.

    A success wins. If a cancel was requested, everything else ends CANCELLED. If the run goes on, the token rises, so
    that a late holder is stale at once.
    """
    state, reason = end.to, end.reason
    if run.is_cancel_requested and state is not RunState.SUCCEEDED:
        state, reason = RunState.CANCELLED, run.cancel_reason
    is_final = state in FINAL_STATES
    return Settled(
        state=state,
        reason=reason if is_final else None,
        token=run.token if is_final else run.token + 1,
        attempt=run.attempt if is_final else run.attempt + end.counts_attempt,
        crashes=run.crashes + end.is_crash,
        quarantined_crashes=run.quarantined_crashes + (end.is_crash and run.is_quarantined),
        ready_at=None if is_final else max(end.ready_at or now, now),
        writes_attempt=end.outcome is not AttemptOutcome.SUCCEEDED or not _is_first(run),
    )


def _is_first(run: RunFacts) -> bool:
    """Say whether the attempt is the run's first. The hand-over of a lease to the engine has raised the token once."""
    return run.token == FIRST_TOKEN + (run.session_id == ENGINE_SESSION)


class CancelVerdict(StrEnum):
    """What becomes of a request to cancel."""

    CANCELLED = "cancelled"
    REQUESTED = "requested"
    FINISHED = "finished"
    MISSING = "missing"


def judge_cancel(state: RunState | None) -> CancelVerdict:
    """Say what a cancel does to a run in this state; None means no such run. Only RUNNING runs are asked to stop."""
    if state is None:
        return CancelVerdict.MISSING
    if state in FINAL_STATES:
        return CancelVerdict.FINISHED
    return CancelVerdict.REQUESTED if state is RunState.RUNNING else CancelVerdict.CANCELLED
