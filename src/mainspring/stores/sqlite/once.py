"""Submissions with a key of what runs once, on SQLite."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import apsw

from mainspring.core.admission import SubmissionVerdict
from mainspring.core.expiry import EXPIRED
from mainspring.core.ids import JobId, RunId
from mainspring.core.once import HeldKey, Holder, decide_once
from mainspring.core.states import RunState
from mainspring.ports.store.runs import NewRun, SubmitResult
from mainspring.ports.store.upkeep import UniqueKeyPlace
from mainspring.stores.sqlite.completion import end_waiting
from mainspring.stores.sqlite.inserts import InternedLanes, insert_runs
from mainspring.stores.sqlite.rows import (
    NamedRow,
    to_instant,
    to_micros,
    to_optional_instant,
    to_optional_micros,
)
from mainspring.stores.sqlite.statements import execute, execute_many, fetch_row, fetch_rows

_MICROSECOND = timedelta(microseconds=1)


def submit_once(db: apsw.Connection, lane_ids: InternedLanes, new: NewRun, now: datetime) -> SubmitResult:
    """Insert a run that has a key, or what its rule says instead."""
    assert new.once is not None
    place = {"tenant": new.lane.tenant, "job_id": new.job_id.bytes, "unique_key": new.once.key}
    row = fetch_row(db, "read_unique_key", place)
    decision = decide_once(new.once.rule, None if row is None else _held_of(row), now=now)
    if decision.verdict is SubmissionVerdict.SUBMITTED:
        skipped = RunId(row.run_id) if decision.skips_holder and row is not None else None
        if skipped is not None:
            end_waiting(db, skipped, RunState.SKIPPED, EXPIRED, to_micros(now))
        (run_id,) = insert_runs(db, lane_ids, [new], to_micros(now))
        taken = {**place, "run_id": run_id, "expiry_at": to_optional_micros(decision.expires_at)}
        execute(db, "take_unique_key", taken)
        return SubmitResult(decision.verdict, run_id, skipped=skipped)
    assert row is not None, "a free key is given"
    if decision.verdict in {SubmissionVerdict.REPLACED, SubmissionVerdict.DEBOUNCED}:
        shift = decision.shift // _MICROSECOND
        execute(db, "replace_waiting", {"run_id": row.run_id, "payload": new.payload, "shift": shift})
    return SubmitResult(decision.verdict, RunId(row.run_id))


def prune_unique_keys(
    db: apsw.Connection, now: datetime, after: UniqueKeyPlace | None, limit: int
) -> tuple[int, UniqueKeyPlace | None]:
    """See `UpkeepStore`."""
    start = {
        "tenant": "" if after is None else after.tenant,
        "job_id": b"" if after is None else after.job_id.bytes,
        "unique_key": b"" if after is None else after.key,
    }
    rows = fetch_rows(db, "find_unique_keys", {**start, "now": to_micros(now), "limit": limit})
    void = [(row.tenant, row.job_id, row.key) for row in rows if row.is_void]
    execute_many(db, "delete_unique_key", void)
    if len(rows) < limit:
        return len(void), None
    last = rows[-1]
    return len(void), UniqueKeyPlace(last.tenant, JobId(UUID(bytes=last.job_id)), last.key)


def _held_of(row: NamedRow) -> HeldKey:
    holder = None
    if row.state is not None:
        holder = Holder(
            is_running=row.state == RunState.RUNNING,
            ready_at=to_instant(row.ready_at),
            created_at=to_instant(row.created_at),
            expires_at=to_optional_instant(row.run_expires_at),
        )
    return HeldKey(RunId(row.run_id), to_optional_instant(row.expires_at), holder)
