"""What claims of all kinds have in common: whose turn it is, how many runs it may get, and how they start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from mainspring.core.claiming import Turn, allowance, judge_turn, must_be_alone
from mainspring.core.states import RunState
from mainspring.ports.store.claims import ClaimedRun, ClaimRequest, ClaimResult
from mainspring.ports.store.limits import LineClaim
from mainspring.stores.memory.rows import RunRow, SessionRow
from mainspring.stores.memory.tables import Tables


def turn_of(request: ClaimRequest | LineClaim, session: SessionRow) -> Turn:
    """Say whose turn a request has."""
    return judge_turn(
        request.number,
        session.claim_number,
        policy_epoch=request.policy_epoch,
        session_epoch=session.policy_epoch,
    )


def judge(tables: Tables, request: ClaimRequest | LineClaim) -> SessionRow | ClaimResult:
    """Return the session of a new request, or the answer to any other."""
    session = tables.sessions.get(request.session_id)
    if session is None or not session.is_live:
        return ClaimResult((), is_session_live=False)
    turn = turn_of(request, session)
    if turn is Turn.REPEAT:
        before = (lease for lease in session.claimed if tables.is_held(lease[0], lease[1], session.id))
        return ClaimResult(tuple(_view_claim(tables.runs[run_id]) for run_id, _ in before))
    if turn is Turn.OUTDATED:
        return ClaimResult((), is_policy_old=True)
    return ClaimResult(()) if turn is Turn.LATE else session


def allow(tables: Tables, request: ClaimRequest | LineClaim, session: SessionRow) -> int:
    """Return how many runs the session may be given."""
    first = session.running.first()  # a session with a quarantined run has no other run
    return allowance(
        request.limit,
        is_quarantined=isinstance(request, ClaimRequest) and request.is_quarantined,
        is_busy=first is not None,
        is_busy_with_quarantined=first is not None and tables.runs[first[0]].is_quarantined,
    )


def give(
    tables: Tables,
    runs: Sequence[RunRow],
    session: SessionRow,
    request: ClaimRequest | LineClaim,
    now: datetime,
) -> ClaimResult:
    """Start runs for a session."""
    for run in runs:
        tables.unindex(run)
        run.state = RunState.RUNNING
        run.token += 1
        run.session_id = session.id
        run.claim_number = request.number
        run.started_at = now
        run.deadline_at = now + run.timeout
        run.is_quarantined = must_be_alone(run.crashes)
        tables.index(run)
    session.claim_number = request.number
    session.claimed = tuple((run.id, run.token) for run in runs)
    taken = Counter(run.lane.id for run in runs)
    return ClaimResult(tuple(_view_claim(run) for run in runs), taken=taken)


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
        run.trace,
        run.is_cancel_requested,
        run.tenant,
    )
