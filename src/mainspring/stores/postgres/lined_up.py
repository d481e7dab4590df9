"""Claims of runs that wait in lines: picks candidates, locks their keys, counts, and starts what has room."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from asyncpg import Record

from mainspring.core.holding import Candidate, KeyAdmission, KeyState, LineStop, admit_to_keys
from mainspring.core.ids import KeyId, RunId, SessionId
from mainspring.core.limits import Hold
from mainspring.ports.store.limits import LineClaim, LineKey
from mainspring.stores.postgres.batches import pick_batches
from mainspring.stores.postgres.connection import Transaction
from mainspring.stores.postgres.rows import bucket_of

_SPARE = 64
"""Candidates beyond the seats of a claim, for those that are stopped."""
Seat = tuple[SessionId, int]
"""Session and number of the request that gets a run."""


class _Keys:
    """The keys of the candidates of one claim, as they are under their locks."""

    def __init__(self) -> None:
        self.states: dict[KeyId, KeyState] = {}
        self._held_from: dict[KeyId, int] = {}
        self._moved: dict[KeyId, int] = {}  # the lower bounds that have risen

    async def lock(self, transaction: Transaction, key_ids: Sequence[KeyId]) -> None:
        """Lock the keys that nobody else decides about, and count what is held of them."""
        for row in await transaction.fetch("lock_keys", key_ids=key_ids):
            self.states[row["id"]] = KeyState(
                max_running=row["max_running"], hold=Hold(row["hold"]), bucket=bucket_of(row)
            )
            self._held_from[row["id"]] = row["held_from"]
        counted = [
            key_id
            for key_id, state in self.states.items()
            if state.max_running is not None or state.hold is Hold.RUN
        ]
        await self._count(transaction, {one: self.states[one].is_compared_at_once for one in counted})
        await self._count(transaction, {one: True for one in counted if self._is_unsure(one)})

    def _is_unsure(self, key_id: KeyId) -> bool:
        state = self.states[key_id]
        return state.is_full and not state.is_compared_at_once

    async def _count(self, transaction: Transaction, compared: Mapping[KeyId, bool]) -> None:
        if not compared:
            return
        for row in await transaction.fetch(
            "count_holds",
            key_ids=list(compared),
            helds_from=[self._held_from[key_id] for key_id in compared],
            are_compared=list(compared.values()),
            are_by_run=[self.states[key_id].hold is Hold.RUN for key_id in compared],
        ):
            key_id, oldest = row["key_id"], row["oldest"]
            state, holders = self.states[key_id], frozenset(row["run_ids"])
            # With `hold: run`, a run has one place, however many entries `hold: attempt` left before.
            held = len(holders) if state.hold is Hold.RUN else row["held"]
            self.states[key_id] = replace(
                state, held=held, holders=holders, under_way=len({*row["under_way"]})
            )
            if oldest is not None and oldest > self._held_from[key_id]:
                self._moved[key_id] = oldest

    def note_changes(self, admission: KeyAdmission) -> dict[str, list[Any]]:
        """Return the rows of keys that change, and the places that are kept, as columns that `start_lined_up` takes."""
        buckets = admission.buckets
        changed = sorted(self._moved.keys() | buckets.keys())
        states = [buckets.get(key_id) or self.states[key_id].bucket for key_id in changed]
        return {
            "changed_keys": changed,
            "levels": [None if bucket is None else bucket.level for bucket in states],
            "levels_at": [None if bucket is None else bucket.level_at for bucket in states],
            "helds_from": [self._moved.get(key_id, self._held_from[key_id]) for key_id in changed],
            "kept_keys": [key_id for key_id, _ in admission.kept],
            "kept_runs": [run_id for _, run_id in admission.kept],
            "kept_from": [self._held_from[key_id] for key_id, _ in admission.kept],
        }


@dataclass(slots=True)
class Started:
    """What one claim has started.

    Attributes:
        rows: of the runs, in the order in which they were admitted.
        keys: of each run; empty for batches.
        calls: for batches, the line of each run, and which of its batches the run is in.
        stops: why lines were stopped.
    """

    rows: list[Record] = field(default_factory=list)
    keys: dict[RunId, tuple[KeyId, ...]] = field(default_factory=dict)
    calls: dict[RunId, tuple[LineKey, int]] = field(default_factory=dict)
    stops: dict[LineKey, LineStop] = field(default_factory=dict)


async def start_admitted(
    transaction: Transaction,
    picked: Sequence[Record],
    seats: Sequence[Seat],
    now: datetime,
    *,
    lines: Collection[LineKey] = (),
) -> Started:
    """Start those of the picked runs that have room under their keys, at most one for each seat.

    Args:
        seats: in the order in which runs are given out.
        lines: from which runs are picked. Those that kept a place there come first.
    """
    keys = _Keys()
    if wanted := sorted({key_id for row in picked for key_id in _keys_of(row)}):
        await keys.lock(transaction, wanted)
    if lines:
        holders = await _pick_holders(transaction, keys, picked, now)
        picked = [*picked, *(row for row in holders if LineKey(row["key_id"], row["lane_id"]) in lines)]
    candidates = [Candidate(row["id"], _keys_of(row)) for row in picked]
    admission = admit_to_keys(candidates, keys.states, len(seats), now)
    taken = [picked[place] for place in admission.taken]
    started = Started(keys={row["id"]: _keys_of(row) for row in taken})
    for row in picked:
        stop = admission.stop_of(row["key_id"], keys.states, now)
        if stop is not None:
            started.stops[LineKey(row["key_id"], row["lane_id"])] = stop
    changes = keys.note_changes(admission)
    if taken or changes["changed_keys"]:
        started.rows = await _start(transaction, taken, seats, admission.holds, changes, now)
    return started


async def _start(
    transaction: Transaction,
    taken: Sequence[Record],
    seats: Sequence[Seat],
    holds: Sequence[tuple[KeyId, RunId]],
    changes: Mapping[str, list[Any]],
    now: datetime,
) -> list[Record]:
    """Start runs, and write their places and what changes of their keys. Return their rows in order."""
    tokens = {row["id"]: row["token"] + 1 for row in taken}
    seated = sorted(zip(tokens, seats, strict=False))
    rows = await transaction.fetch(
        "start_lined_up",
        places=[row["place"] for row in taken],
        run_ids=[run_id for run_id, _ in seated],
        run_sessions=[session_id for _, (session_id, _) in seated],
        run_numbers=[number for _, (_, number) in seated],
        hold_keys=[key_id for key_id, _ in holds],
        hold_runs=[run_id for _, run_id in holds],
        hold_tokens=[tokens[run_id] for _, run_id in holds],
        kept_tokens=[tokens[run_id] for run_id in changes["kept_runs"]],
        now=now,
        **changes,
    )
    places = {run_id: place for place, run_id in enumerate(tokens)}
    return sorted(rows, key=lambda row: places[row["id"]])


async def _pick_holders(
    transaction: Transaction, keys: _Keys, picked: Sequence[Record], now: datetime
) -> list[Record]:
    """Return further runs that kept a place when their attempt ended, and are ready for the next one."""
    known = {row["id"] for row in picked}
    holders = {run_id for state in keys.states.values() for run_id in state.holders} - known
    if not holders:
        return []
    rows = await transaction.fetch("pick_holders", run_ids=sorted(holders), now=now)
    for key_id, state in list(keys.states.items()):
        waiting = [row["ready_at"] for row in rows if row["id"] in state.holders and row["ready_at"] > now]
        if waiting:
            keys.states[key_id] = replace(state, retry_at=min(waiting))
    return [row for row in rows if row["ready_at"] <= now]


def _keys_of(row: Record) -> tuple[KeyId, ...]:
    found = (row["key_id"], row["second_key_id"], row["third_key_id"])
    return tuple(key_id for key_id in found if key_id is not None)


async def claim_in_lines(
    transaction: Transaction, requests: Sequence[LineClaim], now: datetime
) -> list[tuple[LineClaim, list[Record] | None, Started]]:
    """Claim for sessions. Return for each request the rows of its runs; None if it used its number for nothing new."""
    session_ids = sorted({request.session_id for request in requests})
    await transaction.fetch("lock_claimers", session_ids=session_ids)
    answers: dict[int, tuple[LineClaim, list[Record] | None, Started]] = {}
    for places in _groups(requests):
        group = [requests[place] for place in places]
        numbers = {one.session_id: one.number for one in group}
        allowed = await begin(transaction, numbers, group[0].policy_epoch)
        new = [request for request in group if request.session_id in allowed]
        seats = [
            (one.session_id, one.number)
            for one in new
            for _ in range(0 if allowed[one.session_id] else one.limit)
        ]
        started = await _start_group(transaction, group[0], seats, now) if seats else Started()
        for place, request in zip(places, group, strict=True):
            mine = [row for row in started.rows if row["session_id"] == request.session_id]
            answers[place] = request, mine if request.session_id in allowed else None, started
    return [answers[place] for place in range(len(requests))]


async def begin(
    transaction: Transaction, numbers: Mapping[SessionId, int], policy_epoch: int
) -> dict[SessionId, bool]:
    """Use the numbers of requests. Return for each session for which it is new whether it runs a quarantined run."""
    session_ids = sorted(numbers)
    rows = await transaction.fetch(
        "begin_claims",
        session_ids=session_ids,
        numbers=[numbers[session_id] for session_id in session_ids],
        policy_epoch=policy_epoch,
    )
    return {row["id"]: row["is_busy_with_quarantined"] for row in rows}


async def _start_group(
    transaction: Transaction, request: LineClaim, seats: Sequence[Seat], now: datetime
) -> Started:
    if request.are_batches:
        return await _start_batches(transaction, request, seats, now)
    picked = await transaction.fetch(
        "pick_lined_up",
        key_ids=[line.key.key_id for line in request.lines],
        lane_ids=[line.key.lane_id for line in request.lines],
        lows=[line.low for line in request.lines],
        quotas=[line.quota for line in request.lines],
        limit=len(seats) + _SPARE,
        now=now,
    )
    if not picked:
        return Started()
    lines = {line.key for line in request.lines}
    return await start_admitted(transaction, picked, seats, now, lines=lines)


async def _start_batches(
    transaction: Transaction, request: LineClaim, seats: Sequence[Seat], now: datetime
) -> Started:
    picked = await pick_batches(transaction, request.lines, len(seats), now)
    started = Started(calls=picked.calls, stops=picked.stops)
    if picked.rows:
        holds = [(row["key_id"], row["id"]) for row in picked.rows]
        own = [seats[started.calls[row["id"]][1]] for row in picked.rows]
        no_changes = _Keys().note_changes(KeyAdmission())
        started.rows = await _start(transaction, picked.rows, own, holds, no_changes, now)
    return started


def _groups(requests: Sequence[LineClaim]) -> list[list[int]]:
    """Group requests, by position, that share their lines; each session only once in a group."""
    if len({request.session_id for request in requests}) < len(requests):
        return [[place] for place in range(len(requests))]
    groups: dict[tuple[int, int], list[int]] = {}
    for place, request in enumerate(requests):
        groups.setdefault((id(request.lines), request.policy_epoch), []).append(place)
    return list(groups.values())
