"""Claims: finds ready runs, gives them to sessions, takes them back, and finds those left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

from asyncpg import Record

from mainspring.core.admission import SubmissionVerdict
from mainspring.core.claiming import Quotas, allowance, may_start_at_once
from mainspring.core.ids import LaneId, RunId
from mainspring.core.model import Lane, LaneKey, Priority
from mainspring.core.outcomes import Transition
from mainspring.ports.store.claims import (
    ApplyResult,
    ClaimedRun,
    ClaimRequest,
    ClaimResult,
    HeldRun,
    claimed_at_once,
)
from mainspring.ports.store.runs import NewRun, SubmitResult
from mainspring.stores.postgres.completion import (
    answer,
    apply_any,
    apply_successes,
    are_distinct,
    is_plain,
)
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.inserts import LaneIds
from mainspring.stores.postgres.leases import (
    LANE,
    LaneTenants,
    OutdatedRows,
    RepeatedRows,
    claimed_of,
    lane_of,
    repeat_claim,
)
from mainspring.stores.postgres.lined_up import start_admitted
from mainspring.stores.postgres.rows import EVER, held_of, values_of_run

_Rows = list[Record]
_Left = dict[LaneId, int]
_READY_AT = LANE + 1
_NOT_LIVE = ClaimResult((), is_session_live=False)
_OUTDATED = ClaimResult((), is_policy_old=True)
_MOST_QUARANTINED = 16
"""Quarantined runs that are looked at for one that has room under its limits."""

_by_ready_at = itemgetter(_READY_AT, 0)


class PostgresClaimStore:
    """`ClaimStore` on PostgreSQL. Claims are repeatable, because each request has a number."""

    _connections: Connections
    _lane_ids: LaneIds
    _tenants: LaneTenants

    async def read_lanes(
        self,
        queues: Sequence[str],
        *,
        lows: Mapping[LaneId, datetime] | None = None,
        after: LaneId | None = None,
        limit: int | None = None,
    ) -> list[Lane]:
        bounds = sorted((lows or {}).items())
        values = {
            "queues": queues,
            "is_all": not queues,
            "after": 0 if after is None else after,
            "limit": limit,
            "lane_ids": [lane_id for lane_id, _ in bounds],
            "lows": [low for _, low in bounds],
        }
        rows = await self._connections.fetch(Role.WATCH, "read_lanes", is_repeatable=True, **values)
        return [_lane_of(row) for row in rows]

    async def read_some_lanes(
        self, lanes: Sequence[LaneId], *, lows: Mapping[LaneId, datetime]
    ) -> list[Lane]:
        if not lanes:
            return []
        rows = await self._connections.fetch(
            Role.WATCH,
            "read_some_lanes",
            is_repeatable=True,
            lanes=lanes,
            lows=[lows.get(lane_id, EVER) for lane_id in lanes],
        )
        return [_lane_of(row) for row in rows]

    async def read_ready_instants(
        self, lanes: Sequence[LaneId], *, lows: Mapping[LaneId, datetime], now: datetime, limit: int
    ) -> dict[LaneId, list[datetime]]:
        found: dict[LaneId, list[datetime]] = {lane_id: [] for lane_id in lanes}
        if lanes:
            rows = await self._connections.fetch(
                Role.WATCH,
                "read_ready_instants",
                is_repeatable=True,
                lanes=lanes,
                lows=[lows.get(lane_id, EVER) for lane_id in lanes],
                now=now,
                limit=limit,
            )
            for row in rows:
                found[row["lane_id"]].append(row["ready_at"])
        return found

    async def claim_runs(self, requests: Sequence[ClaimRequest], *, now: datetime) -> list[ClaimResult]:
        if not requests:
            return []
        answers = await self._claim(requests, now)
        lane_ids = {lane_of(row) for rows in answers if rows for row in rows}
        await self._tenants.learn(self._connections, lane_ids)
        if (
            not lane_ids <= self._tenants.keys()
        ):  # a repeated answer: the runs of the other lanes have ended since
            answers = [
                rows and RepeatedRows(row for row in rows if lane_of(row) in self._tenants)
                for rows in answers
            ]
        return [
            _NOT_LIVE if rows is None else _result_of(rows, request, self._tenants)
            for rows, request in zip(answers, requests, strict=True)
        ]

    async def try_claim(self, request: ClaimRequest, *, now: datetime) -> ClaimResult | None:
        # Not repeatable: a second try would not know what the first one got.
        rows = await self._connections.fetch(
            Role.CLAIM,
            "try_claim",
            is_repeatable=False,
            **_values_of(request, now),
            quotas=_quotas_of(request, request.quotas, request.limit),
        )
        if not rows:
            return None
        await self._tenants.learn(self._connections, {lane_of(row) for row in rows})
        return _result_of(rows, request, self._tenants)

    async def submit_claimed(self, run: NewRun, *, request: ClaimRequest, now: datetime) -> ClaimedRun | None:
        known = self._lane_ids.recall([run.lane])
        may_start = may_start_at_once(
            is_plain=run.is_plain, due_at=run.due_at, expires_at=run.expires_at, now=now
        )
        if known is None or known[0] not in request.lanes or not may_start:
            return None
        rows = await self._connections.fetch(
            Role.SUBMIT,
            "submit_claimed",
            is_repeatable=False,
            lane_id=known[0],
            **values_of_run(run),
            **_values_of(request, now),
        )
        if not rows:
            return None
        run_id = RunId(rows[0]["id"])
        self._connections.servers.recent.note(now, [SubmitResult(SubmissionVerdict.SUBMITTED, run_id)])
        return claimed_at_once(run_id, run)

    async def _claim(self, requests: Sequence[ClaimRequest], now: datetime) -> list[_Rows | None]:
        if len(requests) == 1 and not requests[0].is_quarantined:
            [request] = requests

            async def claim_for_one(transaction: Transaction) -> _Rows | None:
                return await _claim(transaction, request, dict(request.quotas), now)

            # One statement writes; the other, if needed, only reads.
            rows = await self._connections.run(Role.CLAIM, claim_for_one, is_repeatable=True, is_atomic=True)
            if rows is not None:
                return [rows]
            # The session is not live, or changed while the statement waited for it: look again under a lock.

        async def work(transaction: Transaction) -> list[_Rows | None]:
            session_ids = sorted({request.session_id for request in requests})
            await transaction.fetch("lock_claimers", session_ids=session_ids)
            found: dict[int, _Rows | None] = {}
            quotas = Quotas()
            for places in _groups(requests):
                group = [requests[place] for place in places]
                left = quotas.left(group[0].quotas, is_quarantined=group[0].is_quarantined)
                if len(group) == 1:
                    found[places[0]] = await _claim(transaction, group[0], left, now)
                else:
                    rows = await _claim_together(transaction, group, left, now)
                    found.update(zip(places, rows, strict=True))
            return [found[place] for place in range(len(requests))]

        return await self._connections.transact(Role.CLAIM, work, is_repeatable=True)

    async def apply(self, transitions: Sequence[Transition], *, now: datetime) -> list[ApplyResult]:
        if not transitions:
            return []
        # If a call names a run twice, the first transition that fits has to win. The slower path takes care of that.
        if all(map(is_plain, transitions)) and are_distinct(transitions):

            async def work_plain(transaction: Transaction) -> list[ApplyResult]:
                is_done = await apply_successes(transaction, transitions, now)
                known = dict.fromkeys(range(len(transitions)), ApplyResult.APPLIED) if is_done else {}
                return await answer(transaction, transitions, known)

            # One statement writes; the other, if needed, only reads.
            return await self._connections.run(Role.APPLY, work_plain, is_repeatable=True, is_atomic=True)

        async def work(transaction: Transaction) -> list[ApplyResult]:
            _, known = await apply_any(transaction, transitions, now)
            return await answer(transaction, transitions, known)

        return await self._connections.transact(Role.APPLY, work, is_repeatable=True)

    async def list_orphans(self, *, limit: int) -> list[HeldRun]:
        rows = await self._connections.fetch(Role.WATCH, "list_orphans", is_repeatable=True, limit=limit)
        return [held_of(row) for row in rows]

    async def list_overdue(self, *, now: datetime, limit: int) -> list[HeldRun]:
        rows = await self._connections.fetch(
            Role.WATCH, "list_overdue", is_repeatable=True, now=now, limit=limit
        )
        return [held_of(row) for row in rows]

    async def read_held(self, run_ids: Sequence[RunId]) -> list[HeldRun | None]:
        if not run_ids:
            return []
        rows = await self._connections.fetch(Role.WATCH, "read_held", is_repeatable=True, run_ids=run_ids)
        found = {row["id"]: held_of(row) for row in rows}
        return [found.get(run_id) for run_id in run_ids]


async def _claim(transaction: Transaction, request: ClaimRequest, left: _Left, now: datetime) -> _Rows | None:
    """Return the rows of the runs claimed, now or by the same request before; None if the session is not live.

    It can also return None if the session's row changed meanwhile, unless that row was locked before.
    """
    values = _values_of(request, now)
    if request.is_quarantined:
        rows = await _claim_quarantined(transaction, request, now)
    else:
        quotas = _quotas_of(request, left, request.limit)
        rows = await transaction.fetch("claim_runs", **values, quotas=quotas)
        _take_off(left, rows)
    return rows or await repeat_claim(transaction, request)


async def _claim_quarantined(transaction: Transaction, request: ClaimRequest, now: datetime) -> _Rows:
    """Claim a run that crashed a worker, for a session whose row is locked, and that runs nothing."""
    rows = await transaction.fetch(
        "begin_claims",
        session_ids=[request.session_id],
        numbers=[request.number],
        policy_epoch=request.policy_epoch,
    )
    if not rows:
        return []
    is_busy = rows[0]["is_busy"]
    seats = allowance(request.limit, is_quarantined=True, is_busy=is_busy, is_busy_with_quarantined=is_busy)
    values = _values_of(request, now) | {"limit": _MOST_QUARANTINED}
    picked = await transaction.fetch("pick_quarantined", **values)
    turns = [(request.session_id, request.number)] * seats
    started = await start_admitted(transaction, picked, turns, now, caps=request.caps)
    return started.rows


def _groups(requests: Sequence[ClaimRequest]) -> list[list[int]]:
    """Group requests, by position, that one statement can answer: with the same lanes, and each session only once."""
    if len({request.session_id for request in requests}) < len(requests):
        return [[place] for place in range(len(requests))]
    groups: dict[object, list[int]] = {}
    for place, request in enumerate(requests):
        # Requests for the same lanes share one object of bounds, so they need not be compared bound by bound.
        is_common = not request.is_quarantined and request.limit > 0
        shared = (request.lanes, id(request.lows), id(request.quotas), request.policy_epoch)
        key = shared if is_common else place
        groups.setdefault(key, []).append(place)
    return list(groups.values())


async def _claim_together(
    transaction: Transaction, requests: Sequence[ClaimRequest], left: _Left, now: datetime
) -> list[_Rows | None]:
    """Claim for sessions whose rows are locked. Give out ready runs in the order of the requests."""
    turns = {request.session_id: turn for turn, request in enumerate(requests)}
    ordered = sorted(requests, key=lambda request: request.session_id)
    common = _values_of(requests[0], now)
    found: dict[int, _Rows] = {}
    for row in await transaction.fetch(
        "claim_together",
        session_ids=[request.session_id for request in ordered],
        numbers=[request.number for request in ordered],
        limits=[request.limit for request in ordered],
        turns=[turns[request.session_id] for request in ordered],
        lanes=common["lanes"],
        lows=common["lows"],
        quotas=_quotas_of(requests[0], left, sum(request.limit for request in requests)),
        policy_epoch=common["policy_epoch"],
        now=now,
    ):
        mine = found.setdefault(row["claimer_id"], [])
        if row["id"] is not None:
            mine.append(row)
    for mine in found.values():
        _take_off(left, mine)
    return [
        found[request.session_id] if request.session_id in found else await repeat_claim(transaction, request)
        for request in requests
    ]


def _lane_of(row: Record) -> Lane:
    return Lane(
        LaneId(row["id"]),
        LaneKey(row["queue"], row["route"], row["tenant"], Priority(row["priority"])),
        row["earliest_ready_at"],
        row["earliest_quarantined_at"],
    )


def _values_of(request: ClaimRequest, now: datetime) -> dict[str, Any]:
    lanes = list(dict.fromkeys(request.lanes))
    return {
        "session_id": request.session_id,
        "number": request.number,
        "lanes": lanes,
        "lows": [request.lows.get(lane_id, EVER) for lane_id in lanes],
        "limit": request.limit,
        "policy_epoch": request.policy_epoch,
        "now": now,
    }


def _quotas_of(request: ClaimRequest, left: Mapping[LaneId, int], seats: int) -> list[int]:
    """Return the most runs to take of each of the request's lanes."""
    return [max(min(left.get(lane_id, seats), seats), 0) for lane_id in dict.fromkeys(request.lanes)]


def _take_off(left: _Left, rows: _Rows) -> None:
    for lane_id, taken in Counter(map(lane_of, rows)).items() if left else ():
        if lane_id in left:
            left[lane_id] -= taken


def _result_of(rows: _Rows, request: ClaimRequest, tenants: Mapping[LaneId, str]) -> ClaimResult:
    """Return runs in order of preference: by the request's order of lanes, then by `ready_at`."""
    if isinstance(rows, OutdatedRows):
        return _OUTDATED
    rows.sort(key=_by_ready_at)
    places = {lane_id: place for place, lane_id in enumerate(dict.fromkeys(request.lanes))}
    if len(places) > 1:
        rows.sort(key=lambda row: places.get(lane_of(row), 0))
    return ClaimResult(
        claimed_of(rows, tenants), taken={} if isinstance(rows, RepeatedRows) else Counter(map(lane_of, rows))
    )
