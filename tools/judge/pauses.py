"""S34: nothing of what is paused is given out, and fires are skipped only by pauses that say so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from mainspring.core.ids import RunId, format_run_id
from mainspring.core.model import Run, RunKind
from mainspring.core.states import RunState
from tools.judge.blackouts import still_times
from tools.judge.leases import Lease
from tools.judge.model import History, Pausing, Violation
from tools.judge.runs import Runs

PATIENCE = timedelta(seconds=3)
"""After a pause, schedulers know of it within this time; a second is promised."""
_MOMENT = timedelta(seconds=1)
"""A fire that falls due in the last moment of a pause may be planned before its end, and stored after it."""


def judge_pauses(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """S34: from the commit of a pause until it is lifted or its end has come, no claim gives a run of it out.

    Claims and pauses are in the order of their commits. What a claim has given again is not an event of its own.
    """
    on: dict[tuple[str, str], Pausing] = {}
    changes = iter(history.pausings)
    following = next(changes, None)
    for place, event in enumerate(history.events):
        while following is not None and following.place <= place:
            on.pop((following.scope, following.name), None)
            if not following.is_lifted:
                on[following.scope, following.name] = following
            following = next(changes, None)
        run = runs.by_id.get(event.run_id) if event.run_id is not None else None
        if event.what != "claimed" or run is None or not on:
            continue
        counts["claims_beside_a_pause"] += 1
        for pausing in on.values():
            if _covers(pausing, run) and (pausing.until is None or event.at < pausing.until):
                since = f"{pausing.scope} {pausing.name} is paused since {pausing.at.isoformat()}"
                why = f"{event.at.isoformat()} claimed, token {event.token}, while {since}"
                yield Violation("S34", format_run_id(run.id), (why,))
                return
    yield from _judge_skips(history, runs, counts)
    yield from _judge_fires(history, runs, counts)


def judge_pauses_outside(
    history: History, runs: Runs, leases: dict[RunId, list[Lease]], counts: Counter[str]
) -> Iterator[Violation]:
    """S34 from outside: what was surely claimed while a pause was surely on."""
    periods = list(_holds(history, is_sure=True))
    for run in history.runs:
        for pausing, began, ended in periods:
            if not _covers(pausing, run):
                continue
            first = leases[run.id][0] if leases.get(run.id) else None
            is_met = run.created_at < ended and first is not None and first.begun_at > began
            counts["outside_runs_beside_a_pause"] += is_met
            for lease in leases.get(run.id, []):
                if began + history.slack < lease.claimed_at and lease.begun_at < ended - history.slack:
                    since = f"{pausing.scope} {pausing.name} is paused since {began.isoformat()}"
                    why = f"{lease.claimed_at.isoformat()} claimed, token {lease.token}, while {since}"
                    yield runs.accuse("S34", run.id, why)


def _judge_skips(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    skipping = [pausing for pausing in history.pausings if pausing.mode == "skip" and not pausing.is_lifted]
    for run in history.runs:
        if run.state is not RunState.SKIPPED or run.reason != "paused":
            continue
        counts["fires_skipped_by_a_pause"] += 1
        if run.fire_at is None:
            yield runs.accuse("S34", run.id, "skipped by a pause, but no fire")
        spec = runs.spec_of(run)
        low = run.fire_at or run.due_at
        high = low if spec is None else low + spec.jitter
        if not any(
            _covers(pausing, run)
            and pausing.since - history.slack <= high
            and (pausing.until is None or low < pausing.until)
            for pausing in skipping
        ):
            yield runs.accuse("S34", run.id, "skipped by a pause that there was not")


def _judge_fires(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """Away from faults, a fire that falls due a while after a pause that skips fires does not become work."""
    skipping = [
        (pausing, began, ended)
        for pausing, began, ended in _holds(history, is_sure=True)
        if pausing.mode == "skip"
    ]
    if not skipping:
        return
    # A server that was stopped or cut off may go by what it knew before, for a moment.
    troubles = [(fault.at, fault.until + 2 * PATIENCE) for fault in history.faults]
    for run in history.runs:
        is_fire = run.kind is RunKind.SCHEDULED and run.fire_range_id is None
        if not is_fire or run.state is RunState.SKIPPED:
            continue
        for pausing, began, ended in skipping:
            is_within = began + PATIENCE < run.due_at and max(run.due_at, run.created_at) < ended - _MOMENT
            if not is_within or not _covers(pausing, run):
                continue
            counts["fires_beside_a_skipping_pause"] += 1
            if not any(begin <= run.created_at <= end for begin, end in troubles):
                why = f"fell due while {pausing.scope} {pausing.name} was paused since {began.isoformat()}"
                yield runs.accuse("S34", run.id, f"{why}, and was not skipped")


def _covers(pausing: Pausing, run: Run) -> bool:
    if pausing.scope == "all":
        return True
    return pausing.name == (run.lane.queue if pausing.scope == "queue" else run.tenant)


def hold_times(history: History) -> Iterator[tuple[datetime, datetime]]:
    """Yield when anything was paused, by users or calendars, for rules about what starts soon."""
    yield from ((began, ended) for _, began, ended in _holds(history))
    yield from still_times(history)


def _holds(history: History, *, is_sure: bool = False) -> Iterator[tuple[Pausing, datetime, datetime]]:
    """Yield each pause with its beginning and its end: when it was surely on, or when it may have been."""
    on: dict[tuple[str, str], Pausing] = {}

    def began(pausing: Pausing) -> datetime:
        return (pausing.by or pausing.at) if is_sure else pausing.at

    for change in history.pausings:
        before = on.pop((change.scope, change.name), None)
        if before is not None:
            replaced = change.at if is_sure else change.by or change.at
            yield before, began(before), max(began(before), min(before.until or replaced, replaced))
        if not change.is_lifted:
            on[change.scope, change.name] = change
    for pausing in on.values():
        yield pausing, began(pausing), max(began(pausing), pausing.until or history.read_at)
