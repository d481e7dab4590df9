"""S34: nothing of what is paused is given out, and fires are skipped only by pauses that say so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from mainspring.core.ids import format_run_id
from mainspring.core.model import Run
from mainspring.core.states import RunState
from tools.judge.model import History, Pausing, Violation
from tools.judge.runs import Runs


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


def _covers(pausing: Pausing, run: Run) -> bool:
    if pausing.scope == "all":
        return True
    return pausing.name == (run.lane.queue if pausing.scope == "queue" else run.tenant)


def hold_times(history: History) -> Iterator[tuple[datetime, datetime]]:
    """Yield when anything was paused, for rules about what starts soon."""
    on: dict[tuple[str, str], Pausing] = {}
    for change in history.pausings:
        before = on.pop((change.scope, change.name), None)
        if before is not None:
            yield before.at, max(before.at, min(before.until or change.at, change.at))
        if not change.is_lifted:
            on[change.scope, change.name] = change
    for pausing in on.values():
        yield pausing.at, max(pausing.at, pausing.until or history.read_at)
