"""S14 and L10: limits are never passed, and what has room under them does not wait."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from mainspring.core.ids import RunId, format_run_id
from mainspring.core.model import JobSpec, Run
from mainspring.core.states import FINAL_STATES, RunState
from tools.judge.delays import Occupation, Times
from tools.judge.model import Event, History, Violation
from tools.judge.overlaps import edited_lines, stands_in_line
from tools.judge.pauses import hold_times
from tools.judge.runs import Runs
from tools.judge.scopes import is_ever_capped

if TYPE_CHECKING:  # workers of older releases, which have no limits, import the judge with the jobs of trials
    from mainspring.core.rates import Rate

PATIENCE = timedelta(seconds=8)
"""How long a line with room may wait: a line that looked full is tried again after five seconds."""


@dataclass(slots=True)
class _Key:
    """What is known of a key.

    Attributes:
        is_for_run: a run keeps its place between its attempts.
        running: the runs that have a place.
        level, level_at: the permits, as they come in at the rate and are taken.
    """

    cap: int | None
    is_for_run: bool
    rate: Rate | None
    burst: int
    running: set[RunId] = field(default_factory=set)
    level: float = 0.0
    level_at: datetime | None = None

    def take_permit(self, at: datetime) -> bool:
        """Take a permit; return whether there was one."""
        if self.rate is None:
            return True
        if self.level_at is None:
            self.level, self.level_at = float(self.burst), at
        later = max(at, self.level_at)
        come = (later - self.level_at) / self.rate.per * self.rate.count
        self.level, self.level_at = min(self.level + come, float(self.burst)) - 1, later
        return self.level >= -1e-6

    @property
    def has_room(self) -> bool:
        return self.rate is None and (self.cap is None or len(self.running) < self.cap)


class _Book:
    """The keys of all runs, read from their definitions and payloads by rules of its own."""

    def __init__(self, history: History, runs: Runs) -> None:
        self._limits = history.limits
        self._runs = runs
        self._edited = edited_lines(history)
        self._keys: dict[tuple[Any, ...], _Key] = {}
        self._of: dict[RunId, list[_Key]] = {}

    def of(self, run_id: RunId) -> list[_Key]:
        """Return the keys of a run; none if it has no limits."""
        known = self._of.get(run_id)
        if known is None:
            run = self._runs.by_id.get(run_id)
            spec = None if run is None else self._runs.spec_of(run)
            has_keys = spec is not None and (spec.concurrency or stands_in_line(spec))
            is_judged = (
                run is not None and run.job_id not in self._edited
            )  # else `judge_overlaps` follows its line
            known = self._find(run, spec) if run and spec and has_keys and is_judged else []
            self._of[run_id] = known
        return known

    def _find(self, run: Run, spec: JobSpec) -> list[_Key]:
        payload = json.loads(run.payload or spec.payload or b"null")
        found = []
        for place, limit in enumerate(spec.concurrency):
            text = limit.key or ""
            value = value_of(text, payload)
            rule: Mapping[str, Any] = self._limits[limit.use] if limit.use is not None else {}
            owner = "*" if rule.get("scope") == "cluster" else run.tenant
            name = (owner, limit.use) if limit.use is not None else (run.job_id, place)
            rate, cap = limit.rate, rule.get("max_running", limit.limit)
            key = _Key(
                cap, limit.hold == "run", rate, limit.burst or (rate.usual_burst if rate is not None else 0)
            )
            found.append(self._keys.setdefault((*name, value), key))
        if stands_in_line(spec):
            line = _Key(1, is_for_run=True, rate=None, burst=0)
            found.insert(0, self._keys.setdefault((run.job_id, "overlap"), line))
        return found


def value_of(key: str, payload: Any) -> str:
    """Return a run's value of a key, which may be a path. A number and its text are one value."""
    return str(payload[key.removeprefix("$.")]) if key.startswith("$.") else key


def judge_limits(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """S14: no key has more runs under way than its cap, nor more starts than permits have come in.

    What is under way is what the store has given out: a run counts from its claim to the end of its attempt, or with
    `hold: run` to its own end.
    """
    book = _Book(history, runs)
    for event in history.events:
        if event.run_id is None or event.is_stale:
            continue
        for key in book.of(event.run_id):
            if event.what == "claimed":
                counts["starts_under_limits"] += 1
                counts["places_kept"] += event.run_id in key.running
                key.running.add(event.run_id)
                if key.cap is not None and len(key.running) > key.cap:
                    others = ", ".join(format_run_id(run_id) for run_id in sorted(key.running))
                    why = f"{event.at.isoformat()}: {len(key.running)} under way, where {key.cap} may be: {others}"
                    yield Violation("S14", format_run_id(event.run_id), (why,))
                    return
                counts["caps_reached"] += key.cap is not None and len(key.running) == key.cap
                counts["starts_under_rates"] += key.rate is not None
                if not key.take_permit(event.at):
                    why = f"{event.at.isoformat()}: started without a permit, {key.level:.3f} are left"
                    yield Violation("S14", format_run_id(event.run_id), (why,))
                    return
            elif event.target in FINAL_STATES or not key.is_for_run:
                key.running.discard(event.run_id)


def judge_lines(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """L10: away from faults, the first run of a line that has room under all its keys, and a slot, starts soon."""
    book, waiting = _Book(history, runs), defaultdict[int, dict[RunId, datetime]](dict)
    faults = [(fault.at, fault.until + 3 * history.lease) for fault in history.faults]
    troubled = Times([*faults, *((begin, end + PATIENCE) for begin, end in hold_times(history))])
    occupation = Occupation(history, runs)
    since: dict[int, datetime] = {}
    for event in history.events:
        if event.run_id is None or event.is_stale or not (keys := book.of(event.run_id)):
            continue
        if is_ever_capped(history, runs.by_id[event.run_id]):
            _apply(event, keys, {event.run_id: event.at}, runs)
            continue  # its lane may be full
        _apply(event, keys, waiting[id(keys[0])], runs)
        for line, mine in waiting.items():
            head = min(mine, key=lambda run_id: (mine[run_id], run_id), default=None)
            if head is None or mine[head] > event.at or not all(key.has_room for key in book.of(head)):
                since.pop(line, None)
                continue
            begin = since.setdefault(line, event.at)
            if event.at - begin <= PATIENCE or troubled.meet(begin, event.at):
                continue
            counts["lines_timed"] += 1
            if occupation.most(begin, event.at) < history.slots:
                yield runs.accuse("L10", head, f"first in a line with room since {begin.isoformat()}")
                return
        counts["lines_followed"] += 1


def _apply(event: Event, keys: list[_Key], line: dict[RunId, datetime], runs: Runs) -> None:
    assert event.run_id is not None
    if event.what == "claimed":
        line.pop(event.run_id, None)
        for key in keys:
            key.running.add(event.run_id)
        return
    for key in keys:
        if event.target in FINAL_STATES or not key.is_for_run:
            key.running.discard(event.run_id)
    if event.target is RunState.PENDING and event.what in {"inserted", "fired"}:
        line[event.run_id] = runs.by_id[event.run_id].due_at
    else:
        line.pop(event.run_id, None)
