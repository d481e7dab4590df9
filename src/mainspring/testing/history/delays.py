"""Rules about how long things take once nothing is broken: L1 to L3."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from mainspring.core.ids import format_run_id
from mainspring.core.model import Run
from mainspring.core.states import RunState
from mainspring.testing.history.attempts import Runs
from mainspring.testing.history.model import History, Violation

BOUND = timedelta(seconds=2)
"""Fires and starts with free capacity and no fault near; the product's promise is one second."""


def judge_delays(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """L1, L2 and L3: away from faults, and a recovery after them, fires are made and carried out at once."""
    recovery = 3 * history.lease
    troubled = [(fault.at, fault.until + recovery) for fault in history.faults]
    for run in history.runs:
        if run.fire_at is not None and run.span_id is None and not _meets(troubled, run.fire_at):
            counts["fires_timed"] += 1
            if run.created_at > run.fire_at + BOUND and run.state is not RunState.SKIPPED:
                late = f"fired {run.created_at - run.fire_at} late, far from any fault"
                yield Violation("L2", format_run_id(run.id), runs.tell(run.id, late))
        yield from _judge_losses(history, run, runs, counts)
        start = _first_start(run, runs)
        due = max(run.due_at, run.created_at)
        if start is not None and not _meets(troubled, due) and _has_room(history, runs, due, start):
            counts["starts_timed"] += 1
            if start > due + BOUND:
                late = f"started {start - due} late, far from any fault"
                yield Violation("L1", format_run_id(run.id), runs.tell(run.id, late))


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
            yield Violation("L3", format_run_id(run.id), runs.tell(run.id, why))


def _first_start(run: Run, runs: Runs) -> datetime | None:
    return min((effect.started_at for effect in runs.effects.get(run.id, [])), default=None)


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
