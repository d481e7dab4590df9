"""Rules about how long things take when nothing is broken: L1 to L3."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import accumulate

from mainspring.core.ids import format_job_id
from mainspring.core.model import FireRangeKind, Run, RunKind
from mainspring.core.states import RunState
from tools.judge.model import History, Violation
from tools.judge.owed import Owed
from tools.judge.pauses import hold_times
from tools.judge.runs import Runs
from tools.judge.scopes import is_ever_capped

BOUND = timedelta(seconds=2)
"""The limit for fires and starts with free capacity and no fault nearby. The product promises one second."""


class Times:
    """A set of periods of time, for many queries. The periods may overlap."""

    def __init__(self, periods: Iterable[tuple[datetime, datetime]]) -> None:
        self._begins: list[datetime] = []
        self._ends: list[datetime] = []
        for begin, end in sorted(periods):
            if self._ends and begin <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._begins.append(begin)
                self._ends.append(end)

    def meet(self, begin: datetime, end: datetime) -> bool:
        """Say whether any period has an instant in common with the time from `begin` to `end`."""
        first = bisect_left(self._ends, begin)
        return first < len(self._begins) and self._begins[first] <= end


class Occupation:
    """How many slots were taken. A run that runs alone, after a crash, takes all of them."""

    def __init__(self, history: History, runs: Runs) -> None:
        starts, ends = [], []
        calls: set[tuple[str, str]] = set()
        for effect in history.effects:
            if effect.call is not None:  # its runs take one slot
                if (effect.worker, effect.call) in calls:
                    continue
                calls.add((effect.worker, effect.call))
            attempts = runs.attempts.get(effect.run_id, [])
            was_lost_before = any(item.outcome == "lost" and item.token < effect.token for item in attempts)
            slots = history.slots if was_lost_before else 1
            starts.append((effect.started_at, slots))
            if effect.ended_at is not None:
                ends.append((effect.ended_at, slots))
        self._starts, self._taken = _sum_up(starts)
        self._ends, self._freed = _sum_up(ends)

    def most(self, begin: datetime, end: datetime) -> int:
        """Return how many slots were taken by executions under way at any instant from `begin` to `end`."""
        taken = self._taken[bisect_right(self._starts, end)]
        return taken - self._freed[bisect_left(self._ends, begin)]


def _sum_up(steps: list[tuple[datetime, int]]) -> tuple[list[datetime], list[int]]:
    """Return the instants in order, and the sums before each of them and at the end."""
    steps.sort()
    return [at for at, _ in steps], [0, *accumulate(slots for _, slots in steps)]


def judge_delays(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """L1, L2 and L3: away from faults and the recovery after them, fires are made and started at once."""
    recovery = 3 * history.lease
    troubled = Times((fault.at - BOUND, fault.until + recovery) for fault in history.faults)
    yield from _judge_fires(history, runs, troubled, counts)
    quarantined = Times(waits_of_quarantined(history, runs))
    occupation = Occupation(history, runs)
    held = Times((begin, end + BOUND) for begin, end in hold_times(history))
    for run in history.runs:
        yield from _judge_losses(history, run, runs, counts)
        start = _first_start(run, runs)
        due = max(run.due_at, run.created_at)
        if (
            start is None
            or troubled.meet(due, due)
            or quarantined.meet(due, start)
            or _has_limits(history, run, runs)
        ):
            continue
        if held.meet(due, start):
            continue  # S34 is about those
        if occupation.most(due, start) < history.slots:
            counts["starts_timed"] += 1
            if start > due + BOUND:
                yield runs.accuse("L1", run.id, f"started {start - due} late, far from any fault")


def _has_limits(history: History, run: Run, runs: Runs) -> bool:
    """Say whether a run may have to wait for room; L10 is about those."""
    spec = runs.spec_of(run)
    return (spec is not None and spec.is_lined_up) or is_ever_capped(history, run)


def _judge_fires(history: History, runs: Runs, troubled: Times, counts: Counter[str]) -> Iterator[Violation]:
    """L2: a fire becomes a run, or part of a fire range, at once.

    A fire range's first fire is where the clock had stopped; those of calendars are recorded row by row.
    """
    owed = Owed(history)
    for run in history.runs:
        if run.fire_at is None or run.fire_range_id is not None or run.kind is not RunKind.SCHEDULED:
            continue
        owed_at = owed.of_run(run)
        late = run.created_at - owed_at
        if not troubled.meet(run.fire_at, owed_at):
            counts["fires_timed"] += 1
            if late > BOUND:
                yield runs.accuse("L2", run.id, f"fired {late} late, far from any fault")
    for fire_range in history.fire_ranges:
        is_closed = fire_range.reason.split(":")[0] == "calendar" and fire_range.to_at is not None
        owed_at = (
            owed.of_row(fire_range)
            if is_closed
            else owed.at_latest(fire_range.job_id, fire_range.version, fire_range.from_at)
        )
        late = fire_range.created_at - owed_at
        if (
            fire_range.kind is not FireRangeKind.BACKFILL
            and late > BOUND
            and not troubled.meet(fire_range.from_at, owed_at)
        ):
            since = fire_range.from_at.isoformat()
            why = f"{fire_range.kind} for {fire_range.reason} from {since}, recorded {late} late"
            yield Violation("L2", f"fire range {fire_range.id} of {format_job_id(fire_range.job_id)}", (why,))


def _judge_losses(history: History, run: Run, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """L3: what a worker lost, or never began, is given back within the recovery time after the last fault before
    that.
    """
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
        return run.finished_at  # it waited until then
    return min(starts, default=None)


def waits_of_quarantined(history: History, runs: Runs) -> Iterator[tuple[datetime, datetime]]:
    """Yield when runs that had been lost waited to run alone: a worker then takes nothing else until it is idle."""
    for run in history.runs:
        was_lost_before = False
        effects = runs.effects.get(run.id, [])
        for attempt in sorted(runs.attempts.get(run.id, []), key=lambda item: item.token):
            was_lost_before = was_lost_before or attempt.outcome == "lost"
            if was_lost_before:
                later = [effect.started_at for effect in effects if effect.token > attempt.token]
                yield attempt.finished_at, min(later, default=run.finished_at or history.read_at)
