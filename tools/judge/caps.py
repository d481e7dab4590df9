"""S14 and L10 for caps of queues, tenants and labels: they are never passed, and what has room does not wait."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime

from mainspring.core.ids import RunId, format_run_id
from mainspring.core.model import LaneKey
from mainspring.core.states import FINAL_STATES, RunState
from tools.judge.delays import Occupation, Times
from tools.judge.model import Event, History, Violation
from tools.judge.pauses import hold_times
from tools.judge.runs import Runs
from tools.judge.scopes import ScopeKey, scopes_of

PATIENCE_SECONDS = 8.0
"""How long a lane with room may wait: one that looked full is tried again after five seconds."""


class _Caps:
    """The caps as they are at each event, and what runs under each."""

    def __init__(self, history: History, runs: Runs) -> None:
        self.most: dict[ScopeKey, int] = {}
        self.running: defaultdict[ScopeKey, set[RunId]] = defaultdict(set)
        self._changes = list(history.cappings)
        self._runs = runs
        self._of: dict[RunId, list[ScopeKey]] = {}
        self._known = {(one.scope, one.name) for one in history.cappings}

    def of(self, run_id: RunId) -> list[ScopeKey]:
        """Return what a run is counted under, if it is ever capped."""
        if run_id not in self._of:
            run = self._runs.by_id.get(run_id)
            self._of[run_id] = [] if run is None else sorted(scopes_of(run) & self._known)
        return self._of[run_id]

    def move_to(self, place: int) -> None:
        """Apply what was set before so many events had been committed."""
        while self._changes and self._changes[0].place <= place:
            change = self._changes.pop(0)
            self.most.pop((change.scope, change.name), None)
            if change.max_running is not None:
                self.most[change.scope, change.name] = change.max_running

    def apply(self, event: Event) -> None:
        """Note what starts and what ends."""
        assert event.run_id is not None
        for key in self.of(event.run_id):
            if event.what == "claimed":
                self.running[key].add(event.run_id)
            else:
                self.running[key].discard(event.run_id)

    def has_room(self, run_id: RunId) -> bool:
        """Say whether a run could start."""
        return all(key not in self.most or len(self.running[key]) < self.most[key] for key in self.of(run_id))


def judge_caps(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """S14: from the commit of a cap on, nothing starts beyond it; what ran before is counted."""
    if not history.cappings:
        return
    caps = _Caps(history, runs)
    for place, event in enumerate(history.events):
        caps.move_to(place)
        if event.run_id is None or event.is_stale or not caps.of(event.run_id):
            continue
        caps.apply(event)
        if event.what != "claimed":
            continue
        for key in caps.of(event.run_id):
            most, found = caps.most.get(key), caps.running[key]
            if most is None:
                continue
            counts["starts_under_caps"] += 1
            counts["lane_caps_reached"] += len(found) == most
            if len(found) > most:
                others = ", ".join(format_run_id(run_id) for run_id in sorted(found))
                what = f"{len(found)} of {key[0]} {key[1]} are under way, where {most} may be"
                yield Violation(
                    "S14", format_run_id(event.run_id), (f"{event.at.isoformat()}: {what}: {others}",)
                )
                return


def judge_capped_lanes(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """L10: away from faults, the first run of a lane that has room under its caps, and a slot, starts soon."""
    if not history.cappings:
        return
    caps, waiting = _Caps(history, runs), defaultdict[LaneKey, dict[RunId, datetime]](dict)
    faults = [(fault.at, fault.until + 3 * history.lease) for fault in history.faults]
    troubled = Times([*faults, *hold_times(history)])
    occupation = Occupation(history, runs)
    since: dict[LaneKey, datetime] = {}
    for place, event in enumerate(history.events):
        caps.move_to(place)
        if event.run_id is None or event.is_stale or not caps.of(event.run_id):
            continue
        caps.apply(event)
        run = runs.by_id[event.run_id]
        spec = runs.spec_of(run)
        if spec is None or spec.is_lined_up:
            continue  # its own limits may stop it
        if event.target is RunState.PENDING and event.what in {"inserted", "fired"}:
            waiting[run.lane][run.id] = run.due_at
        elif event.what == "claimed" or event.target in FINAL_STATES:
            waiting[run.lane].pop(run.id, None)
        for lane, mine in waiting.items():
            head = min(mine, key=lambda run_id: (mine[run_id], run_id), default=None)
            if head is None or mine[head] > event.at or not caps.has_room(head):
                since.pop(lane, None)
                continue
            begin = since.setdefault(lane, event.at)
            if (event.at - begin).total_seconds() <= PATIENCE_SECONDS or troubled.meet(begin, event.at):
                continue
            counts["capped_lanes_timed"] += 1
            if occupation.most(begin, event.at) < history.slots:
                yield runs.accuse("L10", head, f"first in a lane with room since {begin.isoformat()}")
                return
        counts["capped_lanes_followed"] += 1
