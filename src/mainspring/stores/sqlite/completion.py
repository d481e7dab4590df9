"""The ends of attempts on SQLite: one statement for nearly all of them, and the code for the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

import apsw

from mainspring.core.applying import LiveRun, settle
from mainspring.core.dead_letters import group_of
from mainspring.core.fencing import FIRST_TOKEN, is_held, is_repeat
from mainspring.core.ids import RunId
from mainspring.core.outcomes import AttemptOutcome, Transition
from mainspring.core.states import RunState
from mainspring.ports.store.claims import ApplyResult
from mainspring.stores.sqlite.rows import (
    make_live,
    to_json,
    to_micros,
)
from mainspring.stores.sqlite.statements import (
    execute,
    execute_many,
    fetch_row,
    fetch_rows,
    fetch_tuples,
)

NO_FLOWS: Mapping[RunId, bytes] = MappingProxyType({})
"""For ends among which no flow's is."""


def apply_successes(db: apsw.Connection, transitions: Sequence[Transition], now: int) -> set[RunId]:
    """Apply successes at the first attempt, which are nearly all transitions.

    Return the runs whose success was applied.
    """
    ends = {
        end.run_id: (end.session_id, None if end.result is None else end.result.hex())
        for end in transitions
        if end.to is RunState.SUCCEEDED and end.token == FIRST_TOKEN and end.output is None
    }
    # If a call names a run twice, the first transition has to win. The slower path takes care of that.
    if not ends or len({end.run_id for end in transitions}) < len(transitions):
        return set()
    rows = fetch_tuples(db, "apply_successes", {"ends": to_json(ends), "now": now})
    applied = [RunId(run_id) for run_id, _ in rows]
    _remove(db, applied, {run_id: RunState.SUCCEEDED for run_id, flow_id in rows if flow_id})
    return set(applied)


def _remove(db: apsw.Connection, run_ids: Sequence[RunId], steps: Mapping[RunId, RunState]) -> None:
    """Remove ended runs, and tell their flows of those that are runs of steps."""
    execute_many(db, "tell_end", [{"run_id": run_id, "state": state} for run_id, state in steps.items()])
    execute(db, "remove_runs", {"run_ids": to_json(run_ids)})


def apply_others(
    db: apsw.Connection,
    transitions: Sequence[Transition],
    applied: set[RunId],
    now: datetime,
    *,
    flow_states: Mapping[RunId, bytes] = NO_FLOWS,
) -> list[ApplyResult]:
    """Apply the transitions of runs that are not in `applied`, and add those runs to it.

    Return results for all transitions.

    Args:
        flow_states: of runs of workflows, how far they have come.
    """
    ids = to_json([end.run_id for end in transitions if end.run_id not in applied])
    rows = fetch_rows(db, "lock_runs", {"run_ids": ids})
    live = {row.id: make_live(row) for row in rows}
    ends = _Ends(now, frozenset(row.id for row in rows if row.flow_id), flow_states)
    results: list[ApplyResult] = []
    for end in transitions:
        run = live.get(end.run_id)
        if run is None and end.run_id in applied:
            results.append(ApplyResult.APPLIED)
        elif run is not None and end.run_id not in applied and is_held(run, end.token, end.session_id):
            ends.add(end, run)
            applied.add(end.run_id)
            results.append(ApplyResult.APPLIED)
        else:
            results.append(_answer_late(db, end, ends))
    ends.write(db)
    return results


def end_waiting(db: apsw.Connection, run_id: RunId, state: RunState, reason: str, now: int) -> None:
    """End a waiting run."""
    values: dict[str, object] = {
        "run_id": run_id,
        "state": state,
        "reason": reason,
        "now": now,
        "crashes": None,  # as they are
        "error": None,
        "result": None,
        "output": None,
        "flow_state": None,
    }
    execute(db, "finish_run", values)
    _remove(db, [run_id], {run_id: state})


class _Ends:
    """The ends of attempts in one call, grouped by what has to be written for them.

    Args:
        steps: which of the runs are runs of steps.
    """

    def __init__(self, now: datetime, steps: frozenset[RunId], flow_states: Mapping[RunId, bytes]) -> None:
        self._now = now
        self._steps = steps
        self._flow_states = flow_states
        self._at = to_micros(now)
        self._attempts: list[dict[str, object]] = []
        self._finished: list[dict[str, object]] = []
        self._buried: list[dict[str, object]] = []
        self._requeued: list[dict[str, object]] = []
        self._removed: dict[RunId, RunState] = {}
        self._outcomes: dict[RunId, tuple[int, AttemptOutcome]] = {}

    def outcome(self, run_id: RunId) -> tuple[int, AttemptOutcome] | None:
        """Return the token and outcome of an attempt that ended in this call."""
        return self._outcomes.get(run_id)

    def add(self, transition: Transition, run: LiveRun) -> None:
        """Add a transition of a run that is RUNNING under the transition's lease."""
        settled = settle(transition, run, now=self._now)
        run_id, now = transition.run_id, self._at
        self._outcomes[run_id] = (transition.token, transition.outcome)
        if settled.writes_attempt:
            attempt = {"run_id": run_id, "outcome": transition.outcome, "now": now}
            self._attempts.append(attempt | {"error": transition.error, "output": transition.output})
        values: dict[str, object] = {"run_id": run_id, "state": settled.state, "crashes": settled.crashes}
        if settled.ready_at is not None:
            values |= {
                "ready_at": to_micros(settled.ready_at),
                "token": settled.token,
                "attempt": settled.attempt,
                "quarantined_crashes": settled.quarantined_crashes,
            }
            self._requeued.append(values)
            return
        self._removed[run_id] = settled.state
        values |= {
            "reason": settled.reason,
            "now": now,
            "error": transition.error,
            "result": transition.result,
            "output": transition.output,
            "flow_state": self._flow_states.get(run_id),
        }
        if settled.state is RunState.FAILED:
            self._buried.append(values | {"error_group": group_of(transition.error)})
        else:
            self._finished.append(values)

    def write(self, db: apsw.Connection) -> None:
        """Write everything. Attempts go first, because they are read from the live rows."""
        execute_many(db, "add_attempt", self._attempts)
        execute_many(db, "requeue_run", self._requeued)
        execute_many(db, "finish_run", self._finished)
        execute_many(db, "bury_run", self._buried)
        if self._removed:
            steps = {run_id: state for run_id, state in self._removed.items() if run_id in self._steps}
            _remove(db, list(self._removed), steps)


def _answer_late(db: apsw.Connection, transition: Transition, ends: _Ends) -> ApplyResult:
    """Return the result of a transition that cannot take effect: a repeat, one of another writer, or one of an
    unknown run.
    """
    in_this_call = ends.outcome(transition.run_id)
    if in_this_call is not None and in_this_call[0] == transition.token:
        return ApplyResult.APPLIED if in_this_call[1] is transition.outcome else ApplyResult.STALE
    row = fetch_row(db, "read_end", {"run_id": transition.run_id, "token": transition.token})
    if row is None or row.state is None:
        return ApplyResult.MISSING
    was_applied = is_repeat(transition, outcome=row.outcome, state=RunState(row.state), token=row.token)
    return ApplyResult.APPLIED if was_applied else ApplyResult.STALE
