"""Runs on SQLite: submission, cancel, expiry, inspection."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import apsw

from mainspring.core.ids import JobId, RunId
from mainspring.core.model import Attempt, Run
from mainspring.core.states import RunState
from mainspring.ports.store.runs import CancelResult, NewRun, SubmitResult, SubmitStatus
from mainspring.stores.sqlite.base import Part, execute, fetch_all, fetch_first
from mainspring.stores.sqlite.rows import Row, make_attempt, make_run, to_json, to_micros

_LAST_ID = 2**63 - 1


class RunPart(Part):
    """Implements what `RunStore` says of runs outside their leases."""

    async def submit_runs(self, runs: Sequence[NewRun], *, now: datetime) -> list[SubmitResult]:
        """See `RunStore`."""
        if not runs:
            return []
        return await self._write(lambda db: self._submit(db, runs, to_micros(now)))

    def _submit(self, db: apsw.Connection, runs: Sequence[NewRun], now: int) -> list[SubmitResult]:
        versions: dict[JobId, int | None] = {}
        results: list[SubmitResult] = []
        plain: list[NewRun] = []

        def insert_plain() -> None:
            # Before a run with a key is looked at, so that ids grow in the order of the arguments.
            results.extend(
                SubmitResult(SubmitStatus.SUBMITTED, run_id) for run_id in self._insert_runs(db, plain, now)
            )
            plain.clear()

        job_id, version = None, None
        for run in runs:
            if run.job_id is not job_id:
                job_id = run.job_id
                if job_id not in versions:
                    versions[job_id] = _find_version(db, job_id)
                version = versions[job_id]
            if version is None:
                refusal = SubmitStatus.JOB_MISSING
            elif run.must_be_newest and run.version != version:
                refusal = SubmitStatus.JOB_CHANGED
            elif run.submit_key is None:
                plain.append(run)
                continue
            else:
                refusal = None
            insert_plain()
            results.append(self._submit_once(db, run, now, refusal))
        insert_plain()
        return results

    def _submit_once(
        self, db: apsw.Connection, run: NewRun, now: int, refusal: SubmitStatus | None
    ) -> SubmitResult:
        """Submit a run that has a key, or answer a `refusal`; a known key comes before that."""
        key = run.submit_key
        if key is None:
            return SubmitResult(refusal or SubmitStatus.JOB_MISSING)
        values: dict[str, object] = {"tenant": run.lane.tenant, "key": key.key}
        known = fetch_first(db, "read_key", values)
        if known is not None and known[2] > now:
            is_same = known[1] == key.request_hash
            return SubmitResult(
                SubmitStatus.DUPLICATE if is_same else SubmitStatus.KEY_MISMATCH, RunId(known[0])
            )
        if refusal is not None:
            return SubmitResult(refusal)
        (run_id,) = self._insert_runs(db, [run], now)
        values |= {"run_id": run_id, "request_hash": key.request_hash, "now": now}
        execute(db, "reserve_key", {**values, "expiry_at": to_micros(key.expires_at)})
        return SubmitResult(SubmitStatus.SUBMITTED, run_id)

    async def cancel_runs(
        self, run_ids: Sequence[RunId], *, reason: str, now: datetime
    ) -> list[CancelResult]:
        """See `RunStore`."""
        if not run_ids:
            return []
        at = to_micros(now)
        return await self._write(lambda db: [_cancel(db, run_id, reason, at) for run_id in run_ids])

    async def expire_runs(self, *, now: datetime, limit: int) -> list[RunId]:
        """See `RunStore`."""
        at = to_micros(now)

        def work(db: apsw.Connection) -> list[RunId]:
            rows = fetch_all(db, "find_expired", {"now": at, "limit": limit})
            for row in rows:
                _end_waiting(db, row[0], RunState.SKIPPED, "expired", at)
            return [RunId(row[0]) for row in rows]

        return await self._write(work)

    async def get_runs(self, run_ids: Sequence[RunId]) -> list[Run | None]:
        """See `RunStore`."""
        if not run_ids:
            return []
        values = {"run_ids": to_json(list(run_ids))}
        rows = await self._read(lambda db: fetch_all(db, "get_runs", values))
        found = {run.id: run for run in map(make_run, rows)}
        return [found.get(run_id) for run_id in run_ids]

    async def list_runs(
        self,
        tenant: str,
        *,
        job_id: JobId | None = None,
        state: RunState | None = None,
        before: RunId | None = None,
        limit: int = 100,
    ) -> list[Run]:
        """See `RunStore`."""
        values: dict[str, object] = {
            "tenant": tenant,
            "state": None if state is None else state.value,
            "before": _LAST_ID if before is None else before,
            "limit": limit,
        }
        name = "list_runs"
        if job_id is not None:
            name = "list_runs_of_job"
            values["job_id"] = job_id.bytes
        rows = await self._read(lambda db: fetch_all(db, name, values))
        return [make_run(row) for row in rows]

    async def newest_runs(self, job_ids: Sequence[JobId], *, now: datetime) -> list[Run | None]:
        """See `RunStore`."""
        at = to_micros(now)

        def work(db: apsw.Connection) -> list[Row | None]:
            return [fetch_first(db, "newest_run", {"job_id": job_id.bytes, "now": at}) for job_id in job_ids]

        return [None if row is None else make_run(row) for row in await self._read(work)]

    async def list_attempts(self, run_id: RunId) -> list[Attempt]:
        """See `RunStore`."""
        rows = await self._read(lambda db: fetch_all(db, "list_attempts", {"run_id": run_id}))
        return [make_attempt(row) for row in rows]

    async def count_runs(self, tenant: str) -> dict[RunState, int]:
        """See `RunStore`."""
        rows = await self._read(lambda db: fetch_all(db, "count_runs", {"tenant": tenant}))
        return {RunState(state): count for state, count in rows}


def _find_version(db: apsw.Connection, job_id: JobId) -> int | None:
    row = fetch_first(db, "find_existing_job", {"job_id": job_id.bytes})
    return None if row is None else row[0]


def _cancel(db: apsw.Connection, run_id: RunId, reason: str, now: int) -> CancelResult:
    row = fetch_first(db, "lock_runs", {"run_ids": to_json([run_id])})
    if row is None:
        end = fetch_first(db, "read_end", {"run_id": run_id, "token": 0})
        is_known = end is not None and end[0] is not None
        return CancelResult.FINISHED if is_known else CancelResult.MISSING
    state = RunState(row[1])
    if state is RunState.RUNNING:
        execute(db, "request_cancel", {"run_id": run_id, "reason": reason, "now": now})
        return CancelResult.REQUESTED
    _end_waiting(db, run_id, RunState.CANCELLED, reason, now)
    return CancelResult.CANCELLED


def _end_waiting(db: apsw.Connection, run_id: RunId, state: RunState, reason: str, now: int) -> None:
    values: dict[str, object] = {
        "run_id": run_id,
        "state": state,
        "reason": reason,
        "now": now,
        "crash": 0,
        "error": None,
        "result": None,
        "output": None,
    }
    execute(db, "finish_run", values)
    execute(db, "remove_runs", {"run_ids": to_json([run_id])})
