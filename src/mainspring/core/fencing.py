"""Fencing: a report ends an attempt only under the run's current lease, its token and session (law 3).

Every store calls these functions before it writes. A report that does not fit either repeats one that was applied, or
is stale.
"""

from __future__ import annotations

from typing import Protocol

from mainspring.core.ids import SessionId
from mainspring.core.outcomes import AttemptOutcome, Transition
from mainspring.core.states import RunState

FIRST_TOKEN = 1
"""The token of a run's first claim. Every end of a lease after which the run goes on raises it, and writes an
attempt row."""

ENGINE_SESSION = SessionId(0)
"""The session by which the engine holds runs of workflows. No row of it exists; such a run is never an orphan."""


class LeaseFacts(Protocol):
    """The lease of a live run, as in its row."""

    @property
    def state(self) -> RunState: ...
    @property
    def token(self) -> int: ...
    @property
    def session_id(self) -> SessionId | None: ...


def is_held(run: LeaseFacts, token: int, session_id: SessionId) -> bool:
    """Say whether the run is RUNNING under exactly this lease (law 3)."""
    return run.state is RunState.RUNNING and run.token == token and run.session_id == session_id


def is_repeat(end: Transition, *, outcome: str | None, state: RunState, token: int) -> bool:
    """Say whether a transition that does not fit repeats one that was applied.

    Args:
        outcome: the outcome in the attempt row with the transition's token; None if there is no such row.
        state, token: the run's state and token.
    """
    if outcome is not None:
        return outcome == end.outcome
    is_success = end.outcome is AttemptOutcome.SUCCEEDED
    return is_success and state is RunState.SUCCEEDED and token == end.token
