"""The audit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import asyncpg

from mainspring.core.audit import AuditEntry, AuditFilter, KeptEntry, settle_entries
from mainspring.core.audit_seals import AuditSeal, make_seal
from mainspring.ports.store.nodes import Epochs
from mainspring.stores._sql.audit import encode_entries, make_kept, make_stored_seal
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.nodes import holds_shard_0

_LAST_ID = 2**63 - 1


class PostgresAuditStore:
    """`AuditStore` on PostgreSQL."""

    _connections: Connections

    async def list_audit(
        self, wanted: AuditFilter, *, before: int | None = None, limit: int = 100
    ) -> list[KeptEntry]:
        name = "list_audit" if wanted.tenant is None else "list_audit_of_tenant"
        if wanted.is_of_subject:
            name = "list_audit_of_subject"
        rows = await self._connections.fetch(
            Role.BROWSE,
            name,
            is_repeatable=True,
            tenant=wanted.tenant,
            subject_kind=wanted.subject_kind,
            subject_id=wanted.subject_id,
            subject_name=wanted.subject_name,
            actor=wanted.actor,
            action=wanted.action,
            since=wanted.since,
            until=wanted.until,
            under=_LAST_ID if before is None else before,
            limit=limit,
        )
        return [_kept_of(row) for row in rows]

    async def seal_audit(self, *, epochs: Epochs, now: datetime, limit: int) -> AuditSeal | None:
        async def work(transaction: Transaction) -> AuditSeal | None:
            if not await holds_shard_0(transaction, epochs):
                return None
            entries = [_kept_of(row) for row in await transaction.fetch("list_unsealed", limit=limit)]
            if not entries:
                return None
            last = await transaction.fetch("read_last_seal")
            seal = make_seal(_seal_of(last[0]) if last else None, entries, now=now)
            await transaction.execute(
                "add_seal",
                seal_id=seal.id,
                at=seal.at,
                count=seal.entries,
                content=seal.content,
                digest=seal.digest,
                previous=seal.previous,
            )
            await transaction.execute("set_seals", seal_id=seal.id, ids=[kept.id for kept in entries])
            return seal

        # Of two calls at once, the number of the seal refuses one; the next try finds nothing to seal.
        return await self._connections.transact(
            Role.UPKEEP, work, is_repeatable=True, retry_on=(asyncpg.UniqueViolationError,)
        )

    async def list_seals(self, *, after: int, limit: int) -> list[AuditSeal]:
        rows = await self._connections.fetch(
            Role.BROWSE, "list_seals", is_repeatable=True, after=after, limit=limit
        )
        return [_seal_of(row) for row in rows]

    async def list_sealed(self, seal_id: int) -> list[KeptEntry]:
        rows = await self._connections.fetch(Role.BROWSE, "list_sealed", is_repeatable=True, seal_id=seal_id)
        return [_kept_of(row) for row in rows]

    async def find_stray_entry(self, *, since: datetime) -> KeptEntry | None:
        rows = await self._connections.fetch(Role.BROWSE, "find_stray_entry", is_repeatable=True, since=since)
        return _kept_of(rows[0]) if rows else None

    async def read_audit_horizon(self) -> datetime:
        [row] = await self._connections.fetch(Role.READ, "read_audit_horizon", is_repeatable=True)
        kept_from: datetime = row["kept_from"]
        return kept_from


def _kept_of(row: asyncpg.Record) -> KeptEntry:
    return make_kept(dict(row), row["at"])


def _seal_of(row: asyncpg.Record) -> AuditSeal:
    return make_stored_seal(dict(row), row["at"])


async def write_audit(transaction: Transaction, audit: Sequence[AuditEntry], changed: Sequence[bool]) -> None:
    """Write, within a transaction, the entries about what has changed in it."""
    kept = settle_entries(audit, changed)
    if kept:
        await add_entries(transaction, kept)


async def add_entries(transaction: Transaction, entries: Sequence[AuditEntry]) -> None:
    """Write entries within a transaction."""
    await transaction.execute("insert_audit", entries=encode_entries(entries, lambda at: at))


async def prune_audit(transaction: Transaction, before: datetime, limit: int) -> int:
    """Remove, within a transaction, entries from before an instant. Return how many went, by statistics for months."""
    await transaction.execute("raise_audit_horizon", before=before)
    [row] = await transaction.fetch("read_audit_horizon")
    before = min(before, row["kept_from"])  # the horizon stays a day behind the database's clock
    [dropped] = await transaction.fetch("drop_audit", before=before)
    removed: int = dropped["removed"]
    await transaction.execute("prune_seals", before=before, limit=limit)
    return removed + await transaction.execute("prune_audit", before=before, limit=limit)
