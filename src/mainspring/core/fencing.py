"""Fencing: a report ends an attempt only under the lease that the run has now, its token and its session (law 3).

Every store asks here before it writes. A report that does not fit is either a repeat of one that was applied, or stale.
"""

from __future__ import annotations

from typing import Protocol

from mainspring.core.ids import SessionId
from mainspring.core.outcomes import AttemptOutcome, Transition
from mainspring.core.states import RunState

FIRST_TOKEN = 1
"""The token of a run's first claim. Every end of a lease but a success raises it, and writes an attempt row."""


class LeaseFacts(Protocol):
    """The lease of a live run, as its row says."""

    @property
    def state(self) -> RunState: ...
    @property
    def token(self) -> int: ...
    @property
    def session_id(self) -> SessionId | None: ...


def is_held(run: LeaseFacts, token: int, session_id: SessionId) -> bool:
    """Say whether the run is RUNNING under this very lease (law 3)."""
    return run.state is RunState.RUNNING and run.token == token and run.session_id == session_id


def is_repeat(end: Transition, *, outcome: str | None, state: RunState, token: int) -> bool:
    """Say whether a transition that does not fit repeats one that was applied.

    Args:
        outcome: of the attempt row under the transition's token; None where there is none.
        state, token: of the run.
    """
    if outcome is not None:
        return outcome == end.outcome
    is_success = end.outcome is AttemptOutcome.SUCCEEDED
    return is_success and state is RunState.SUCCEEDED and token == end.token
