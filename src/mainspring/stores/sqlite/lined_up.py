"""Claims of runs that wait in lines, on SQLite: picks candidates, counts what is held, and starts what has room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import apsw

from mainspring.core.claiming import Turn, allowance, judge_turn
from mainspring.core.holding import Candidate, KeyAdmission, KeyState, LineStop, admit_to_keys
from mainspring.core.ids import KeyId, LaneId, RunId, SessionId
from mainspring.core.limits import Hold
from mainspring.ports.store.claims import ClaimedRun, ClaimRequest
from mainspring.ports.store.limits import LineClaim, LineClaimResult, LineKey, LineQuota
from mainspring.stores.sqlite.batches import pick_batches
from mainspring.stores.sqlite.rows import (
    NamedRow,
    make_bucket,
    make_claimed,
    to_instant,
    to_json,
    to_micros,
    to_optional_micros,
)
from mainspring.stores.sqlite.statements import (
    execute,
    execute_many,
    fetch_rows,
    fetch_tuples,
    fetch_value,
)

_SPARE = 64
"""Candidates beyond the seats of a claim, for those that are stopped."""
Seat = tuple[SessionId, int]
"""Session and number of the request that gets a run."""
Given = tuple[ClaimedRun, tuple[KeyId, ...], LaneId, Seat]
"""A run that was started, with its keys, its lane and its seat."""


def turn_of(db: apsw.Connection, request: ClaimRequest | LineClaim) -> Turn | None:
    """Say what turn a request has; None if its session is not live."""
    rows = fetch_tuples(db, "read_claimer", {"session_id": request.session_id})
    if not rows:
        return None
    [(last_number, session_epoch)] = rows
    return judge_turn(
        request.number, last_number, policy_epoch=request.policy_epoch, session_epoch=session_epoch
    )


@dataclass(slots=True)
class _Started:
    """What was started, and why lines were stopped."""

    runs: list[Given] = field(default_factory=list)
    stops: dict[LineKey, LineStop] = field(default_factory=dict)


def start_admitted(
    db: apsw.Connection,
    picked: Sequence[NamedRow],
    seats: Sequence[Seat],
    now: datetime,
    *,
    lines: Collection[LineKey] = (),
) -> _Started:
    """Start those of the picked runs that have room under their keys, at most one for each seat.

    Args:
        lines: from which runs are picked. Those that kept a place there come first.
    """
    keys = _read_keys(db, {key_id for row in picked for key_id in _keys_of(row)})
    if lines:
        holders = _pick_holders(db, keys, picked, now)
        picked = [*picked, *(row for row in holders if LineKey(row.key_id, row.lane_id) in lines)]
    admission = admit_to_keys([Candidate(row.id, _keys_of(row)) for row in picked], keys, len(seats), now)
    taken = [picked[place] for place in admission.taken]
    started = _Started()
    for row in picked:
        stop = admission.stop_of(row.key_id, keys, now)
        if stop is not None:
            started.stops[LineKey(row.key_id, row.lane_id)] = stop
    started.runs = start(db, taken, seats, admission, now)
    return started


def start(
    db: apsw.Connection,
    taken: Sequence[NamedRow],
    seats: Sequence[Seat],
    admission: KeyAdmission,
    now: datetime,
) -> list[Given]:
    """Start runs, each for its seat, with the places that they were given."""
    _write(db, taken, admission)
    started: list[Given] = []
    given: dict[Seat, list[NamedRow]] = {}
    for row, seat in zip(taken, seats, strict=False):
        given.setdefault(seat, []).append(row)
    for seat, rows in given.items():
        run_ids = to_json([row.id for row in rows])
        values = {"session_id": seat[0], "number": seat[1], "run_ids": run_ids, "now": to_micros(now)}
        execute(db, "start_lined_up", values)
        found = fetch_tuples(db, "find_started", {"run_ids": run_ids})
        started += [
            (make_claimed(claimed, is_repeat=True), _keys_of(row), row.lane_id, seat)
            for row, claimed in zip(rows, found, strict=True)
        ]
    return started


def _read_keys(db: apsw.Connection, key_ids: set[KeyId]) -> dict[KeyId, KeyState]:
    states: dict[KeyId, KeyState] = {}
    if not key_ids:
        return states
    for row in fetch_rows(db, "read_keys_of_claim", {"key_ids": to_json(sorted(key_ids))}):
        state = KeyState(max_running=row.max_running, hold=Hold(row.hold), bucket=make_bucket(row))
        if state.max_running is not None or state.hold is Hold.RUN:
            state = _count(db, row.id, state, is_compared=state.is_compared_at_once)
            if state.is_full and not state.is_compared_at_once:
                state = _count(db, row.id, state, is_compared=True)
        states[row.id] = state
    return states


def _count(db: apsw.Connection, key_id: KeyId, state: KeyState, *, is_compared: bool) -> KeyState:
    if is_compared:
        execute(db, "drop_void_holds", {"key_id": key_id, "is_by_run": state.hold is Hold.RUN})
    if state.hold is Hold.RUN:
        # Entries that `hold: attempt` left before are of the same run.
        holders = {
            RunId(row.run_id): bool(row.is_under_way)
            for row in fetch_rows(db, "list_holders", {"key_id": key_id})
        }
        under_way = sum(holders.values())
        return replace(state, held=len(holders), holders=frozenset(holders), under_way=under_way)
    return replace(state, held=fetch_value(db, "count_holds", {"key_id": key_id}))


def _pick_holders(
    db: apsw.Connection, keys: dict[KeyId, KeyState], picked: Sequence[NamedRow], now: datetime
) -> list[NamedRow]:
    """Return further runs that kept a place when their attempt ended, and are ready for the next one."""
    known = {row.id for row in picked}
    holders = {run_id for state in keys.values() for run_id in state.holders} - known
    if not holders:
        return []
    at = to_micros(now)
    rows = fetch_rows(db, "pick_holders", {"run_ids": to_json(sorted(holders)), "now": at})
    for key_id, state in list(keys.items()):
        waiting = [row.ready_at for row in rows if row.id in state.holders and row.ready_at > at]
        if waiting:
            keys[key_id] = replace(state, retry_at=to_instant(min(waiting)))
    return [row for row in rows if row.ready_at <= at]


def _write(db: apsw.Connection, taken: Sequence[NamedRow], admission: KeyAdmission) -> None:
    tokens = {row.id: row.token + 1 for row in taken}
    holds = [
        {"key_id": key_id, "run_id": run_id, "token": tokens[run_id]} for key_id, run_id in admission.holds
    ]
    execute_many(db, "add_hold", holds)
    kept = [
        {"key_id": key_id, "run_id": run_id, "token": tokens[run_id]} for key_id, run_id in admission.kept
    ]
    execute_many(db, "keep_hold", kept)
    buckets = [
        {"key_id": key_id, "level": bucket.level, "level_at": to_optional_micros(bucket.level_at)}
        for key_id, bucket in admission.buckets.items()
    ]
    execute_many(db, "set_bucket", buckets)


def _keys_of(row: NamedRow) -> tuple[KeyId, ...]:
    found = (row.key_id, row.second_key_id, row.third_key_id)
    return tuple(key_id for key_id in found if key_id is not None)


def claim_lined_up(
    db: apsw.Connection, requests: Sequence[LineClaim], now: datetime
) -> list[LineClaimResult]:
    """See `LimitStore`."""
    left: dict[int, dict[LineKey, int]] = {}
    stops: dict[int, dict[LineKey, LineStop]] = {}
    results = []
    for request in requests:
        shared = id(request.lines)
        quotas = left.setdefault(shared, {line.key: line.quota for line in request.lines})
        result = _claim(db, request, quotas, now)
        if result.taken or result.stops:
            for key, count in result.taken.items():
                quotas[key] -= count
            stops.setdefault(shared, {}).update(result.stops)
        results.append(result)
    return [
        replace(result, stops=stops.get(id(request.lines), {}))
        for request, result in zip(requests, results, strict=True)
    ]


def _claim(
    db: apsw.Connection, request: LineClaim, quotas: Mapping[LineKey, int], now: datetime
) -> LineClaimResult:
    session = {"session_id": request.session_id, "number": request.number}
    turn = turn_of(db, request)
    if turn is None:
        return LineClaimResult((), is_session_live=False)
    if turn is Turn.OUTDATED:
        return LineClaimResult((), is_policy_old=True)
    if turn is Turn.REPEAT:
        again = fetch_tuples(db, "repeat_claim", session)
        return LineClaimResult(tuple([make_claimed(row, is_repeat=True) for row in again]))
    if turn is Turn.LATE:
        return LineClaimResult(())
    is_held = bool(fetch_value(db, "is_holding_quarantined", {"session_id": request.session_id}))
    limit = allowance(request.limit, is_quarantined=False, is_busy=is_held, is_busy_with_quarantined=is_held)
    execute(db, "set_claim_number", session)
    seats = [(request.session_id, request.number)] * limit
    if request.are_batches:
        return _claim_batches(db, request.lines, quotas, seats, now)
    picked = _pick(db, request.lines, quotas, limit + _SPARE, now) if limit else []
    started = start_admitted(db, picked, seats, now, lines=quotas.keys())
    return LineClaimResult(
        tuple([run for run, _, _, _ in started.runs]),
        taken=Counter(LineKey(keys[0], lane_id) for _, keys, lane_id, _ in started.runs),
        keys={run.run_id: keys for run, keys, _, _ in started.runs},
        stops=started.stops,
    )


def _claim_batches(
    db: apsw.Connection,
    lines: Sequence[LineQuota],
    quotas: Mapping[LineKey, int],
    seats: Sequence[Seat],
    now: datetime,
) -> LineClaimResult:
    batches, stops = pick_batches(db, lines, quotas, len(seats), now)
    rows = [row for _, runs in batches for row in runs]
    admission = KeyAdmission(holds=[(row.key_id, row.id) for row in rows])
    taken = start(db, rows, [seats[0]] * len(rows), admission, now) if rows else []
    return LineClaimResult(
        tuple([run for run, _, _, _ in taken]), taken=Counter(key for key, _ in batches), stops=stops
    )


def _pick(
    db: apsw.Connection, lines: Sequence[LineQuota], quotas: Mapping[LineKey, int], most: int, now: datetime
) -> list[NamedRow]:
    picked: list[NamedRow] = []
    for line in lines:
        limit = min(quotas[line.key], most - len(picked))
        if limit < 1:
            continue
        values = {**line.key._asdict(), "low": to_micros(line.low), "now": to_micros(now), "limit": limit}
        picked += fetch_rows(db, "pick_lined_up", values)
    return picked
