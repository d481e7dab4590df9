"""Writes the ends of attempts and of waiting runs, and answers the reports about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from asyncpg import Record

from mainspring.core.applying import Settled, settle
from mainspring.core.dead_letters import group_of
from mainspring.core.fencing import FIRST_TOKEN, is_held, is_repeat
from mainspring.core.ids import RunId
from mainspring.core.outcomes import Transition
from mainspring.core.states import RunState
from mainspring.ports.store.claims import ApplyResult
from mainspring.ports.store.sessions import WorkerName
from mainspring.stores.postgres.connection import Transaction
from mainspring.stores.postgres.rows import live_of, sparse

_run_id = attrgetter("run_id")
_NOBODY = WorkerName("", None)
NO_FLOWS: Mapping[RunId, bytes] = MappingProxyType({})
"""For ends among which no flow's is."""

Applied = dict[RunId, Transition]
"""The transitions that took effect now."""


async def apply_successes(transaction: Transaction, transitions: Sequence[Transition], now: datetime) -> bool:
    """Move first-try successes to the history if their leases still hold. Return whether all were moved.

    If not, which of them were moved has to be read, but that is rare.
    """
    ordered = sorted(transitions, key=_run_id)
    count = await transaction.execute(
        "apply_successes",
        run_ids=[transition.run_id for transition in ordered],
        token=FIRST_TOKEN,
        session_ids=[transition.session_id for transition in ordered],
        results=sparse([transition.result for transition in ordered]),
        outputs=sparse([transition.output for transition in ordered]),
        now=now,
    )
    return count == len(ordered)


@dataclass(slots=True)
class _Batch:
    """The new states of the runs of one call, sorted by where they go."""

    successes: list[Transition] = field(default_factory=list)
    finished: list[dict[str, Any]] = field(default_factory=list)
    dead: list[dict[str, Any]] = field(default_factory=list)
    waiting: list[dict[str, Any]] = field(default_factory=list)
    attempts: list[dict[str, Any]] = field(default_factory=list)
    flow_states: Mapping[RunId, bytes] = field(default_factory=lambda: NO_FLOWS)

    def add(self, end: Transition, settled: Settled, row: Record, worker: WorkerName) -> None:
        """Add the new state of one locked run."""
        if settled.writes_attempt:
            attempt = {
                "run_ids": row["id"],
                "tokens": row["token"],
                "numbers": row["attempt"],
                "outcomes": end.outcome,
                "workers": worker.worker,
                "hosts": worker.host,
                "starts_at": row["started_at"],
                "errors": end.error,
                "outputs": end.output,
            }
            self.attempts.append(attempt)
        if not settled.is_final:
            step = {
                "run_ids": row["id"],
                "states": settled.state,
                "readies_at": settled.ready_at,
                "tokens": settled.token,
                "attempts": settled.attempt,
                "crashes": settled.crashes,
                "quarantined_crashes": settled.quarantined_crashes,
            }
            self.waiting.append(step)
            return
        finish = {
            "run_ids": row["id"],
            "reasons": settled.reason,
            "errors": end.error,
            "results": end.result,
            "outputs": end.output,
            "crashes": settled.crashes,
            "flow_states": self.flow_states.get(row["id"]),
        }
        if settled.state is RunState.FAILED:
            self.dead.append(finish | {"error_groups": group_of(end.error)})
        else:
            self.finished.append(finish | {"states": settled.state})

    async def write(self, transaction: Transaction, now: datetime) -> None:
        """Write everything. The rows are locked already."""
        if self.successes:
            await apply_successes(transaction, self.successes, now)
        for name, rows in (
            ("finish_runs", self.finished),
            ("bury_runs", self.dead),
            ("requeue_runs", self.waiting),
            ("add_attempts", self.attempts),
        ):
            if rows:  # in order of run id, as the statements require
                columns = {column: [row[column] for row in rows] for column in rows[0]}
                await transaction.execute(name, **columns | ({} if name == "requeue_runs" else {"now": now}))


