"""Claims and the ends of attempts on SQLite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import apsw

from mainspring.core.ids import LaneId, RunId
from mainspring.core.model import Lane
from mainspring.core.states import RunState
from mainspring.core.transitions import AttemptOutcome, Transition
from mainspring.ports.store.claims import ApplyResult, ClaimedRun, ClaimRequest, ClaimResult, HeldRun
from mainspring.ports.store.runs import Followup
from mainspring.stores.sqlite.base import Part, execute, execute_many, fetch_all, fetch_first
from mainspring.stores.sqlite.rows import (
    Row,
    make_held,
    make_job_id,
    make_lane,
    to_instant,
    to_json,
    to_micros,
    to_optional_instant,
    to_optional_micros,
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
        return await self._write(lambda db: self._apply(db, transitions, followups, to_micros(now)))

    def _apply(
        self, db: apsw.Connection, transitions: Sequence[Transition], followups: Sequence[Followup], now: int
    ) -> list[ApplyResult]:
        applied = _apply_successes(db, transitions, now)
        if len(applied) == len(transitions):
            results = [ApplyResult.APPLIED] * len(transitions)
        else:
            results = _apply_others(db, transitions, applied, now)
        children = [followup.run for followup in followups if followup.parent in applied]
        self._insert_runs(db, children, now)
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
        if end.to is RunState.SUCCEEDED and end.token == 1 and end.output is None
    }
    # Where a call names a run twice, the first one is to win: that is left to the slower way.
    if not ends or len({end.run_id for end in transitions}) < len(transitions):
        return set()
    applied = [row[0] for row in fetch_all(db, "apply_successes", {"ends": to_json(ends), "now": now})]
    execute(db, "remove_runs", {"run_ids": to_json(applied)})
    return set(applied)


def _apply_others(
    db: apsw.Connection, transitions: Sequence[Transition], applied: set[RunId], now: int
) -> list[ApplyResult]:
    """Apply what is not in `applied` yet, and add it there; answer for all transitions."""
    ids = to_json([end.run_id for end in transitions if end.run_id not in applied])
    held = {row[0]: row for row in fetch_all(db, "lock_runs", {"run_ids": ids})}
    ends = _Ends(now)
    results: list[ApplyResult] = []
    for end in transitions:
        row = held.get(end.run_id)
        if row is None and end.run_id in applied:
            results.append(ApplyResult.APPLIED)
        elif (
            row is not None
            and end.run_id not in applied
            and row[1] == RunState.RUNNING
            and row[2] == end.token
            and row[3] == end.session_id
        ):
            ends.add(end, is_cancel_requested=bool(row[4]), cancel_reason=row[5])
            applied.add(end.run_id)
            results.append(ApplyResult.APPLIED)
        else:
            results.append(_answer_late(db, end, ends))
    ends.write(db)
    return results


class _Ends:
    """The ends of attempts in one call, gathered by what has to be written for them."""

    def __init__(self, now: int) -> None:
        self._now = now
        self._attempts: list[dict[str, object]] = []
        self._finished: list[dict[str, object]] = []
        self._buried: list[dict[str, object]] = []
        self._requeued: list[dict[str, object]] = []
        self._removed: list[RunId] = []
        self._outcomes: dict[RunId, tuple[int, AttemptOutcome]] = {}

    def outcome(self, run_id: RunId) -> tuple[int, AttemptOutcome] | None:
        """Return token and outcome of an attempt that ended in this very call."""
        return self._outcomes.get(run_id)

    def add(self, transition: Transition, *, is_cancel_requested: bool, cancel_reason: str | None) -> None:
        """Take in one transition of a run that is RUNNING under its token."""
        state, reason = transition.to, transition.reason
        if is_cancel_requested and state is not RunState.SUCCEEDED:
            state, reason = RunState.CANCELLED, cancel_reason
        run_id, now = transition.run_id, self._now
        self._outcomes[run_id] = (transition.token, transition.outcome)
        # A first-try success writes no attempt row (design 3); a token above 1 tells of earlier ones.
        if transition.outcome is not AttemptOutcome.SUCCEEDED or transition.token > 1:
            attempt = {"run_id": run_id, "outcome": transition.outcome, "now": now}
            self._attempts.append(attempt | {"error": transition.error, "output": transition.output})
        if state in {RunState.RETRYING, RunState.PENDING}:
            self._requeued.append(
                {
                    "run_id": run_id,
                    "state": state,
                    "ready_at": to_optional_micros(transition.ready_at) or now,
                    "now": now,
                    "attempt": transition.counts_attempt,
                    "crash": transition.is_crash,
                }
            )
            return
        self._removed.append(run_id)
        end: dict[str, object] = {
            "run_id": run_id,
            "state": state,
            "reason": reason,
            "now": now,
            "crash": transition.is_crash,
            "error": transition.error,
            "result": transition.result,
            "output": transition.output,
        }
        (self._buried if state is RunState.FAILED else self._finished).append(end)

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
    if in_this_call is not None:
        is_repeat = in_this_call == (transition.token, transition.outcome)
        return ApplyResult.APPLIED if is_repeat else ApplyResult.STALE
    row = fetch_first(db, "read_end", {"run_id": transition.run_id, "token": transition.token})
    if row is None or row[0] is None:
        return ApplyResult.MISSING
    state, token, outcome = row
    if transition.outcome is AttemptOutcome.SUCCEEDED:
        is_repeat = state == RunState.SUCCEEDED and token == transition.token
    else:
        is_repeat = outcome == transition.outcome
    return ApplyResult.APPLIED if is_repeat else ApplyResult.STALE


def _claim(db: apsw.Connection, request: ClaimRequest, now: int) -> ClaimResult:
    claimer = fetch_first(db, "read_claimer", {"session_id": request.session_id})
    if claimer is None:
        return _DEAD
    session = {"session_id": request.session_id, "number": request.number}
    if request.number == claimer[0]:
        again = fetch_all(db, "repeat_claim", session)
        return ClaimResult(
            tuple(
                _claimed(row, is_quarantined=bool(row[10]), is_cancel_requested=bool(row[11]))
                for row in again
            )
        )
    if request.number < claimer[0]:
        return _NOTHING
    execute(db, "set_claim_number", session)
    held = fetch_first(
        db,
        "is_holding" if request.is_quarantined else "is_holding_quarantined",
        {"session_id": request.session_id},
    )
    if (held is not None and held[0]) or not request.lanes or request.limit < 1:
        return _NOTHING
    lows = {lane_id: _low_of(request, lane_id) for lane_id in request.lanes}
    wanted = {
        "lanes": to_json(lows),
        "now": now,
        "limit": 1 if request.is_quarantined else request.limit,
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
