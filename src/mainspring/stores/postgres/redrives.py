"""Redrives and their steps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from asyncpg import Record

from mainspring.core.audit import AuditEntry
from mainspring.core.dead_letters import DeadFilter
from mainspring.core.ids import RedriveId, RunId
from mainspring.core.redrives import DeadVersion, Redrive, RedriveChange, RedriveState
from mainspring.ports.store.nodes import Epochs
from mainspring.ports.store.redrives import DeadWindow, NewRedrive, RedriveStep
from mainspring.stores._sql.dead_filters import decode_dead_filter, encode_dead_filter
from mainspring.stores.postgres.audit import write_audit
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.dead import values_of
from mainspring.stores.postgres.nodes import holds_shard_0

_LAST = UUID(int=2**128 - 1)


class PostgresRedriveStore:
    """`RedriveStore` on PostgreSQL."""

    _connections: Connections

    async def count_dead_versions(self, tenant: str, wanted: DeadFilter, *, limit: int) -> list[DeadVersion]:
        rows = await self._connections.fetch(
            Role.BROWSE, "count_dead_versions", is_repeatable=True, **values_of(tenant, wanted), limit=limit
        )
        return [
            DeadVersion(job_id=row["job_id"], version=row["version"], count=row["letters"]) for row in rows
        ]

    async def add_redrive(self, new: NewRedrive, *, now: datetime, audit: Sequence[AuditEntry] = ()) -> None:
        async def work(transaction: Transaction) -> None:
            await transaction.execute(
                "add_redrive",
                redrive_id=new.id,
                tenant=new.tenant,
                filter=encode_dead_filter(new.wanted),
                is_newest=new.is_newest,
                rate=new.rate,
                total=new.total,
                now=now,
            )
            await write_audit(transaction, audit, [True])

        await self._connections.transact(Role.EDIT, work)

    async def get_redrive(self, redrive_id: RedriveId) -> Redrive | None:
        rows = await self._connections.fetch(
            Role.READ, "get_redrive", is_repeatable=True, redrive_id=redrive_id
        )
        return _redrive_of(rows[0]) if rows else None

    async def list_redrives(
        self, tenant: str, *, before: RedriveId | None = None, limit: int = 100
    ) -> list[Redrive]:
        rows = await self._connections.fetch(
            Role.BROWSE,
            "list_redrives",
            is_repeatable=True,
            tenant=tenant,
            before=_LAST if before is None else before,
            limit=limit,
        )
        return [_redrive_of(row) for row in rows]

    async def change_redrive(
        self, redrive_id: RedriveId, change: RedriveChange, *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        async def work(transaction: Transaction) -> bool:
            changed = await transaction.fetch(
                "change_redrive",
                redrive_id=redrive_id,
                state=change.leads_to,
                states=sorted(change.starts_from),
                now=now,
            )
            await write_audit(transaction, audit, [row["before"] != change.leads_to for row in changed])
            return bool(changed)

        return await self._connections.transact(Role.EDIT, work)

    async def list_running_redrives(self, *, limit: int) -> list[Redrive]:
        rows = await self._connections.fetch(
            Role.WATCH, "list_running_redrives", is_repeatable=True, limit=limit
        )
        return [_redrive_of(row) for row in rows]

    async def find_dead_to_redrive(
        self, tenant: str, wanted: DeadFilter, *, after: RunId, limit: int
    ) -> DeadWindow:
        [row] = await self._connections.fetch(
            Role.BROWSE,
            "find_dead_to_redrive",
            is_repeatable=True,
            **values_of(tenant, wanted),
            after=after,
            limit=limit,
        )
        return DeadWindow(row["run_ids"], None if row["last"] is None else RunId(row["last"]))

    async def advance_redrives(self, steps: Sequence[RedriveStep], *, epochs: Epochs, now: datetime) -> bool:
        if not steps:
            return True

        async def work(transaction: Transaction) -> bool:
            if not await holds_shard_0(transaction, epochs):
                return False
            for step in sorted(steps, key=lambda step: step.redrive.id):
                redrive = step.redrive
                await transaction.execute(
                    "advance_redrive",
                    redrive_id=redrive.id,
                    cursor_from=redrive.cursor,
                    cursor_to=step.cursor_to,
                    is_done=step.is_done,
                    since_made=redrive.created_at,
                    now=now,
                    **values_of(redrive.tenant, redrive.wanted),
                )
            return True

        return await self._connections.transact(Role.UPKEEP, work, is_repeatable=True)


def _redrive_of(row: Record) -> Redrive:
    return Redrive(
        id=RedriveId(row["id"]),
        tenant=row["tenant"],
        wanted=decode_dead_filter(row["filter"]),
        is_newest=row["is_newest"],
        rate=row["rate"],
        state=RedriveState(row["state"]),
        cursor=RunId(row["cursor"]),
        total=row["total"],
        done=row["done"],
        created_at=row["created_at"],
        closed_at=row["closed_at"],
    )
