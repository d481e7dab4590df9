"""The audit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.audit import AuditEntry, AuditFilter, KeptEntry, settle_entries
from mainspring.stores._sql.audit import encode_entries, make_kept
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction

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
        return [make_kept(dict(row), row["at"]) for row in rows]


async def write_audit(transaction: Transaction, audit: Sequence[AuditEntry], changed: Sequence[bool]) -> None:
    """Write, within a transaction, the entries about what has changed in it."""
    kept = settle_entries(audit, changed)
    if kept:
        await add_entries(transaction, kept)


async def add_entries(transaction: Transaction, entries: Sequence[AuditEntry]) -> None:
    """Write entries within a transaction."""
    await transaction.execute("insert_audit", entries=encode_entries(entries, datetime.isoformat))


async def prune_audit(transaction: Transaction, before: datetime, limit: int) -> int:
    """Remove, within a transaction, entries from before an instant. Return how many went, by statistics for months."""
    await transaction.execute("raise_audit_horizon", before=before)
    [dropped] = await transaction.fetch("drop_audit", before=before)
    removed: int = dropped["removed"]
    return removed + await transaction.execute("prune_audit", before=before, limit=limit)
