"""Claims on SQLite: finds ready runs, gives them to sessions, takes them back, and finds those left behind."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

import apsw

from mainspring.core.admission import SubmissionVerdict, admit
from mainspring.core.claiming import Quotas, Turn, allowance, may_start_at_once
from mainspring.core.ids import LaneId, RunId
from mainspring.core.model import Lane
from mainspring.core.outcomes import Transition
from mainspring.ports.store.claims import (
    ApplyResult,
    ClaimedRun,
    ClaimRequest,
    ClaimResult,
    HeldRun,
    claimed_at_once,
)
from mainspring.ports.store.runs import NewRun
from mainspring.stores.sqlite.completion import apply_others, apply_successes
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.inserts import InternedLanes, insert_claimed
from mainspring.stores.sqlite.lined_up import start_admitted, turn_of
from mainspring.stores.sqlite.rows import (
    make_claimed,
    make_held,
    make_lane,
    to_instant,
    to_json,
    to_micros,
)
from mainspring.stores.sqlite.statements import execute, fetch_rows, fetch_tuples, fetch_value

_EARLIEST = -(2**62)
_MOST_QUARANTINED = 16
"""Quarantined runs that are looked at for one that has room under its limits."""
_DEAD = ClaimResult((), is_session_live=False)
_NOTHING = ClaimResult(())
_OUTDATED = ClaimResult((), is_policy_old=True)
_Left = dict[LaneId, int]
_Found = list[tuple[Any, ...]]
"""Rows of `find_ready`, each with its lane at the end."""

_lane_of = itemgetter(-1)


class SqliteClaimStore:
    """`ClaimStore` on SQLite."""

    _reader: Database
    _writer: Database
    _lane_ids: InternedLanes

    async def read_lanes(
        self,
        queues: Sequence[str],
        *,
        lows: Mapping[LaneId, datetime] | None = None,
        after: LaneId | None = None,
        limit: int | None = None,
    ) -> list[Lane]:
        """See `ClaimStore`."""
        del lows  # there are no dead entries to skip
        values = {
            "queues": to_json(list(queues)),
            "is_all": not queues,
            "after": 0 if after is None else after,
            "limit": -1 if limit is None else limit,
        }
        rows = await self._reader.call(lambda db: fetch_rows(db, "read_lanes", values))
        return [make_lane(row) for row in rows]

    async def read_some_lanes(
        self, lanes: Sequence[LaneId], *, lows: Mapping[LaneId, datetime]
    ) -> list[Lane]:
        """See `ClaimStore`."""
        del lows
        values = {"lanes": to_json(list(lanes))}
        rows = await self._reader.call(lambda db: fetch_rows(db, "read_some_lanes", values))
        return [make_lane(row) for row in rows]

    async def read_ready_instants(
        self, lanes: Sequence[LaneId], *, lows: Mapping[LaneId, datetime], now: datetime, limit: int
    ) -> dict[LaneId, list[datetime]]:
        """See `ClaimStore`."""
        at, bounds = to_micros(now), {lane_id: to_micros(low) for lane_id, low in lows.items()}

        def read(db: apsw.Connection) -> dict[LaneId, list[datetime]]:
            found = {}
            for lane_id in lanes:
                values = {
                    "lane_id": lane_id,
                    "low": bounds.get(lane_id, _EARLIEST),
                    "now": at,
                    "limit": limit,
                }
                rows = fetch_tuples(db, "read_ready_instants", values)
                found[lane_id] = [to_instant(ready_at) for (ready_at,) in rows]
            return found

        return await self._reader.call(read)

    async def claim_runs(self, requests: Sequence[ClaimRequest], *, now: datetime) -> list[ClaimResult]:
        """See `ClaimStore`."""
        if not requests:
            return []
        at = to_micros(now)
        return await self._writer.call(lambda db: _claim_all(db, requests, at))

    async def try_claim(self, request: ClaimRequest, *, now: datetime) -> ClaimResult | None:
        """See `ClaimStore`."""
        at = to_micros(now)
        return await self._writer.call(lambda db: _try_claim(db, request, at))

    async def submit_claimed(self, run: NewRun, *, request: ClaimRequest, now: datetime) -> ClaimedRun | None:
        """See `ClaimStore`."""
        return await self._writer.call(lambda db: _submit_claimed(db, self._lane_ids, run, request, now))

    async def apply(self, transitions: Sequence[Transition], *, now: datetime) -> list[ApplyResult]:
        """See `ClaimStore`."""
        if not transitions:
            return []
        return await self._writer.call(lambda db: _apply(db, transitions, now))

    async def list_orphans(self, *, limit: int) -> list[HeldRun]:
        """See `ClaimStore`."""
        return await self._held("list_orphans", {"limit": limit})

    async def list_overdue(self, *, now: datetime, limit: int) -> list[HeldRun]:
        """See `ClaimStore`."""
        return await self._held("list_overdue", {"now": to_micros(now), "limit": limit})

    async def read_held(self, run_ids: Sequence[RunId]) -> list[HeldRun | None]:
        """See `ClaimStore`."""
        if not run_ids:
            return []
        found = {
            run.run_id: run for run in await self._held("read_held", {"run_ids": to_json(list(run_ids))})
        }
        return [found.get(run_id) for run_id in run_ids]

    async def _held(self, name: str, values: dict[str, object]) -> list[HeldRun]:
        rows = await self._reader.call(lambda db: fetch_rows(db, name, values))
        return [make_held(row) for row in rows]


def _claim_all(db: apsw.Connection, requests: Sequence[ClaimRequest], now: int) -> list[ClaimResult]:
    quotas = Quotas()
    return [
        _claim(db, request, quotas.left(request.quotas, is_quarantined=request.is_quarantined), now)
        for request in requests
    ]


def _claim(db: apsw.Connection, request: ClaimRequest, left: _Left, now: int) -> ClaimResult:
    turn = turn_of(db, request)
    if turn is None:
        return _DEAD
    if turn is Turn.OUTDATED:
        return _OUTDATED
    session = {"session_id": request.session_id, "number": request.number}
    if turn is Turn.REPEAT:
        again = fetch_tuples(db, "repeat_claim", session)
        return ClaimResult(tuple([make_claimed(row, is_repeat=True) for row in again]))
    if turn is Turn.LATE:
        return _NOTHING
    execute(db, "set_claim_number", session)
    if request.is_quarantined:
        return _claim_quarantined(db, request, now)
    return _start(db, request, _find(db, request, left, now), now)


def _claim_quarantined(db: apsw.Connection, request: ClaimRequest, now: int) -> ClaimResult:
    """Claim a run that crashed a worker, with room under its limits, for a session that runs nothing."""
    is_busy = bool(fetch_value(db, "is_holding", {"session_id": request.session_id}))
    limit = allowance(request.limit, is_quarantined=True, is_busy=is_busy, is_busy_with_quarantined=is_busy)
    lanes = to_json({lane_id: _low_of(request, lane_id) for lane_id in request.lanes})
    picked = fetch_rows(db, "pick_quarantined", {"lanes": lanes, "limit": _MOST_QUARANTINED, "now": now})
    seats = [(request.session_id, request.number)] * limit
    started = start_admitted(db, picked, seats, to_instant(now), caps=request.caps)
    taken = Counter(line.lane_id for _, _, line, _ in started.runs)
    return ClaimResult(tuple([run for run, _, _, _ in started.runs]), taken=taken)


def _is_new(db: apsw.Connection, request: ClaimRequest) -> bool:
    """Return whether the request is a new one of a live session."""
    return turn_of(db, request) is Turn.NEW


def _submit_claimed(
    db: apsw.Connection, lane_ids: InternedLanes, run: NewRun, request: ClaimRequest, now: datetime
) -> ClaimedRun | None:
    lane_id, at = lane_ids.find(db, run.lane), to_micros(now)
    may_start = may_start_at_once(
        is_plain=run.is_plain, due_at=run.due_at, expires_at=run.expires_at, now=now
    )
    if lane_id is None or lane_id not in request.lanes or not may_start:
        return None
    if not _is_new(db, request) or _allowance(db, request) < 1 or _find(db, request, {}, at):
        return None
    admission = admit(
        known=None,
        request_hashes=(),
        newest_version=fetch_value(db, "find_existing_job", {"job_id": run.job_id.bytes}),
        wanted_version=run.version if run.must_be_newest else None,
        now=now,
    )
    if admission is not SubmissionVerdict.SUBMITTED:
        return None
    execute(db, "set_claim_number", {"session_id": request.session_id, "number": request.number})
    run_id = insert_claimed(db, lane_id, run, at, session_id=request.session_id, number=request.number)
    return claimed_at_once(run_id, run)


def _try_claim(db: apsw.Connection, request: ClaimRequest, now: int) -> ClaimResult | None:
    if not _is_new(db, request):
        return None
    found = _find(db, request, dict(request.quotas), now)
    if not found:
        return None
    execute(db, "set_claim_number", {"session_id": request.session_id, "number": request.number})
    return _start(db, request, found, now)


def _find(db: apsw.Connection, request: ClaimRequest, left: _Left, now: int) -> _Found:
    """Return the runs that a request gets.

    What they take of the lanes' quotas is taken off `left`.
    """
    limit = _allowance(db, request)
    lanes = deque(dict.fromkeys(request.lanes))
    found: _Found = []
    while lanes and len(found) < limit:
        rest = limit - len(found)
        most = min(left.get(lanes[0], rest), rest)
        together = [lanes.popleft()]
        while (
            most == rest and lanes and left.get(lanes[0], rest) >= rest
        ):  # none of them can exceed its quota
            together.append(lanes.popleft())
        if most < 1:
            continue
        lows = to_json({lane_id: _low_of(request, lane_id) for lane_id in together})
        rows = fetch_tuples(db, "find_ready", {"lanes": lows, "now": now, "limit": most})
        for lane_id, count in Counter(map(_lane_of, rows)).items():
            if lane_id in left:
                left[lane_id] -= count
        found += rows
    return found


def _start(db: apsw.Connection, request: ClaimRequest, found: _Found, now: int) -> ClaimResult:
    if not found:
        return _NOTHING
    claim = {
        "session_id": request.session_id,
        "number": request.number,
        "run_ids": to_json([row[0] for row in found]),
        "now": now,
    }
    execute(db, "claim_runs", claim)
    runs = tuple([make_claimed(row[:-1], is_repeat=False) for row in found])
    return ClaimResult(runs, taken=Counter(map(_lane_of, found)))


def _allowance(db: apsw.Connection, request: ClaimRequest) -> int:
    """Return how many runs the session may be given."""
    is_held = bool(fetch_value(db, "is_holding_quarantined", {"session_id": request.session_id}))
    return allowance(request.limit, is_quarantined=False, is_busy=is_held, is_busy_with_quarantined=is_held)


def _low_of(request: ClaimRequest, lane_id: LaneId) -> int:
    low = request.lows.get(lane_id)
    return _EARLIEST if low is None else to_micros(low)


def _apply(db: apsw.Connection, transitions: Sequence[Transition], now: datetime) -> list[ApplyResult]:
    applied = apply_successes(db, transitions, to_micros(now))
    if len(applied) == len(transitions):
        return [ApplyResult.APPLIED] * len(transitions)
    return apply_others(db, transitions, applied, now)
