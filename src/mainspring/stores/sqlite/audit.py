"""The audit, on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import apsw

from mainspring.core.audit import AuditEntry, AuditFilter, KeptEntry, settle_entries
from mainspring.stores._sql.audit import encode_entries, make_kept
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.rows import to_instant, to_micros, to_optional_micros
from mainspring.stores.sqlite.statements import execute, fetch_rows

_LAST_ID = 2**63 - 1


class SqliteAuditStore:
    """Implements `AuditStore`."""

    _browser: Database

    async def list_audit(
        self, wanted: AuditFilter, *, before: int | None = None, limit: int = 100
    ) -> list[KeptEntry]:
        """See `AuditStore`."""
        values: dict[str, object] = {
            "tenant": wanted.tenant,
            "subject_kind": wanted.subject_kind,
            "subject_id": wanted.subject_id,
            "subject_name": wanted.subject_name,
            "actor": wanted.actor,
            "action": wanted.action,
            "since": to_optional_micros(wanted.since),
            "until": to_optional_micros(wanted.until),
            "under": _LAST_ID if before is None else before,
            "limit": limit,
        }
        name = "list_audit" if wanted.tenant is None else "list_audit_of_tenant"
        if wanted.is_of_subject:
            name = "list_audit_of_subject"
        rows = await self._browser.call(lambda db: fetch_rows(db, name, values))
        return [make_kept(row._asdict(), to_instant(row.at)) for row in rows]


def write_audit(db: apsw.Connection, audit: Sequence[AuditEntry], changed: Sequence[bool]) -> None:
    """Write, within a transaction, the entries about what has changed in it."""
    kept = settle_entries(audit, changed)
    if kept:
        add_entries(db, kept)


def add_entries(db: apsw.Connection, entries: Sequence[AuditEntry]) -> None:
    """Write entries within a transaction."""
    execute(db, "insert_audit", {"entries": encode_entries(entries, to_micros)})


def prune_audit(db: apsw.Connection, before: datetime, limit: int) -> int:
    """Remove, within a transaction, entries from before an instant. Return how many went."""
    execute(db, "raise_audit_horizon", {"before": to_micros(before)})
    execute(db, "prune_audit", {"before": to_micros(before), "limit": limit})
    return db.changes()
