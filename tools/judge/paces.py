"""S20 for catch-up: missed fires are made up for no faster than their job says, and not too many are live at a time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from mainspring.core.ids import JobId, RunId, format_job_id
from mainspring.core.model import Run, RunKind
from mainspring.core.states import FINAL_STATES
from tools.judge.model import History, Violation

if TYPE_CHECKING:
    from mainspring.core.pacing import CatchUpRule
    from mainspring.core.rates import Rate

_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class CatchUpBounds:
    """The loosest bounds that any version of a job had. None: a version left it to the server.

    Attributes:
        rates: all that it had.
    """

    rates: tuple[Rate, ...] | None
    max_live: int | None

    @property
    def rate(self) -> Rate | None:
        """The highest rate."""
        return max(self.rates, key=lambda rate: rate.count * _SECOND / rate.per) if self.rates else None

    @property
    def drain(self) -> timedelta:
        """The longest time between two runs that a rate allows."""
        return max((rate.per / rate.count for rate in self.rates or ()), default=timedelta(0))


def judge_paces(history: History, counts: Counter[str]) -> Iterator[Violation]:
    """S20: neither the rate nor the bound of live runs is passed."""
    bounds = read_bounds(history)
    made: dict[JobId, Counter[datetime]] = defaultdict(Counter)
    for run in sorted(filter(_is_caught_up, history.runs), key=lambda run: run.id):
        made[run.job_id][run.created_at] += 1
    for job_id, steps in made.items():
        rate = bounds[job_id].rate if job_id in bounds else None
        if rate is None:
            continue
        counts["catch_ups_paced"] += max(steps.values()) >= rate.count * _SECOND / rate.per
        why = too_fast(steps.items(), rate.count, rate.per)
        if why is not None:
            yield Violation("S20", f"catch-up of {format_job_id(job_id)}", (why,))
    for at, job_id, live in _live_counts(history):
        most = bounds[job_id].max_live if job_id in bounds else None
        counts["catch_ups_full"] += live == most
        if most is not None and live > most:
            why = f"{at.isoformat()}: {live} of its runs are live, and {most} may be"
            yield Violation("S20", f"catch-up of {format_job_id(job_id)}", (why,))
            return


def too_fast(steps: Iterable[tuple[datetime, int]], count: int, per: timedelta) -> str | None:
    """Say where a step made more runs than permits had come in. Steps are in the order of their commits."""
    burst = max(-(-count * _SECOND // per), 1)
    level, level_at = float(burst), None
    for at, made in steps:
        later = at if level_at is None else max(at, level_at)
        come = timedelta(0) if level_at is None else later - level_at
        level = min(level + come / per * count, float(burst)) - made
        level_at = later
        if level < -1e-6:
            return f"{at.isoformat()}: made {made} runs, {-level:.3f} more than its rate allows"
    return None


def read_bounds(history: History) -> Mapping[JobId, CatchUpBounds]:
    """Return the bounds of the jobs whose catch-up has any."""
    rules: dict[JobId, list[CatchUpRule]] = defaultdict(list)
    for change in history.changes:
        rules[change.job_id].append(change.spec.catch_up)
    found: dict[JobId, CatchUpBounds] = {}
    for job_id, mine in rules.items():
        rates = [rule.rate for rule in mine if rule.rate is not None]
        lives = [rule.max_live for rule in mine if rule.max_live is not None]
        if rates or lives:
            found[job_id] = CatchUpBounds(
                tuple(rates) if len(rates) == len(mine) else None,
                max(lives) if len(lives) == len(mine) else None,
            )
    return found


def full_times(history: History, since: datetime) -> Mapping[JobId, timedelta]:
    """Return for how long after an instant catch-ups had all the live runs that they may have."""
    bounds = read_bounds(history)
    full_since: dict[JobId, datetime] = {}
    found: dict[JobId, timedelta] = defaultdict(timedelta)
    for at, job_id, live in _live_counts(history):
        most = bounds[job_id].max_live if job_id in bounds else None
        if most is not None and live >= most:
            full_since.setdefault(job_id, at)
        elif job_id in full_since:
            found[job_id] += max(at - max(full_since.pop(job_id), since), timedelta(0))
    for job_id, at in full_since.items():
        found[job_id] += max(history.read_at - max(at, since), timedelta(0))
    return found


def _live_counts(history: History) -> Iterator[tuple[datetime, JobId, int]]:
    """Yield how many runs of a job that make up for missed fires are live, whenever that may have changed."""
    known = {run.id for run in history.runs if _is_caught_up(run)}
    live: dict[JobId, set[RunId]] = defaultdict(set)
    for event in history.events:
        if event.run_id is None or event.run_id not in known or event.is_stale:
            continue
        mine = live[event.job_id]
        (mine.discard if event.target in FINAL_STATES else mine.add)(event.run_id)
        yield event.at, event.job_id, len(mine)


def _is_caught_up(run: Run) -> bool:
    return run.fire_range_id is not None and run.kind is RunKind.SCHEDULED
