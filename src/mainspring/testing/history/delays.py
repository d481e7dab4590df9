"""Rules about how long things take once nothing is broken: L1 to L3."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from mainspring.core.ids import JobId, format_job_id
from mainspring.core.model import Run, RunKind, SpanKind
from mainspring.core.states import RunState
from mainspring.core.triggers import Once
from mainspring.testing.history.model import History, Violation
from mainspring.testing.history.runs import Runs

BOUND = timedelta(seconds=2)
"""Fires and starts with free capacity and no fault near; the product's promise is one second."""


def judge_delays(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """L1, L2 and L3: away from faults, and a recovery after them, fires are made and carried out at once."""
    recovery = 3 * history.lease
    troubled = [(fault.at, fault.until + recovery) for fault in history.faults]
    yield from _judge_fires(history, runs, troubled, counts)
    suspects = list(_waits_of_suspects(history, runs))
    for run in history.runs:
        yield from _judge_losses(history, run, runs, counts)
        start = _first_start(run, runs)
        due = max(run.due_at, run.created_at)
        if (
            start is None
            or _meets(troubled, due)
            or any(begin <= start and due <= end for begin, end in suspects)
        ):
            continue
        if _has_room(history, runs, due, start):
            counts["starts_timed"] += 1
            if start > due + BOUND:
                yield runs.accuse("L1", run.id, f"started {start - due} late, far from any fault")


def _judge_fires(
    history: History, runs: Runs, troubled: list[tuple[datetime, datetime]], counts: Counter[str]
) -> Iterator[Violation]:
    """L2: a fire becomes a run, or part of a span, at once; a span's first fire is where the clock had stopped."""
    for run in history.runs:
        if run.fire_at is None or run.span_id is not None or run.kind is RunKind.BACKFILL:
            continue
        late = run.created_at - _owed_at(history, (run.job_id, run.version), run.fire_at)
        if not _meets(troubled, run.fire_at):
            counts["fires_timed"] += 1
            if late > BOUND:
                yield runs.accuse("L2", run.id, f"fired {late} late, far from any fault")
    for span in history.spans:
        late = span.created_at - _owed_at(history, (span.job_id, span.version), span.from_at)
        if span.kind is not SpanKind.BACKFILL and late > BOUND and not _meets(troubled, span.from_at):
            why = f"{span.kind} for {span.reason} from {span.from_at.isoformat()}, recorded {late} late"
            yield Violation("L2", f"span {span.id} of {format_job_id(span.job_id)}", (why,))


def _owed_at(history: History, version: tuple[JobId, int], fire_at: datetime) -> datetime:
    """Return when a fire could first be made: an instant that has passed is owed once its job is made or edited."""
    for change in history.changes:
        if (change.job_id, change.version) == version and isinstance(change.spec.trigger, Once):
            return max(fire_at, change.until)
    return fire_at


def _judge_losses(history: History, run: Run, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """L3: what a worker lost, or never began, is given back within the recovery after the last fault before."""
    begun = {effect.token for effect in runs.effects.get(run.id, [])}
    for attempt in runs.attempts.get(run.id, []):
        if attempt.outcome != "lost" and attempt.token in begun:
            continue
        counts["losses_timed"] += 1
        faults = [fault.until for fault in history.faults if fault.at <= attempt.finished_at]
        latest = max([attempt.started_at, *faults]) + 3 * history.lease
        if attempt.finished_at > latest:
            why = f"token {attempt.token} was given back {attempt.finished_at - latest} too late"
            yield runs.accuse("L3", run.id, why)


def _first_start(run: Run, runs: Runs) -> datetime | None:
    starts = [effect.started_at for effect in runs.effects.get(run.id, [])]
    if not starts and run.state is RunState.SKIPPED and run.reason == "expired":
        return run.finished_at  # until then it waited
    return min(starts, default=None)


def _waits_of_suspects(history: History, runs: Runs) -> Iterator[tuple[datetime, datetime]]:
    """Tell when runs that were lost once waited to be carried out alone: a worker then empties itself for them."""
    for run in history.runs:
        is_suspect = False
        effects = runs.effects.get(run.id, [])
        for attempt in sorted(runs.attempts.get(run.id, []), key=lambda item: item.token):
            is_suspect = is_suspect or attempt.outcome == "lost"
            if is_suspect:
                later = [effect.started_at for effect in effects if effect.token > attempt.token]
                yield attempt.finished_at, min(later, default=run.finished_at or history.read_at)


def _has_room(history: History, runs: Runs, begin: datetime, end: datetime) -> bool:
    """Say whether workers were free all the time; one that carries out a run alone, after a crash, has no room."""
    busy = 0
    for effect in history.effects:
        if effect.started_at <= end and (effect.ended_at is None or effect.ended_at >= begin):
            attempts = runs.attempts.get(effect.run_id, [])
            is_suspect = any(item.outcome == "lost" and item.token < effect.token for item in attempts)
            busy += history.slots if is_suspect else 1
    return busy < history.slots


def _meets(troubled: list[tuple[datetime, datetime]], at: datetime) -> bool:
    return any(begin <= at + BOUND and at <= end for begin, end in troubled)
