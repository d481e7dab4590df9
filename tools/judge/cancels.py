"""Rules about what clients were promised when they cancelled a run: S11."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

from mainspring.core.model import Run, RunKind
from mainspring.core.states import RunState
from tools.judge.late_starts import excuse_late_start
from tools.judge.model import ChangeKind, History, Operation, Violation
from tools.judge.runs import Runs

_INSTANT = timedelta(milliseconds=1)


def judge_cancels(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """S11: an answered cancel holds, and nothing is cancelled without a request."""
    cancels = [operation for operation in history.operations if operation.kind == "cancel"]
    for operation in cancels:
        if operation.outcome != "ok" or operation.run_id is None:
            continue
        counts[f"cancels_{operation.answer}"] += 1
        run = runs.by_id.get(operation.run_id)
        if run is None:
            yield runs.accuse("S3", operation.run_id, "its cancel was answered, but the run cannot be found")
        elif operation.answer == "requested":
            yield from _judge_request(history, run, operation, runs)
        else:
            yield from _judge_end(history, run, operation, runs)
    yield from _judge_unasked(history, cancels, runs, counts)


def _judge_end(history: History, run: Run, operation: Operation, runs: Runs) -> Iterator[Violation]:
    """Judge an answer that said that the run had ended, by this cancel (`cancelled`) or before it (`finished`)."""
    if operation.answer == "cancelled" and run.state is not RunState.CANCELLED:
        yield runs.accuse("S11", run.id, "answered as cancelled, but it is not")
    if run.finished_at is None or run.finished_at > operation.answered_at + history.slack:
        yield runs.accuse(
            "S11", run.id, f"answered as ended at {operation.answered_at.isoformat()}, but it had not"
        )
    attempts = {attempt.token: attempt for attempt in runs.attempts.get(run.id, [])}
    late = [
        effect
        for effect in runs.effects.get(run.id, [])
        if effect.started_at > operation.answered_at + _INSTANT
    ]
    # The run had ended because its worker was silent; that worker was not told of the cancel either.
    if any(
        effect.token not in attempts
        or excuse_late_start(history, runs, attempts[effect.token], effect) is None
        for effect in late
    ):
        yield runs.accuse("S11", run.id, "started after its cancel was answered")


def _judge_request(history: History, run: Run, operation: Operation, runs: Runs) -> Iterator[Violation]:
    """Judge a requested cancel: the attempt under way at the request is the run's last, and does not begin much
    later.
    """
    if run.state not in {RunState.CANCELLED, RunState.SUCCEEDED}:
        yield runs.accuse("S11", run.id, "its cancel was asked for")
    since = operation.answered_at + history.slack
    begun = [
        (item.token, item.started_at) for item in runs.effects.get(run.id, []) if item.started_at > since
    ]
    ended = [item.token for item in runs.attempts.get(run.id, []) if item.finished_at > since]
    if any(token != run.token for token in (*ended, *(token for token, _ in begun))):
        yield runs.accuse("S11", run.id, "went on after its cancel was asked for")
    elif any(started_at > since + history.lease for _, started_at in begun):
        yield runs.accuse("S11", run.id, "started after its cancel was answered")


def _made_way(run: Run, history: History, runs: Runs) -> bool:
    """Say whether a later fire of the job, which cancels what is live, was made while the run was."""
    for other in history.runs:
        is_fire = other.kind is RunKind.SCHEDULED and other.job_id == run.job_id
        spec = runs.spec_of(other) if is_fire else None
        if (
            spec is None
            or spec.overlap.value != "cancel_running"
            or other.id == run.id
            or run.finished_at is None
        ):
            continue
        # A process may have read its time well before its fire, or the run's end, was committed. However late that
        # is, what it cancels at once ends at the instant at which its run is made.
        is_near = run.created_at - history.lease <= other.created_at <= run.finished_at + history.lease
        if is_near or other.created_at == run.finished_at:
            return True
    return False


def _judge_unasked(
    history: History, cancels: list[Operation], runs: Runs, counts: Counter[str]
) -> Iterator[Violation]:
    asked = {
        operation.run_id
        for operation in cancels
        if operation.outcome == "unknown" or operation.answer in {"cancelled", "requested"}
    }
    deleted = {change.job_id: change.at for change in history.changes if change.kind is ChangeKind.DELETED}
    called_off = {
        run_id: story.cancelled_at
        for story in history.backfills
        for step in story.steps
        for run_id, _ in step.runs
    }
    for run in history.runs:
        if run.state is not RunState.CANCELLED or run.id in asked:
            continue
        if run.reason == "overlap" and _made_way(run, history, runs):
            counts["runs_that_made_way"] += 1
            continue
        ended_at = deleted.get(run.job_id) if run.reason == "job_deleted" else None
        if run.reason == "backfill_cancelled":
            ended_at = called_off.get(run.id)
        if ended_at is None or run.finished_at is None or run.finished_at < ended_at - history.slack:
            yield runs.accuse("S11", run.id, "cancelled without a request")
