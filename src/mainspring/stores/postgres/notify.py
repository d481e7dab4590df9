"""Jobs that tell channels what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from mainspring.core.ids import JobId, RunId
from mainspring.core.model import JobSpec
from mainspring.core.notify import LateRun, NotifyingJob, UnnoticedFailure
from mainspring.ports.store.notify import LOOKED_AT
from mainspring.stores._sql.alerts import decode_notify, encode
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction


class PostgresNotifyStore:
    """`NotifyStore` on PostgreSQL."""

    _connections: Connections

    async def list_notifying_jobs(self) -> list[NotifyingJob]:
        rows = await self._connections.fetch(Role.UPKEEP, "list_notifying_jobs", is_repeatable=True)
        return [
            NotifyingJob(
                id=row["id"], tenant=row["tenant"], name=row["name"], rule=decode_notify(row["notify"])
            )
            for row in rows
        ]

    async def list_unnoticed(self, *, limit: int) -> list[UnnoticedFailure]:
        rows = await self._connections.fetch(Role.BROWSE, "list_unnoticed", is_repeatable=True, limit=limit)
        return [UnnoticedFailure(run_id=row["id"], job_id=row["job_id"], error=row["error"]) for row in rows]

    async def find_failing(
        self, wanted: Sequence[tuple[JobId, int, datetime]]
    ) -> list[UnnoticedFailure | None]:
        if not wanted:
            return []
        rows = await self._connections.fetch(
            Role.BROWSE,
            "find_failing",
            is_repeatable=True,
            job_ids=[job_id for job_id, _, _ in wanted],
            failures=[failures for _, failures, _ in wanted],
            sinces=[since for _, _, since in wanted],
        )
        found = {row["job_id"]: (RunId(row["id"]), row["error"]) for row in rows}
        return [
            UnnoticedFailure(run_id=found[job_id][0], job_id=job_id, error=found[job_id][1])
            if job_id in found
            else None
            for job_id, _, _ in wanted
        ]

    async def find_late(self, wanted: Sequence[tuple[JobId, datetime]]) -> list[LateRun | None]:
        if not wanted:
            return []
        rows = await self._connections.fetch(
            Role.BROWSE,
            "find_late",
            is_repeatable=True,
            job_ids=[job_id for job_id, _ in wanted],
            befores=[before for _, before in wanted],
            limit=LOOKED_AT,
        )
        late = {row["job_id"]: LateRun(run_id=row["run_id"], due_at=row["due_at"]) for row in rows}
        return [late.get(job_id) for job_id, _ in wanted]


async def keep_notify(transaction: Transaction, specs: Mapping[JobId, JobSpec], *, are_new: bool) -> None:
    """Note, within a transaction, whom jobs tell what becomes of them, or that they tell nobody."""
    kept = {job_id: encode(spec.notify) for job_id, spec in sorted(specs.items()) if spec.notify is not None}
    if kept:
        await transaction.execute("keep_notify", job_ids=list(kept), rules=list(kept.values()))
    if not are_new and (others := sorted(specs.keys() - kept.keys())):
        await drop_notify(transaction, others)


async def drop_notify(transaction: Transaction, job_ids: Sequence[JobId]) -> None:
    """Note, within a transaction, that jobs tell nobody any more, not even of what has failed."""
    dropped = await transaction.fetch("drop_notify", job_ids=job_ids)
    if dropped:
        await transaction.execute("forget_unnoticed", job_ids=[row["job_id"] for row in dropped])
