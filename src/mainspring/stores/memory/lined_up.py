"""Claims of runs that wait in lines, in memory: picks candidates, counts what is held, and starts what has room."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from mainspring.core.claiming import is_expired
from mainspring.core.holding import Candidate, KeyState, LineStop, admit_to_keys
from mainspring.core.ids import KeyId, LaneId, RunId
from mainspring.core.limits import Hold
from mainspring.core.rates import Bucket
from mainspring.core.states import FINAL_STATES, READY_STATES, RunState
from mainspring.ports.store.claims import NO_CAPPED_LANES
from mainspring.ports.store.limits import PLAIN, LineKey, LineQuota
from mainspring.stores.memory.index import LAST_ID
from mainspring.stores.memory.rows import LimitKeyRow, RunRow
from mainspring.stores.memory.tables import Tables

SPARE = 64
"""Candidates beyond the seats of a claim, for those that are stopped."""


@dataclass(slots=True)
class Admitted:
    """The runs that start, what they have places under, and why lines were stopped."""

    runs: list[RunRow] = field(default_factory=list)
    keys: dict[RunId, tuple[KeyId, ...]] = field(default_factory=dict)
    stops: dict[LineKey, LineStop] = field(default_factory=dict)


def admit(
    tables: Tables,
    picked: Sequence[RunRow],
    seats: int,
    now: datetime,
    *,
    lines: Collection[LineKey] = (),
    caps: Mapping[LaneId, tuple[KeyId, ...]] = NO_CAPPED_LANES,
) -> Admitted:
    """Decide which of the picked runs start, and give them places under their keys.

    Args:
        lines: from which runs are picked. Those that kept a place there come first.
        caps: the keys of the caps of lanes.
    """
    keys = {
        key_id: _state_of(tables, tables.limits.keys[key_id])
        for key_id in {one for run in picked for one in (*run.keys, *caps.get(run.lane.id, ()))}
        if key_id in tables.limits.keys
    }
    picked = [*picked, *_pick_holders(tables, keys, picked, now, lines)]
    candidates = [Candidate(run.id, (*run.keys, *caps.get(run.lane.id, ())), line_of(run)) for run in picked]
    return _take(tables, picked, candidates, keys, seats, now)


def _take(
    tables: Tables,
    picked: Sequence[RunRow],
    candidates: Sequence[Candidate],
    keys: Mapping[KeyId, KeyState],
    seats: int,
    now: datetime,
) -> Admitted:
    admission = admit_to_keys(candidates, keys, seats, now)
    for key_id, run_id in [*admission.holds, *admission.kept]:
        tables.limits.keys[key_id].holds[run_id] = tables.runs[run_id].token + 1
    for key_id, bucket in admission.buckets.items():
        row = tables.limits.keys[key_id]
        row.level, row.level_at = bucket.level, bucket.level_at
    stops = {
        line_of(run): stop
        for run in picked
        if (stop := admission.stop_of(line_of(run), keys, now)) is not None
    }
    taken = {candidates[place].run_id: candidates[place].keys for place in admission.taken}
    return Admitted([picked[place] for place in admission.taken], taken, stops)


def admit_to_caps(
    tables: Tables, picked: Sequence[RunRow], now: datetime, *, caps: Mapping[LaneId, tuple[KeyId, ...]]
) -> Admitted:
    """Decide which of the picked runs there is room for under the caps of their lanes, and give them places there."""
    needed = {run.id: caps.get(run.lane.id, ()) for run in picked}
    keys = {
        key_id: _state_of(tables, tables.limits.keys[key_id])
        for key_id in {one for found in needed.values() for one in found}
        if key_id in tables.limits.keys
    }
    candidates = [Candidate(run.id, needed[run.id], line_of(run)) for run in picked]
    return _take(tables, picked, candidates, keys, len(picked), now)


def line_of(run: RunRow) -> LineKey:
    """Return the line of a run."""
    return LineKey(run.keys[0] if run.keys else PLAIN, run.lane.id)


def pick(
    tables: Tables, lines: Sequence[LineQuota], quotas: Mapping[LineKey, int], most: int, now: datetime
) -> list[RunRow]:
    """Return candidates, line after line."""
    picked: list[RunRow] = []
    for line in lines:
        lane = tables.lanes.get(line.key.lane_id)
        if lane is None:
            continue
        index = lane.ready if line.key.key_id == PLAIN else lane.lines.get(line.key.key_id)
        limit = min(quotas[line.key], most - len(picked))
        if index is None or limit < 1:
            continue
        ready = (tables.runs[run_id] for _, run_id in index.between((line.low,), (now, LAST_ID)))
        picked += [run for run in ready if not is_expired(run.expires_at, now)][:limit]
    return picked


def bucket_of(tables: Tables, key: LimitKeyRow) -> Bucket | None:
    """Return the permits of a key; None if its limit has no rate."""
    rule = tables.limits.rules[key.tenant, key.limit]
    if rule.rate is None:
        return None
    return Bucket(rule.rate, rule.burst or rule.rate.usual_burst, key.level, key.level_at)


def is_counted(tables: Tables, key: LimitKeyRow, run_id: RunId, token: int) -> bool:
    """Say whether a place counts: its run has it still."""
    run = tables.runs.get(run_id)
    if run is None or run.state in FINAL_STATES:
        return False
    is_by_run = tables.limits.rules[key.tenant, key.limit].hold is Hold.RUN
    return is_by_run or (run.state is RunState.RUNNING and run.token == token)


def _state_of(tables: Tables, key: LimitKeyRow) -> KeyState:
    rule = tables.limits.rules[key.tenant, key.limit]
    for run_id, token in list(key.holds.items()):
        if not is_counted(tables, key, run_id, token):
            del key.holds[run_id]
    holders = frozenset(key.holds) if rule.hold is Hold.RUN else frozenset()
    return KeyState(
        max_running=rule.max_running,
        hold=rule.hold,
        held=len(key.holds),
        holders=holders,
        under_way=sum(tables.runs[run_id].state is RunState.RUNNING for run_id in holders),
        bucket=bucket_of(tables, key),
    )


def _pick_holders(
    tables: Tables,
    keys: dict[KeyId, KeyState],
    picked: Sequence[RunRow],
    now: datetime,
    lines: Collection[LineKey],
) -> list[RunRow]:
    """Return further runs that kept a place when their attempt ended, and are ready for the next one."""
    known = {run.id for run in picked}
    holders = sorted({run_id for state in keys.values() for run_id in state.holders} - known)
    rows = [tables.runs[run_id] for run_id in holders] if lines else []
    rows = [
        run
        for run in rows
        if run.state in READY_STATES and not run.crashes and not is_expired(run.expires_at, now)
    ]
    for key_id, state in list(keys.items()):
        waiting = [run.ready_at for run in rows if run.id in state.holders and run.ready_at > now]
        if waiting:
            keys[key_id] = replace(state, retry_at=min(waiting))
    return [run for run in rows if run.keys and run.ready_at <= now and line_of(run) in lines]
