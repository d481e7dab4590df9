"""Claims and the ends of attempts on SQLite."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

import apsw

from mainspring.core.claiming import Turn, allowance, judge_turn
from mainspring.core.ids import LaneId, RunId
from mainspring.core.model import Lane
from mainspring.core.settlement import FIRST_TOKEN, LiveRun, is_held, is_repeat, settle
from mainspring.core.states import RunState
from mainspring.core.transitions import AttemptOutcome, Transition
from mainspring.ports.store.claims import ApplyResult, ClaimedRun, ClaimRequest, ClaimResult, HeldRun
from mainspring.ports.store.runs import Followup, NewRun
from mainspring.stores.sqlite.base import Part, execute, execute_many, fetch_all, fetch_first
from mainspring.stores.sqlite.rows import (
    Row,
    make_held,
    make_job_id,
    make_lane,
    make_live,
    to_instant,
    to_json,
    to_micros,
    to_optional_instant,
)

_EARLIEST = -(2**62)
_DEAD = ClaimResult((), is_session_live=False)
_NOTHING = ClaimResult(())


class LeasePart(Part):
    """Implements what `RunStore` says of leases."""

    async def read_lanes(
        self, queues: Sequence[str], *, lows: Mapping[LaneId, datetime] | None = None
    ) -> list[Lane]:
        """See `RunStore`."""
        del lows  # there are no dead entries to be spared
        values = {"queues": to_json(list(queues)), "is_all": not queues}
        rows = await self._read(lambda db: fetch_all(db, "read_lanes", values))
        return [make_lane(row) for row in rows]

    async def claim_runs(self, requests: Sequence[ClaimRequest], *, now: datetime) -> list[ClaimResult]:
        """See `RunStore`."""
        if not requests:
            return []
        at = to_micros(now)
        return await self._write(lambda db: [_claim(db, request, at) for request in requests])

    async def apply(
        self, transitions: Sequence[Transition], *, now: datetime, followups: Sequence[Followup] = ()
    ) -> list[ApplyResult]:
        """See `RunStore`."""
        if not transitions:
            return []
        return await self._write(lambda db: self._apply(db, transitions, followups, now))

    def _apply(
        self,
        db: apsw.Connection,
        transitions: Sequence[Transition],
        followups: Sequence[Followup],
        now: datetime,
    ) -> list[ApplyResult]:
        applied = _apply_successes(db, transitions, to_micros(now))
        if len(applied) == len(transitions):
            results = [ApplyResult.APPLIED] * len(transitions)
        else:
            results = _apply_others(db, transitions, applied, now)
        if followups:
            children: dict[RunId, list[NewRun]] = defaultdict(list)
            for followup in followups:
                if followup.parent in applied:
                    children[followup.parent].append(followup.run)
            new = [
                run
                for end, result in zip(transitions, results, strict=True)
                if result is ApplyResult.APPLIED
                for run in children.pop(end.run_id, ())
            ]
            self._insert_runs(db, new, to_micros(now))
        return results

    async def list_orphans(self, *, limit: int) -> list[HeldRun]:
        """See `RunStore`."""
        return await self._held("list_orphans", {"limit": limit})

    async def list_overdue(self, *, now: datetime, limit: int) -> list[HeldRun]:
        """See `RunStore`."""
        return await self._held("list_overdue", {"now": to_micros(now), "limit": limit})

    async def read_held(self, run_ids: Sequence[RunId]) -> list[HeldRun | None]:
        """See `RunStore`."""
        if not run_ids:
            return []
        found = {
            run.run_id: run for run in await self._held("read_held", {"run_ids": to_json(list(run_ids))})
        }
        return [found.get(run_id) for run_id in run_ids]

    async def _held(self, name: str, values: dict[str, object]) -> list[HeldRun]:
        rows = await self._read(lambda db: fetch_all(db, name, values))
        return [make_held(row) for row in rows]


def _apply_successes(db: apsw.Connection, transitions: Sequence[Transition], now: int) -> set[RunId]:
    """Apply successes at the first go, which are nearly all there is; say which of them were applied."""
    ends = {
        end.run_id: (end.session_id, None if end.result is None else end.result.hex())
        for end in transitions
        if end.to is RunState.SUCCEEDED and end.token == FIRST_TOKEN and end.output is None
    }
    # Where a call names a run twice, the first one is to win: that is left to the slower way.
    if not ends or len({end.run_id for end in transitions}) < len(transitions):
        return set()
    applied = [row[0] for row in fetch_all(db, "apply_successes", {"ends": to_json(ends), "now": now})]
    execute(db, "remove_runs", {"run_ids": to_json(applied)})
    return set(applied)


def _apply_others(
    db: apsw.Connection, transitions: Sequence[Transition], applied: set[RunId], now: datetime
) -> list[ApplyResult]:
    """Apply what is not in `applied` yet, and add it there; answer for all transitions."""
    ids = to_json([end.run_id for end in transitions if end.run_id not in applied])
    live = {row[0]: make_live(row) for row in fetch_all(db, "lock_runs", {"run_ids": ids})}
    ends = _Ends(now)
    results: list[ApplyResult] = []
    for end in transitions:
        run = live.get(end.run_id)
        if run is None and end.run_id in applied:
            results.append(ApplyResult.APPLIED)
        elif run is not None and end.run_id not in applied and is_held(run, end.token, end.session_id):
            ends.add(end, run)
            applied.add(end.run_id)
            results.append(ApplyResult.APPLIED)
        else:
            results.append(_answer_late(db, end, ends))
    ends.write(db)
    return results


class _Ends:
    """The ends of attempts in one call, gathered by what has to be written for them."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._at = to_micros(now)
        self._attempts: list[dict[str, object]] = []
        self._finished: list[dict[str, object]] = []
        self._buried: list[dict[str, object]] = []
        self._requeued: list[dict[str, object]] = []
        self._removed: list[RunId] = []
        self._outcomes: dict[RunId, tuple[int, AttemptOutcome]] = {}

    def outcome(self, run_id: RunId) -> tuple[int, AttemptOutcome] | None:
        """Return token and outcome of an attempt that ended in this very call."""
        return self._outcomes.get(run_id)

    def add(self, transition: Transition, run: LiveRun) -> None:
        """Take in one transition of a run that is RUNNING under its lease."""
        settled = settle(transition, run, now=self._now)
        run_id, now = transition.run_id, self._at
        self._outcomes[run_id] = (transition.token, transition.outcome)
        if settled.writes_attempt:
            attempt = {"run_id": run_id, "outcome": transition.outcome, "now": now}
            self._attempts.append(attempt | {"error": transition.error, "output": transition.output})
        values: dict[str, object] = {"run_id": run_id, "state": settled.state, "crashes": settled.crashes}
        if settled.ready_at is not None:
            values |= {
                "ready_at": to_micros(settled.ready_at),
                "token": settled.token,
                "attempt": settled.attempt,
                "quarantined_crashes": settled.quarantined_crashes,
            }
            self._requeued.append(values)
            return
        self._removed.append(run_id)
        values |= {
            "reason": settled.reason,
            "now": now,
            "error": transition.error,
            "result": transition.result,
            "output": transition.output,
        }
        (self._buried if settled.state is RunState.FAILED else self._finished).append(values)

    def write(self, db: apsw.Connection) -> None:
        """Write everything; attempts first, because they are read from the live rows."""
        execute_many(db, "add_attempt", self._attempts)
        execute_many(db, "requeue_run", self._requeued)
        execute_many(db, "finish_run", self._finished)
        execute_many(db, "bury_run", self._buried)
        if self._removed:
            execute(db, "remove_runs", {"run_ids": to_json(self._removed)})


