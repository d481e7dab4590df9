"""Runs from submission to history: submitting, cancelling, expiring, inspecting."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.admission import SubmissionVerdict
from mainspring.core.applying import CancelVerdict
from mainspring.core.audit import AuditEntry
from mainspring.core.expiry import EXPIRED
from mainspring.core.ids import JobId, RunId
from mainspring.core.model import Attempt, Run
from mainspring.core.states import RunState
from mainspring.ports.store.runs import NewRun, SubmitResult
from mainspring.stores.postgres.audit import write_audit
from mainspring.stores.postgres.completion import finish_waiting
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.inserts import LaneIds
from mainspring.stores.postgres.overlap import cancel_runs
from mainspring.stores.postgres.rows import (
    attempt_of,
    columns_of_runs,
    common,
    run_of,
    values_of_run,
)
from mainspring.stores.postgres.submissions import submit_carefully


class PostgresRunStore:
    """`RunStore` on PostgreSQL."""

    _connections: Connections
    _lane_ids: LaneIds

    async def submit_runs(
        self,
        runs: Sequence[NewRun],
        *,
        now: datetime,
        notice: str | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> list[SubmitResult]:
        if not runs:
            return []
        results = await self._submit(runs, now, notice, audit)
        self._connections.servers.recent.note(now, results)
        return results

    async def _submit(
        self, runs: Sequence[NewRun], now: datetime, notice: str | None, audit: Sequence[AuditEntry]
    ) -> list[SubmitResult]:
        if not audit and all(run.is_plain for run in runs):
            results = await self._submit_plain(runs, now, notice)
            if results is not None:
                return results

        async def work(transaction: Transaction) -> list[SubmitResult]:
            results = await submit_carefully(transaction, self._lane_ids, runs, now)
            submitted = [result.status is SubmissionVerdict.SUBMITTED for result in results]
            if notice is not None and any(submitted):
                await transaction.execute("announce", notice=notice)
            await write_audit(transaction, audit, submitted)
            return results

        return await self._connections.transact(Role.SUBMIT, work)

    async def _submit_plain(
        self, runs: Sequence[NewRun], now: datetime, notice: str | None
    ) -> list[SubmitResult] | None:
        """Insert ordinary runs in one statement.

        Return None if it inserted nothing, because a lane or job is not as expected.
        """
        if len(runs) == 1:
            return await self._submit_one(runs[0], now, notice)
        lanes = common([run.lane for run in runs])
        keys = list(dict.fromkeys(lanes))
        known = self._lane_ids.recall(keys)
        if known is None:
            return None
        ids = dict(zip(keys, known, strict=True))
        wanted = _wanted_jobs(runs)
        rows = await self._connections.fetch(
            Role.SUBMIT,
            "submit_runs",
            is_repeatable=False,
            lane_ids=sorted(known),
            run_lanes=common([ids[lane] for lane in lanes]),
            wanted_jobs=[job_id for job_id, _ in wanted],
            wanted_versions=[version or None for _, version in wanted],
            now=now,
            notice=notice,
            **columns_of_runs(runs),
        )
        return [SubmitResult(SubmissionVerdict.SUBMITTED, RunId(row["id"])) for row in rows] or None

    async def _submit_one(self, run: NewRun, now: datetime, notice: str | None) -> list[SubmitResult] | None:
        known = self._lane_ids.recall([run.lane])
        if known is None:
            return None
        rows = await self._connections.fetch(
            Role.SUBMIT,
            "submit_one",
            is_repeatable=False,
            lane_id=known[0],
            **values_of_run(run),
            now=now,
            notice=notice,
        )
        return [SubmitResult(SubmissionVerdict.SUBMITTED, RunId(row["id"])) for row in rows] or None

    async def cancel_runs(
        self, run_ids: Sequence[RunId], *, reason: str, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[CancelVerdict]:
        if not run_ids:
            return []

        async def work(transaction: Transaction) -> list[CancelVerdict]:
            cancelled = await cancel_runs(transaction, run_ids, reason=reason, now=now)
            await write_audit(transaction, audit, [is_new for _, is_new in cancelled])
            return [verdict for verdict, _ in cancelled]

        return await self._connections.transact(Role.WATCH, work)

    async def expire_runs(self, *, now: datetime, limit: int) -> list[RunId]:
        async def work(transaction: Transaction) -> list[RunId]:
            rows = await transaction.fetch("find_expired", now=now, limit=limit)
            expired = [RunId(row["id"]) for row in rows]
            await finish_waiting(transaction, sorted(expired), RunState.SKIPPED, EXPIRED, now)
            return expired

        return await self._connections.transact(Role.WATCH, work)

    async def get_runs(self, run_ids: Sequence[RunId]) -> list[Run | None]:
        if not run_ids:
            return []
        rows = await self._connections.fetch(Role.READ, "get_runs", is_repeatable=True, run_ids=run_ids)
        found = {row["id"]: run_of(row) for row in rows}
        return [found.get(run_id) for run_id in run_ids]

    async def newest_runs(self, job_ids: Sequence[JobId], *, now: datetime) -> list[Run | None]:
        if not job_ids:
            return []
        rows = await self._connections.fetch(
            Role.BROWSE, "newest_runs", is_repeatable=True, job_ids=job_ids, now=now
        )
        found = {row["job_id"]: run_of(row) for row in rows}
        return [found.get(job_id) for job_id in job_ids]

    async def list_attempts(self, run_id: RunId) -> list[Attempt]:
        rows = await self._connections.fetch(Role.READ, "list_attempts", is_repeatable=True, run_id=run_id)
        return [attempt_of(row) for row in rows]


def _wanted_jobs(runs: Sequence[NewRun]) -> list[tuple[JobId, int]]:
    """Return the jobs that have to exist, each with the version that has to be its newest, or 0 for any."""
    if not any(run.must_be_newest for run in runs):
        return [(job_id, 0) for job_id in dict.fromkeys(common([run.job_id for run in runs]))]
    return list(dict.fromkeys((run.job_id, run.version if run.must_be_newest else 0) for run in runs))
