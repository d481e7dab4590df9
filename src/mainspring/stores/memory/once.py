"""Submissions with a key of what runs once, in memory."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.core.admission import SubmissionVerdict
from mainspring.core.expiry import EXPIRED
from mainspring.core.once import HeldKey, Holder, decide_once
from mainspring.core.states import FINAL_STATES, RunState
from mainspring.ports.store.runs import NewRun, SubmitResult
from mainspring.stores.memory.rows import RunRow, UniqueKeyRow
from mainspring.stores.memory.tables import Tables


def submit_once(tables: Tables, new: NewRun, now: datetime) -> SubmitResult:
    """Insert a run that has a key, or what its rule says instead."""
    assert new.once is not None
    place = (new.lane.tenant, new.job_id, new.once.key)
    row = tables.unique_keys.get(place)
    run = None if row is None else tables.runs.get(row.run_id)
    held = None if row is None else HeldKey(row.run_id, row.expires_at, _holder_of(run))
    decision = decide_once(new.once.rule, held, now=now)
    if decision.verdict is SubmissionVerdict.SUBMITTED:
        skipped = run if decision.skips_holder else None
        if skipped is not None:
            tables.finish(skipped, RunState.SKIPPED, reason=EXPIRED, now=now)
        made = tables.add_run(new, now=now)
        tables.unique_keys[place] = UniqueKeyRow(made.id, decision.expires_at)
        return SubmitResult(decision.verdict, made.id, skipped=None if skipped is None else skipped.id)
    assert row is not None, "a free key is given"
    if decision.verdict in {SubmissionVerdict.REPLACED, SubmissionVerdict.DEBOUNCED}:
        assert run is not None, "it waits"
        _replace_waiting(tables, run, new.payload, decision.shift)
    return SubmitResult(decision.verdict, row.run_id)


def is_void(tables: Tables, row: UniqueKeyRow, now: datetime) -> bool:
    """Say whether a key has no effect any more."""
    if row.expires_at is not None:
        return row.expires_at <= now
    return _holder_of(tables.runs.get(row.run_id)) is None


def _holder_of(run: RunRow | None) -> Holder | None:
    if run is None or run.state in FINAL_STATES:
        return None
    return Holder(
        is_running=run.state is RunState.RUNNING,
        ready_at=run.ready_at,
        created_at=run.created_at,
        expires_at=run.expires_at,
    )


def _replace_waiting(tables: Tables, run: RunRow, payload: bytes | None, shift: timedelta) -> None:
    tables.unindex(run)
    run.payload = payload
    run.ready_at += shift
    if run.token == 0:
        run.due_at += shift
    if run.expires_at is not None:
        run.expires_at += shift
    tables.index(run)
