"""Jobs that tell channels what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from mainspring.core.ids import JobId, RunId
from mainspring.core.model import JobSpec
from mainspring.core.notify import LateRun, NotifyingJob, UnnoticedFailure
from mainspring.stores._sql.alerts import decode_notify, encode
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction


class PostgresNotifyStore:
    """`NotifyStore` on PostgreSQL."""

    _connections: Connections

    async def list_notifying_jobs(self) -> list[NotifyingJob]:
        rows = await self._connections.fetch(Role.WATCH, "list_notifying_jobs", is_repeatable=True)
        return [
            NotifyingJob(
                id=row["id"], tenant=row["tenant"], name=row["name"], rule=decode_notify(row["notify"])
            )
            for row in rows
        ]

    async def list_unnoticed(self, *, limit: int) -> list[UnnoticedFailure]:
        rows = await self._connections.fetch(Role.WATCH, "list_unnoticed", is_repeatable=True, limit=limit)
        return [UnnoticedFailure(run_id=row["id"], job_id=row["job_id"], error=row["error"]) for row in rows]

    async def find_failing(self, wanted: Sequence[tuple[JobId, int]]) -> list[UnnoticedFailure | None]:
        if not wanted:
            return []

        async def work(transaction: Transaction) -> list[UnnoticedFailure | None]:
            return [await _find_failing(transaction, job_id, failures) for job_id, failures in wanted]

        return await self._connections.transact(Role.WATCH, work, is_repeatable=True)

    async def find_late(self, wanted: Sequence[tuple[JobId, datetime]]) -> list[LateRun | None]:
        if not wanted:
            return []
        rows = await self._connections.fetch(
            Role.WATCH,
            "find_late",
            is_repeatable=True,
            job_ids=[job_id for job_id, _ in wanted],
            befores=[before for _, before in wanted],
        )
        late = {row["job_id"]: LateRun(run_id=row["run_id"], due_at=row["due_at"]) for row in rows}
        return [late.get(job_id) for job_id, _ in wanted]


async def _find_failing(transaction: Transaction, job_id: JobId, failures: int) -> UnnoticedFailure | None:
    failed = await transaction.fetch("list_failed", job_id=job_id, limit=failures)
    if len(failed) < failures:
        return None
    if await transaction.fetch("find_success", job_id=job_id, run_id=failed[-1]["id"]):
        return None
    errors = await transaction.fetch("read_error", run_id=failed[0]["id"])
    error = errors[0]["error"] if errors else None
    return UnnoticedFailure(run_id=RunId(failed[0]["id"]), job_id=job_id, error=error)


async def keep_notify(transaction: Transaction, specs: Mapping[JobId, JobSpec], *, are_new: bool) -> None:
    """Note, within a transaction, whom jobs tell what becomes of them, or that they tell nobody."""
    kept = {job_id: encode(spec.notify) for job_id, spec in sorted(specs.items()) if spec.notify is not None}
    if kept:
        await transaction.execute("keep_notify", job_ids=list(kept), rules=list(kept.values()))
    if not are_new and (others := sorted(specs.keys() - kept.keys())):
        await transaction.execute("drop_notify", job_ids=others)