async def apply_any(
    transaction: Transaction,
    transitions: Sequence[Transition],
    now: datetime,
    *,
    flow_states: Mapping[RunId, bytes] = NO_FLOWS,
) -> tuple[Applied, dict[int, ApplyResult]]:
    """Apply the transitions that fit the present runs.

    Args:
        flow_states: of runs of workflows, how far they have come.

    Returns:
        the applied transitions, and the answers, by position, that need no look at the records of earlier attempts.
    """
    ids = sorted({transition.run_id for transition in transitions})
    rows = {row["id"]: row for row in await transaction.fetch("lock_runs", run_ids=ids)}
    live = {run_id: live_of(row) for run_id, row in rows.items()}
    ends: dict[RunId, Transition] = {}
    answers: dict[int, ApplyResult] = {}
    for position, transition in enumerate(transitions):
        run = live.get(transition.run_id)
        if run is None or run.state is not RunState.RUNNING or run.token != transition.token:
            continue  # perhaps a repeat: the records will show
        end = ends.get(transition.run_id)
        if end is not None:
            is_applied = end.outcome is transition.outcome
        else:
            is_applied = is_held(run, transition.token, transition.session_id)
            if is_applied:
                ends[transition.run_id] = transition
        answers[position] = ApplyResult.APPLIED if is_applied else ApplyResult.STALE
    others = [run_id for run_id, end in ends.items() if not is_plain(end)]
    sessions = sorted({rows[run_id]["session_id"] for run_id in others})
    found = await transaction.fetch("find_workers", session_ids=sessions) if sessions else []
    workers = {row["id"]: WorkerName(row["worker"], row["host"]) for row in found}
    batch = _Batch(flow_states=flow_states)
    for run_id in sorted(ends):
        row, end = rows[run_id], ends[run_id]
        if is_plain(end):
            batch.successes.append(end)
        else:
            settled = settle(end, live[run_id], now=now)
            batch.add(end, settled, row, workers.get(row["session_id"], _NOBODY))
    await batch.write(transaction, now)
    return ends, answers


def is_plain(end: Transition) -> bool:
    return end.to is RunState.SUCCEEDED and end.token == FIRST_TOKEN


def are_distinct(transitions: Sequence[Transition]) -> bool:
    return len(set(map(_run_id, transitions))) == len(transitions)


async def answer(
    transaction: Transaction, transitions: Sequence[Transition], known: dict[int, ApplyResult]
) -> list[ApplyResult]:
    """Answer each transition. Compare those without an answer so far with what was applied before."""
    results = [known.get(position, ApplyResult.MISSING) for position in range(len(transitions))]
    if len(known) == len(transitions):
        return results
    others = [position for position in range(len(transitions)) if position not in known]
    reports = [transitions[position] for position in others]
    rows = await transaction.fetch(
        "read_ends",
        run_ids=[report.run_id for report in reports],
        tokens=[report.token for report in reports],
    )
    for row in rows:
        index = row["position"] - 1
        was_applied = is_repeat(
            reports[index], outcome=row["outcome"], state=RunState(row["state"]), token=row["token"]
        )
        results[others[index]] = ApplyResult.APPLIED if was_applied else ApplyResult.STALE
    return results


async def finish_waiting(
    transaction: Transaction, run_ids: Sequence[RunId], state: RunState, reason: str, now: datetime
) -> None:
    """Move locked waiting runs to the history."""
    if not run_ids:
        return
    count = len(run_ids)
    await transaction.execute(
        "finish_runs",
        run_ids=run_ids,
        states=[state] * count,
        reasons=[reason] * count,
        errors=[None] * count,
        results=[None] * count,
        outputs=[None] * count,
        crashes=[None] * count,  # as they are
        flow_states=[],
        now=now,
    )
