"""Which jobs come from the code of which owner."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import asyncpg

from mainspring.core.audit import AuditEntry
from mainspring.core.ids import JobId
from mainspring.core.model import Job
from mainspring.core.owners import OwnedJob, OwnerChange, judge_owner
from mainspring.stores.postgres.audit import write_audit
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.rows import job_of

_BEFORE_ALL = UUID(int=0)


class PostgresOwnerStore:
    """`OwnerStore` on PostgreSQL."""

    _connections: Connections

    async def own_jobs(
        self,
        tenant: str,
        owner: str,
        names: Sequence[str],
        *,
        now: datetime,
        audit: Sequence[AuditEntry] = (),
    ) -> OwnerChange:
        async def work(transaction: Transaction) -> OwnerChange:
            await transaction.fetch("lock_owners", tenant=tenant, owners=[owner])
            change = await own(transaction, tenant, owner, names, now)
            await write_audit(transaction, audit, [change.is_change])
            return change

        return await self._connections.transact(Role.EDIT, work, is_repeatable=True)

    async def list_owned(
        self, tenant: str, owner: str, *, after: JobId | None = None, limit: int = 100
    ) -> list[Job]:
        rows = await self._connections.fetch(
            Role.BROWSE,
            "list_owned",
            is_repeatable=True,
            tenant=tenant,
            owner=owner,
            after=after or _BEFORE_ALL,
            limit=limit,
        )
        return [job_of(row) for row in rows]

    async def list_undefined(
        self, tenant: str, *, owner: str | None = None, after: JobId | None = None, limit: int = 100
    ) -> list[Job]:
        rows = await self._connections.fetch(
            Role.BROWSE,
            "list_undefined",
            is_repeatable=True,
            tenant=tenant,
            owner=owner,
            after=after or _BEFORE_ALL,
            limit=limit,
        )
        return [job_of(row) for row in rows]

    async def page_jobs(self, *, after: tuple[str, JobId] | None = None, limit: int = 100) -> list[Job]:
        tenant, start = after or ("", _BEFORE_ALL)
        rows = await self._connections.fetch(
            Role.BROWSE, "page_jobs", is_repeatable=True, tenant=tenant, after=start, limit=limit
        )
        return [job_of(row) for row in rows]


async def own(
    transaction: Transaction, tenant: str, owner: str, names: Sequence[str], now: datetime
) -> OwnerChange:
    """Note, within a transaction, which jobs an owner defines. The owner is locked by `lock_owners`."""
    rows = await transaction.fetch("lock_owned", tenant=tenant, owners=[owner], names=list(names), job_ids=[])
    change = judge_owner(owner, names, owned_jobs(rows))
    if change.defined:
        await transaction.execute("define_jobs", owner=owner, job_ids=change.defined)
        await transaction.execute("raise_clocks", job_ids=change.defined)
    if change.undefined:
        await transaction.execute("undefine_jobs", job_ids=change.undefined, now=now)
    return change


def owned_jobs(rows: Sequence[asyncpg.Record]) -> list[OwnedJob]:
    """Return the jobs that `lock_owned` has found."""
    return [
        OwnedJob(JobId(row["id"]), row["name"], row["owner"], row["undefined_since"] is None) for row in rows
    ]
