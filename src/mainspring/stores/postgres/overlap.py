"""Reads what is live of jobs whose fires are judged by it, and cancels runs, within a transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from mainspring.core.applying import CancelVerdict, judge_cancel
from mainspring.core.ids import JobId, RunId
from mainspring.core.model import Overlap
from mainspring.core.overlap import LiveOfJob
from mainspring.core.states import RunState
from mainspring.ports.store.backfills import BackfillStep
from mainspring.ports.store.events import EventStart
from mainspring.ports.store.schedule import Fire, FireRangeStep
from mainspring.stores.postgres.completion import finish_waiting
from mainspring.stores.postgres.connection import Transaction

PlannedRuns = Fire | FireRangeStep | BackfillStep | EventStart


async def read_live(
    transaction: Transaction, plans: Sequence[PlannedRuns], *, now: datetime
) -> dict[JobId, LiveOfJob]:
    """Return what the overlap policies of plans ask for, by job. A job that allows overlaps is left out."""
    asking: dict[Overlap, set[JobId]] = defaultdict(set)
    for plan in plans:
        if plan.overlap is not Overlap.ALLOW:
            asking[plan.overlap].add(plan.job_id)
    live = {job_id: LiveOfJob() for job_ids in asking.values() for job_id in job_ids}
    if skipping := sorted(asking[Overlap.SKIP]):
        for row in await transaction.fetch("find_busy_jobs", job_ids=skipping):
            live[row["id"]] = LiveOfJob(is_any=True)
    if queueing := sorted(asking[Overlap.QUEUE_ONE]):
        for row in await transaction.fetch("find_waiting_jobs", job_ids=queueing, now=now):
            live[row["id"]] = LiveOfJob(is_any_waiting=True)
    if cancelling := sorted(asking[Overlap.CANCEL_RUNNING]):
        runs: dict[JobId, list[tuple[RunId, datetime | None]]] = defaultdict(list)
        for row in await transaction.fetch("list_live_of_jobs", job_ids=cancelling):
            runs[row["job_id"]].append((row["id"], row["fire_at"]))
        live |= {job_id: LiveOfJob(runs=tuple(found)) for job_id, found in runs.items()}
    return live


async def cancel_runs(
    transaction: Transaction, run_ids: Sequence[RunId], *, reason: str, now: datetime
) -> list[tuple[CancelVerdict, bool]]:
    """End waiting runs, and ask RUNNING ones to stop. Return for each also whether that is new."""
    wanted = sorted(set(run_ids))
    rows = await transaction.fetch("lock_runs", run_ids=wanted)
    states: dict[RunId, RunState] = {row["id"]: RunState(row["state"]) for row in rows}
    asked = {row["id"] for row in rows if row["is_cancel_requested"]}
    unknown = [run_id for run_id in wanted if run_id not in states]
    if unknown:
        ends = await transaction.fetch("read_ends", run_ids=unknown, tokens=[0] * len(unknown))
        states |= {unknown[row["position"] - 1]: RunState(row["state"]) for row in ends}
    verdicts: dict[CancelVerdict, list[RunId]] = defaultdict(list)
    answers = []
    for run_id in run_ids:
        verdict = judge_cancel(states.get(run_id))
        if verdict is CancelVerdict.CANCELLED:
            states[run_id] = RunState.CANCELLED  # so that a second mention finds it
        verdicts[verdict].append(run_id)
        is_request = verdict is CancelVerdict.REQUESTED
        answers.append((verdict, verdict is CancelVerdict.CANCELLED or (is_request and run_id not in asked)))
    running = sorted(set(verdicts[CancelVerdict.REQUESTED]))
    if running:
        await transaction.execute("request_cancels", run_ids=running, reason=reason, now=now)
    waiting = sorted(verdicts[CancelVerdict.CANCELLED])
    await finish_waiting(transaction, waiting, RunState.CANCELLED, reason, now)
    return answers