def _answer_late(db: apsw.Connection, transition: Transition, ends: _Ends) -> ApplyResult:
    """Answer for a transition that cannot take effect: a repeat, another writer's, or of no known run."""
    in_this_call = ends.outcome(transition.run_id)
    if in_this_call is not None and in_this_call[0] == transition.token:
        return ApplyResult.APPLIED if in_this_call[1] is transition.outcome else ApplyResult.STALE
    row = fetch_first(db, "read_end", {"run_id": transition.run_id, "token": transition.token})
    if row is None or row[0] is None:
        return ApplyResult.MISSING
    was_applied = is_repeat(transition, outcome=row[2], state=RunState(row[0]), token=row[1])
    return ApplyResult.APPLIED if was_applied else ApplyResult.STALE


def _claim(db: apsw.Connection, request: ClaimRequest, now: int) -> ClaimResult:
    claimer = fetch_first(db, "read_claimer", {"session_id": request.session_id})
    if claimer is None:
        return _DEAD
    session = {"session_id": request.session_id, "number": request.number}
    turn = judge_turn(request.number, claimer[0])
    if turn is Turn.REPEAT:
        again = fetch_all(db, "repeat_claim", session)
        return ClaimResult(
            tuple(
                _claimed(row, is_quarantined=bool(row[10]), is_cancel_requested=bool(row[11]))
                for row in again
            )
        )
    if turn is Turn.LATE:
        return _NOTHING
    execute(db, "set_claim_number", session)
    limit = _allowance(db, request)
    if limit < 1 or not request.lanes:
        return _NOTHING
    lows = {lane_id: _low_of(request, lane_id) for lane_id in request.lanes}
    wanted = {
        "lanes": to_json(lows),
        "now": now,
        "limit": limit,
    }
    rows = fetch_all(db, "find_quarantined" if request.is_quarantined else "find_ready", wanted)
    if not rows:
        return _NOTHING
    claim = {
        "run_ids": to_json([row[0] for row in rows]),
        "is_quarantined": request.is_quarantined,
        "now": now,
    }
    execute(db, "claim_runs", {**session, **claim})
    return ClaimResult(tuple(_claimed(row, is_quarantined=request.is_quarantined) for row in rows))


def _allowance(db: apsw.Connection, request: ClaimRequest) -> int:
    """Return how many runs the session may be given; looks only for what matters to the kind of claim."""
    name = "is_holding" if request.is_quarantined else "is_holding_quarantined"
    held = fetch_first(db, name, {"session_id": request.session_id})
    is_holding = held is not None and bool(held[0])
    return allowance(
        request.limit,
        is_quarantined=request.is_quarantined,
        is_busy=is_holding,
        is_busy_with_quarantined=is_holding,
    )


def _low_of(request: ClaimRequest, lane_id: LaneId) -> int:
    low = request.lows.get(lane_id)
    return _EARLIEST if low is None else to_micros(low)


def _claimed(row: Row, *, is_quarantined: bool, is_cancel_requested: bool = False) -> ClaimedRun:
    return ClaimedRun(
        row[0],
        row[1],
        make_job_id(row[2]),
        row[3],
        row[4],
        to_optional_instant(row[5]),
        to_instant(row[6]),
        row[7],
        row[8],
        is_quarantined,
        is_cancel_requested,
        row[9],
    )
