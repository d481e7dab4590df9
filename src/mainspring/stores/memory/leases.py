"""Leases: claims, the ends of attempts, cancel, expiry, and what was left behind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice

from mainspring.core.ids import RunId
from mainspring.core.model import Attempt
from mainspring.core.states import FINAL_STATES, RunState
from mainspring.core.transitions import AttemptOutcome, Transition
from mainspring.ports.store.claims import ApplyResult, ClaimedRun, ClaimRequest, ClaimResult, HeldRun
from mainspring.ports.store.runs import CancelResult, Followup, NewRun
from mainspring.stores.memory.rows import RunRow, SessionRow
from mainspring.stores.memory.tables import Tables


class LeaseVerbs:
    """The part of `RunStore` that gives runs out and takes them back."""

    _tables: Tables

    # -- claiming ----------------------------------------------------------------------------------------------

    async def claim_runs(self, requests: Sequence[ClaimRequest], *, now: datetime) -> list[ClaimResult]:
        return [self._claim(request, now) for request in requests]

    def _claim(self, request: ClaimRequest, now: datetime) -> ClaimResult:
        tables = self._tables
        session = tables.sessions.get(request.session_id)
        if session is None or not session.is_live:
            return ClaimResult((), is_session_live=False)
        if session.claim_number == request.number:
            before = (lease for lease in session.claimed if tables.is_held(lease[0], lease[1], session.id))
            return ClaimResult(tuple(_view_claim(tables.runs[run_id]) for run_id, _ in before))
        if request.number < session.claim_number:
            return ClaimResult(())
        taken = list(islice(self._candidates(request, now), self._allowance(request, session)))
        for run in taken:
            self._start(run, session, request, now)
        session.claim_number = request.number
        session.claimed = tuple((run.id, run.token) for run in taken)
        return ClaimResult(tuple(_view_claim(run) for run in taken))

    def _allowance(self, request: ClaimRequest, session: SessionRow) -> int:
        """How many runs the session may be given."""
        if request.is_quarantined:
            return min(request.limit, 1) if not len(session.running) else 0
        busy_with = session.running.first()  # whoever carries out a run alone has no other
        is_busy_with_quarantined = busy_with is not None and self._tables.runs[busy_with[0]].is_quarantined
        return 0 if is_busy_with_quarantined else request.limit

    def _candidates(self, request: ClaimRequest, now: datetime) -> Iterator[RunRow]:
        for lane_id in dict.fromkeys(request.lanes):
            lane = self._tables.lanes.get(lane_id)
            if lane is None:
                continue
            index = lane.quarantined if request.is_quarantined else lane.ready
            low = request.lows.get(lane_id)
            for _, run_id in index.between(None if low is None else (low,), (now, _LAST)):
                run = self._tables.runs[run_id]
                if not run.is_expired(now):
                    yield run

    def _start(self, run: RunRow, session: SessionRow, request: ClaimRequest, now: datetime) -> None:
        self._tables.unindex(run)
        run.state = RunState.RUNNING
        run.token += 1
        run.session_id = session.id
        run.claim_number = request.number
        run.started_at = now
        run.deadline_at = now + run.timeout
        run.is_quarantined = request.is_quarantined
        self._tables.index(run)

    # -- the ends of attempts ----------------------------------------------------------------------------------

    async def apply(
        self, transitions: Sequence[Transition], *, now: datetime, followups: Sequence[Followup] = ()
    ) -> list[ApplyResult]:
        children: dict[RunId, list[NewRun]] = defaultdict(list)
        for followup in followups:
            children[followup.parent].append(followup.run)
        results = []
        for transition in transitions:
            run = self._tables.runs.get(transition.run_id)
            if run is None:
                results.append(ApplyResult.MISSING)
            elif self._tables.is_held(run.id, transition.token, transition.session_id):
                self._end(run, transition, now)
                for new in children.pop(run.id, ()):
                    self._tables.add_run(new, now=now)
                results.append(ApplyResult.APPLIED)
            else:
                is_repeat = self._was_applied(run, transition)
                results.append(ApplyResult.APPLIED if is_repeat else ApplyResult.STALE)
        return results

    def _was_applied(self, run: RunRow, transition: Transition) -> bool:
        for attempt in self._tables.attempts.get(run.id, ()):
            if attempt.token == transition.token:
                return attempt.outcome == transition.outcome
        is_success = transition.outcome is AttemptOutcome.SUCCEEDED
        return is_success and run.state is RunState.SUCCEEDED and run.token == transition.token

    def _end(self, run: RunRow, transition: Transition, now: datetime) -> None:
        tables = self._tables
        if transition.to is not RunState.SUCCEEDED or run.id in tables.attempts:
            tables.attempts.setdefault(run.id, []).append(self._attempt(run, transition, now))
        state, reason = transition.to, transition.reason
        if run.is_cancel_requested and state is not RunState.SUCCEEDED:
            state, reason = RunState.CANCELLED, run.cancel_reason
        tables.unindex(run)
        run.state = state
        run.deadline_at = None
        run.crashes += transition.is_crash
        run.quarantined_crashes += transition.is_crash and run.is_quarantined
        if state in FINAL_STATES:
            run.finished_at = now
            run.reason = reason
            run.error = transition.error
            run.result = transition.result
            run.output = transition.output
        else:
            run.token += 1
            run.attempt += transition.counts_attempt
            run.ready_at = max(transition.ready_at or now, now)
            run.is_quarantined = False
            run.session_id = None
        tables.index(run)

    def _attempt(self, run: RunRow, transition: Transition, now: datetime) -> Attempt:
        assert run.session_id is not None
        assert run.started_at is not None
        return Attempt(
            run_id=run.id,
            token=run.token,
            number=run.attempt,
            outcome=transition.outcome.value,
            worker=self._tables.sessions[run.session_id].offer.worker,
            started_at=run.started_at,
            finished_at=now,
            error=transition.error,
            output=transition.output,
        )

    # -- bystanders --------------------------------------------------------------------------------------------

    async def cancel_runs(
        self, run_ids: Sequence[RunId], *, reason: str, now: datetime
    ) -> list[CancelResult]:
        return [self._cancel(run_id, reason, now) for run_id in run_ids]

    def _cancel(self, run_id: RunId, reason: str, now: datetime) -> CancelResult:
        run = self._tables.runs.get(run_id)
        if run is None:
            return CancelResult.MISSING
        if run.state in FINAL_STATES:
            return CancelResult.FINISHED
        if run.state is not RunState.RUNNING:
            self._tables.finish(run, RunState.CANCELLED, reason=reason, now=now)
            return CancelResult.CANCELLED
        if not run.is_cancel_requested:
            run.is_cancel_requested = True
            run.cancel_reason = reason
        return CancelResult.REQUESTED

    async def expire_runs(self, *, now: datetime, limit: int) -> list[RunId]:
        expired = list(islice(self._tables.expiring.between(None, (now, _LAST)), limit))
        for _, run_id in expired:
            self._tables.finish(self._tables.runs[run_id], RunState.SKIPPED, reason="expired", now=now)
        return [run_id for _, run_id in expired]

    async def list_orphans(self, *, limit: int) -> list[HeldRun]:
        tables = self._tables
        dead = (session for session in tables.sessions.values() if not session.is_live)
        orphans = sorted(run_id for session in dead for (run_id,) in session.running)
        return [tables.runs[run_id].held() for run_id in orphans[:limit]]

    async def list_overdue(self, *, now: datetime, limit: int) -> list[HeldRun]:
        overdue = islice(self._tables.deadlines.between(None, (now, _LAST)), limit)
        return [self._tables.runs[run_id].held() for _, run_id in overdue]


_LAST = 1 << 80
"""Greater than every run id."""


def _view_claim(run: RunRow) -> ClaimedRun:
    return ClaimedRun(
        run.id,
        run.token,
        run.job_id,
        run.version,
        run.attempt,
        run.fire_at,
        run.due_at,
        run.payload,
        run.target_key,
        run.is_quarantined,
        run.is_cancel_requested,
        run.tenant,
    )
