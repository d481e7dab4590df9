"""S35: nothing is given out while a calendar holds that stops it, and fires are skipped only by such a calendar."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from mainspring.core.ids import format_run_id
from mainspring.core.model import Run, RunKind
from mainspring.core.states import RunState
from tools.judge.model import BlackoutChange, History, StillWindow, Violation
from tools.judge.runs import Runs

PATIENCE = timedelta(seconds=3)
"""After a change, all servers know of it within this time; a second is promised."""
_FAR = timedelta(days=36_500)


@dataclass(frozen=True, slots=True)
class _Period:
    """What calendars stop from one change up to the next of the same.

    Attributes:
        ends_at, end: when the next change was committed, and how many events before it.
    """

    change: BlackoutChange
    ends_at: datetime
    end: int

    def covers(self, run: Run) -> bool:
        change = self.change
        if change.scope == "all":
            return True
        return change.name == (run.lane.queue if change.scope == "queue" else run.tenant)


def judge_blackouts(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """S35: claims by the instant at which they were chosen, and none chosen before that comes long after the edge."""
    periods = list(_periods(history))
    yield from _judge_skips(history, runs, periods, counts)
    if periods:
        yield from _judge_claims(history, runs, periods, counts)
        yield from _judge_fires(history, periods, runs, counts)


def _periods(history: History) -> Iterator[_Period]:
    on: dict[tuple[str, str], BlackoutChange] = {}
    for change in history.blackouts:
        before = on.get((change.scope, change.name))
        if before is not None:
            yield _Period(before, change.at, change.place)
        on[change.scope, change.name] = change
    for change in on.values():
        yield _Period(change, history.read_at + _FAR, len(history.events))


def _judge_claims(
    history: History, runs: Runs, periods: list[_Period], counts: Counter[str]
) -> Iterator[Violation]:
    for place, event in enumerate(history.events):
        run = runs.by_id.get(event.run_id) if event.run_id is not None else None
        if event.what != "claimed" or run is None:
            continue
        for period in periods:
            if not period.change.place <= place < period.end or not period.covers(run):
                continue
            counts["claims_beside_a_blackout"] += 1
            for window in period.change.windows:
                stretch = f"the blackout from {window.low} to {window.high}"
                why = f"{event.at.isoformat()} claimed, token {event.token}, in {stretch}"
                if window.low <= event.at < window.high:
                    yield Violation("S35", format_run_id(run.id), (why,))
                    return
                # Chosen before it began, but given out when every sound server had come to its beginning.
                committed_at = event.committed_at or event.at
                if event.at < window.low and _must_have_begun(history, period, window, committed_at):
                    yield Violation(
                        "S35", format_run_id(run.id), (why, f"committed {committed_at.isoformat()}")
                    )
                    return


def _must_have_begun(history: History, period: _Period, window: StillWindow, committed_at: datetime) -> bool:
    """Say whether a server without faults has come to a blackout's beginning, and has had time to act for all."""
    if not window.low + PATIENCE < committed_at < window.high or period.change.at + PATIENCE > window.low:
        return False
    begin, end = window.low - 2 * PATIENCE, window.low + PATIENCE
    hit = {fault.target for fault in history.faults if fault.at <= end and fault.until >= begin}
    return "" not in hit and any(server not in hit for server in history.servers)


def _judge_skips(
    history: History, runs: Runs, periods: list[_Period], counts: Counter[str]
) -> Iterator[Violation]:
    for run in history.runs:
        if run.state is not RunState.SKIPPED or run.reason != "blackout":
            continue
        counts["fires_skipped_by_a_blackout"] += 1
        if run.fire_at is None:
            yield runs.accuse("S35", run.id, "skipped by a blackout, but no fire")
        spec = runs.spec_of(run)
        low = run.fire_at or run.due_at
        high = low if spec is None else low + spec.jitter
        # A server may go by what it knew before for a moment, or for longer if it is in trouble.
        if not any(
            window.mode == "skip"
            and period.covers(run)
            and window.since - history.slack <= high
            and low < window.high
            and window.low <= high
            for period in periods
            for window in period.change.windows
        ):
            yield runs.accuse("S35", run.id, "skipped by a blackout that there was not")


def _judge_fires(
    history: History, periods: list[_Period], runs: Runs, counts: Counter[str]
) -> Iterator[Violation]:
    """A fire that falls due in a blackout that skips fires does not become work.

    Unless the server that made it may not have heard of the blackout, because of faults since that was set, each of
    which began before the server had got over the one before.
    """
    for run in history.runs:
        is_fire = run.kind is RunKind.SCHEDULED and run.fire_range_id is None
        if not is_fire or run.state is RunState.SKIPPED:
            continue
        for period in periods:
            known_at = period.change.at + PATIENCE
            for window in period.change.windows:
                if window.mode != "skip" or not period.covers(run):
                    continue
                made_in_time = known_at < run.due_at and run.created_at < period.ends_at
                if not made_in_time or not max(window.low, window.since) <= run.due_at < window.high:
                    continue
                counts["fires_beside_a_skipping_blackout"] += 1
                if run.created_at > _known_to_all(history, known_at):
                    why = f"fell due in the blackout from {window.low} to {window.high}"
                    yield runs.accuse("S35", run.id, f"{why}, and was not skipped")


def _known_to_all(history: History, known_at: datetime) -> datetime:
    """Return when every server has heard of what it would have known at an instant, had there been no faults."""
    for fault in sorted(history.faults, key=lambda fault: fault.at):
        if fault.at > known_at:
            break
        known_at = max(known_at, fault.until + 2 * PATIENCE)
    return known_at


def still_times(history: History) -> Iterator[tuple[datetime, datetime]]:
    """Yield when calendars stopped anything, for rules about what starts soon."""
    for period in _periods(history):
        for window in period.change.windows:
            low, high = max(window.low, period.change.at), min(window.high, period.ends_at)
            if low < high:
                yield low, high
