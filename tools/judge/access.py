"""O5, O6, O7 and O9: the audit, the tenants of workers, the counters, and tokens that were revoked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

from mainspring.core.states import RunState
from tools.judge.model import History, TokenUse, Violation
from tools.judge.runs import Runs

REVOKED_WITHIN = timedelta(seconds=2)
"""How long a token that was revoked may still be accepted by a server that can ask the store."""
_ALWAYS = frozenset({"create", "delete"})
"""Changes that change something whenever they are acknowledged. An edit or a pause may find that all is so already."""
_COUNTED = (RunState.SUCCEEDED, RunState.FAILED)
"""States that runs reach by attempts only, so that each is counted where attempts are."""


def judge_access(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """O5, O6, O7 and O9, each as far as it was recorded."""
    yield from _judge_audit(history, counts)
    yield from _judge_tenants(history, runs, counts)
    yield from _judge_counters(history, counts)
    yield from _judge_tokens(history, counts)


def _judge_audit(history: History, counts: Counter[str]) -> Iterator[Violation]:
    """O5: a change that took place has one row, and one that was acknowledged is among them; no other has any."""
    if history.audited is None:
        return
    for request in history.requests:
        rows, done = history.audited.get(request.id, 0), history.committed.get(request.id, 0)
        what = f"{request.kind} {request.id}"
        counts["changes_audited"] += rows
        counts["changes_refused"] += request.outcome == "fail"
        if rows != done:
            yield Violation("O5", what, (f"took place {done} times, and has {rows} rows in the audit",))
        elif request.outcome == "ok" and request.kind in _ALWAYS and not rows:
            yield Violation("O5", what, ("was acknowledged, and has no row in the audit",))
        elif request.outcome == "fail" and rows:
            yield Violation("O5", what, (f"was refused, and has {rows} rows in the audit",))
    known = {request.id for request in history.requests}
    for stranger in sorted(history.audited.keys() - known):
        yield Violation("O5", stranger, ("is in the audit, and was never asked for",))


def _judge_tenants(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """O6: a worker that is bound to a tenant gets no run of another one."""
    for event in history.events:
        if event.target is not RunState.RUNNING or event.session_id is None or event.run_id is None:
            continue
        bound, run = history.bound.get(event.session_id), runs.by_id.get(event.run_id)
        if bound is None or run is None:
            continue
        counts["starts_at_a_bound_worker"] += 1
        if run.tenant != bound:
            why = f"is of tenant {run.tenant}, and was given to {event.actor}, which is bound to {bound}"
            yield runs.accuse("O6", run.id, why)


def _judge_counters(history: History, counts: Counter[str]) -> Iterator[Violation]:
    """O7: where no process was hurt, the counters of all together say how many runs have ended, and how."""
    if history.counted is None:
        return
    ended = Counter(run.state for run in history.runs)
    for state in _COUNTED:
        counts["ends_counted"] += ended[state]
        if history.counted.get(state, 0) != ended[state]:
            why = f"{ended[state]} runs are {state}, and {history.counted.get(state, 0)} were counted"
            yield Violation("O7", f"runs {state}", (why,))


def _judge_tokens(history: History, counts: Counter[str]) -> Iterator[Violation]:
    """O9: nothing is admitted under a token two seconds after it was revoked."""
    for use in history.uses:
        revoked_at = history.revoked.get(use.token)
        counts["tokens_admitted" if use.is_admitted else "tokens_refused"] += 1
        if revoked_at is None or not use.is_admitted:
            continue
        if use.at > revoked_at + REVOKED_WITHIN + history.slack and not _is_hurt(history, use):
            why = f"was revoked at {revoked_at}, and admitted by {use.server} at {use.at}"
            yield Violation("O9", f"token {use.token}", (why,))


def _is_hurt(history: History, use: TokenUse) -> bool:
    """Say whether a server may not have heard of a revocation: it, or the store, had a fault since."""
    since = history.revoked[use.token]
    return any(
        fault.target in {"", use.server} and fault.at <= use.at and fault.until >= since
        for fault in history.faults
    )
