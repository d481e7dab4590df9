"""The states of a run and the edges between them (design 3 and 3.1).

This table is the single source: tests compare it with the CHECK list of the SQL schemas, the picture in
`docs/explanation/state_machine.md` and the transitions in `core/outcomes.py`.
"""

from __future__ import annotations

from enum import StrEnum

from mainspring.core.values import value


class RunState(StrEnum):
    """The state of a run. SQL, API and CLI show these values."""

    PENDING = "PENDING"
    BLOCKED = "BLOCKED"
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    SKIPPED = "SKIPPED"


FINAL_STATES = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.SKIPPED})
LIVE_STATES = frozenset(RunState) - FINAL_STATES
READY_STATES = frozenset({RunState.PENDING, RunState.RETRYING})
"""States from which a run can be claimed once its `ready_at` has come."""


@value()
class Edge:
    """One legal change of state, and when it happens."""

    source: RunState
    target: RunState
    when: str


_S = RunState
EDGES: tuple[Edge, ...] = (
    Edge(_S.PENDING, _S.RUNNING, "claimed"),
    Edge(_S.PENDING, _S.CANCELLED, "cancelled"),
    Edge(_S.PENDING, _S.SKIPPED, "expired, overlap, paused or blackout"),
    Edge(_S.BLOCKED, _S.PENDING, "parents or signal there"),
    Edge(_S.BLOCKED, _S.CANCELLED, "cancelled"),
    Edge(_S.BLOCKED, _S.SKIPPED, "expired, overlap, paused or blackout"),
    Edge(_S.RETRYING, _S.RUNNING, "claimed, backoff over"),
    Edge(_S.RETRYING, _S.CANCELLED, "cancelled"),
    Edge(_S.RETRYING, _S.SKIPPED, "expired, overlap, paused or blackout"),
    Edge(_S.RUNNING, _S.RUNNING, "a workflow's, handed over to the engine"),
    Edge(_S.RUNNING, _S.SUCCEEDED, "completed"),
    Edge(_S.RUNNING, _S.RETRYING, "failed or timed out with attempts left; snoozed"),
    Edge(_S.RUNNING, _S.FAILED, "out of attempts; not retryable; at-most-once lost; poison limit"),
    Edge(_S.RUNNING, _S.PENDING, "lost, handed back or preempted"),
    Edge(_S.RUNNING, _S.CANCELLED, "cancel requested and the attempt ended without success"),
)

_ALLOWED = frozenset((edge.source, edge.target) for edge in EDGES)


def is_legal(source: RunState, target: RunState) -> bool:
    """Say whether a run may go from one state to the other."""
    return (source, target) in _ALLOWED
