"""Claims: finds ready runs, gives them to sessions, takes them back, and finds those left behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice

from mainspring.core.admission import SubmissionVerdict, admit
from mainspring.core.applying import settle
from mainspring.core.claiming import (
    Quotas,
    Turn,
    is_expired,
    may_start_at_once,
)
from mainspring.core.dead_letters import STEP_SETTLED, SettledLetter, Settlement
from mainspring.core.fencing import is_held, is_repeat
from mainspring.core.ids import LaneId, RunId
from mainspring.core.model import Attempt, Lane
from mainspring.core.outcomes import Transition
from mainspring.core.states import RunState
from mainspring.ports.store.claims import ApplyResult, ClaimedRun, ClaimRequest, ClaimResult, HeldRun
from mainspring.ports.store.runs import NewRun
from mainspring.stores.memory.index import LAST_ID
from mainspring.stores.memory.leases import allow, give, judge, turn_of
from mainspring.stores.memory.lined_up import admit as admit_to_limits
from mainspring.stores.memory.rows import LaneRow, RunRow, SessionRow
from mainspring.stores.memory.tables import Tables

_MOST_QUARANTINED = 16
"""Quarantined runs that are looked at for one that has room under its limits."""


class MemoryClaimStore:
    """`ClaimStore` in memory."""

    _tables: Tables

    async def read_lanes(
        self,
        queues: Sequence[str],
        *,
        lows: Mapping[LaneId, datetime] | None = None,
        after: LaneId | None = None,
        limit: int | None = None,
    ) -> list[Lane]:
        bounds = lows or {}
        lanes = sorted(self._tables.lanes.values(), key=lambda lane: lane.id)
        found = (
            lane
            for lane in lanes
            if (not queues or lane.key.queue in queues) and (after is None or lane.id > after)
        )
        return [_view_lane(lane, bounds.get(lane.id)) for lane in islice(found, limit)]

    async def read_some_lanes(
        self, lanes: Sequence[LaneId], *, lows: Mapping[LaneId, datetime]
    ) -> list[Lane]:
        rows = [self._tables.lanes.get(lane_id) for lane_id in lanes]
        return [_view_lane(row, lows.get(row.id)) for row in rows if row is not None]

    async def read_ready_instants(
        self, lanes: Sequence[LaneId], *, lows: Mapping[LaneId, datetime], now: datetime, limit: int
    ) -> dict[LaneId, list[datetime]]:
        return {
            lane_id: list(islice(self._instants(lane_id, lows.get(lane_id), now), limit)) for lane_id in lanes
        }

    def _instants(self, lane_id: LaneId, low: datetime | None, now: datetime) -> Iterator[datetime]:
        lane = self._tables.lanes.get(lane_id)
        if lane is not None:
            for ready_at, run_id in lane.ready.between(None if low is None else (low,), (now, LAST_ID)):
                if not is_expired(self._tables.runs[run_id].expires_at, now):
                    yield ready_at

    async def read_held(self, run_ids: Sequence[RunId]) -> list[HeldRun | None]:
        rows = (self._tables.runs.get(run_id) for run_id in run_ids)
        return [row.held() if row is not None and row.takes_slot else None for row in rows]

    # -- claiming ----------------------------------------------------------------------------------------------

    async def claim_runs(self, requests: Sequence[ClaimRequest], *, now: datetime) -> list[ClaimResult]:
        quotas = Quotas()
        return [self._claim(request, quotas, now) for request in requests]

    def _claim(self, request: ClaimRequest, quotas: Quotas, now: datetime) -> ClaimResult:
        tables, session = self._tables, judge(self._tables, request)
        if isinstance(session, ClaimResult):
            return session
        left = quotas.left(request.quotas, is_quarantined=request.is_quarantined)
        ready, allowed = self._candidates(request, left, now), allow(self._tables, request, session)
        if request.is_quarantined:
            first = list(islice(ready, _MOST_QUARANTINED))
            taken = admit_to_limits(tables, first, allowed, now, caps=request.caps).runs
        else:
            taken = list(islice(ready, allowed))
        return give(self._tables, taken, session, request, now)

    async def try_claim(self, request: ClaimRequest, *, now: datetime) -> ClaimResult | None:
        if self._find_claimer(request) is None or not self._is_anything_ready(request, now):
            return None
        return self._claim(request, Quotas(), now)

    async def submit_claimed(self, run: NewRun, *, request: ClaimRequest, now: datetime) -> ClaimedRun | None:
        tables = self._tables
        session, job = self._find_claimer(request), tables.jobs.get(run.job_id)
        admission = admit(
            known=None,
            request_hashes=(),
            newest_version=None if job is None else job.version,
            wanted_version=run.version if run.must_be_newest else None,
            now=now,
        )
        if (
            session is None
            or admission is not SubmissionVerdict.SUBMITTED
            or not may_start_at_once(
                is_plain=run.is_plain, due_at=run.due_at, expires_at=run.expires_at, now=now
            )
            or tables.lane_ids.get(run.lane) not in request.lanes
            or self._is_anything_ready(request, now)
        ):
            return None
        [claimed] = give(tables, [tables.add_run(run, now=now)], session, request, now).runs
        return claimed

    def _find_claimer(self, request: ClaimRequest) -> SessionRow | None:
        """Return the request's session if it is live, may get runs, and has not used the request's number."""
        session = self._tables.sessions.get(request.session_id)
        if session is not None and session.is_live and allow(self._tables, request, session) > 0:
            return session if turn_of(request, session) is Turn.NEW else None
        return None

    def _is_anything_ready(self, request: ClaimRequest, now: datetime) -> bool:
        return next(self._candidates(request, {}, now), None) is not None

    def _candidates(self, request: ClaimRequest, left: dict[LaneId, int], now: datetime) -> Iterator[RunRow]:
        """Yield what a request may get, in order; `left` is reduced by what is taken."""
        for lane_id in dict.fromkeys(request.lanes):
            lane = self._tables.lanes.get(lane_id)
            if lane is None:
                continue
            index = lane.quarantined if request.is_quarantined else lane.ready
            low = request.lows.get(lane_id)
            for _, run_id in index.between(None if low is None else (low,), (now, LAST_ID)):
                run = self._tables.runs[run_id]
                if is_expired(run.expires_at, now):
                    continue
                if left.get(lane_id, 1) < 1:
                    break
                if lane_id in left:
                    left[lane_id] -= 1
                yield run

    # -- the ends of attempts ----------------------------------------------------------------------------------

    async def apply(self, transitions: Sequence[Transition], *, now: datetime) -> list[ApplyResult]:
        results = []
        for transition in transitions:
            run = self._tables.runs.get(transition.run_id)
            if run is None:
                results.append(ApplyResult.MISSING)
            elif is_held(run, transition.token, transition.session_id):
                end_attempt(self._tables, run, transition, now)
                results.append(ApplyResult.APPLIED)
            else:
                outcome = self._kept_outcome(run.id, transition.token)
                was_applied = is_repeat(transition, outcome=outcome, state=run.state, token=run.token)
                results.append(ApplyResult.APPLIED if was_applied else ApplyResult.STALE)
        return results

    def _kept_outcome(self, run_id: RunId, token: int) -> str | None:
        attempts = self._tables.attempts.get(run_id, ())
        return next((attempt.outcome for attempt in attempts if attempt.token == token), None)

    # -- what was left behind ----------------------------------------------------------------------------------

    async def list_orphans(self, *, limit: int) -> list[HeldRun]:
        tables = self._tables
        dead = (session for session in tables.sessions.values() if not session.is_live)
        orphans = sorted(run_id for session in dead for (run_id,) in session.running)
        return [tables.runs[run_id].held() for run_id in orphans[:limit]]

    async def list_overdue(self, *, now: datetime, limit: int) -> list[HeldRun]:
        overdue = islice(self._tables.deadlines.between(None, (now, LAST_ID)), limit)
        return [self._tables.runs[run_id].held() for _, run_id in overdue]


def _view_lane(lane: LaneRow, low: datetime | None) -> Lane:
    ready = lane.ready.first() if low is None else next(lane.ready.above((low,)), None)
    quarantined = lane.quarantined.first()
    return Lane(lane.id, lane.key, ready[0] if ready else None, quarantined[0] if quarantined else None)


def end_attempt(tables: Tables, run: RunRow, transition: Transition, now: datetime) -> None:
    """End the attempt of a RUNNING run that is held under the transition's lease."""
    settled = settle(transition, run, now=now)
    if settled.writes_attempt:
        tables.add_attempt(_attempt(tables, run, transition, now))
    tables.unindex(run)
    run.state = settled.state
    run.token = settled.token
    run.attempt = settled.attempt
    run.crashes = settled.crashes
    run.quarantined_crashes = settled.quarantined_crashes
    run.deadline_at = None
    if settled.ready_at is None:
        run.finished_at = now
        run.reason = settled.reason
        run.error = transition.error
        run.result = transition.result
        run.output = transition.output
        if run.place is not None and run.state is RunState.FAILED:
            run.settled = SettledLetter(settlement=Settlement.DISCARDED, at=now, reason=STEP_SETTLED)
        job = tables.jobs.get(run.job_id)
        run.is_unnoticed = run.state is RunState.FAILED and job is not None and job.spec.notify is not None
        tables.keep_seed(run)
    else:
        run.ready_at = settled.ready_at
        run.is_quarantined = False
        run.session_id = None
    tables.index(run)


def _attempt(tables: Tables, run: RunRow, transition: Transition, now: datetime) -> Attempt:
    assert run.session_id is not None
    assert run.started_at is not None
    session = tables.sessions.get(run.session_id)  # none if the engine held the run
    return Attempt(
        run_id=run.id,
        token=run.token,
        number=run.attempt,
        outcome=transition.outcome.value,
        worker="" if session is None else session.offer.worker,
        started_at=run.started_at,
        finished_at=now,
        error=transition.error,
        output=transition.output,
        host=None if session is None else session.offer.host,
    )
