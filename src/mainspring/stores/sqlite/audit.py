"""The audit, on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import apsw

from mainspring.core.audit import AuditEntry, AuditFilter, KeptEntry, settle_entries
from mainspring.core.audit_seals import AuditSeal, make_seal
from mainspring.ports.store.nodes import Epochs
from mainspring.stores._sql.audit import encode_entries, make_kept, make_stored_seal
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.nodes import owns_shard_0
from mainspring.stores.sqlite.rows import NamedRow, to_instant, to_json, to_micros, to_optional_micros
from mainspring.stores.sqlite.statements import execute, fetch_row, fetch_rows, fetch_value

_LAST_ID = 2**63 - 1


class SqliteAuditStore:
    """Implements `AuditStore`."""

    _browser: Database
    _reader: Database
    _writer: Database

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
        return [_kept_of(row) for row in rows]

    async def seal_audit(self, *, epochs: Epochs, now: datetime, limit: int) -> AuditSeal | None:
        """See `AuditStore`."""

        def work(db: apsw.Connection) -> AuditSeal | None:
            if not owns_shard_0(db, epochs):
                return None
            entries = [_kept_of(row) for row in fetch_rows(db, "list_unsealed", {"limit": limit})]
            if not entries:
                return None
            last = fetch_row(db, "read_last_seal")
            seal = make_seal(None if last is None else _seal_of(last), entries, now=now)
            values = {
                "seal_id": seal.id,
                "at": to_micros(seal.at),
                "count": seal.entries,
                "content": seal.content,
                "digest": seal.digest,
                "previous": seal.previous,
            }
            execute(db, "add_seal", values)
            execute(db, "set_seals", {"seal_id": seal.id, "ids": to_json([kept.id for kept in entries])})
            return seal

        return await self._writer.call(work)

    async def list_seals(self, *, after: int, limit: int) -> list[AuditSeal]:
        """See `AuditStore`."""
        values = {"after": after, "limit": limit}
        rows = await self._browser.call(lambda db: fetch_rows(db, "list_seals", values))
        return [_seal_of(row) for row in rows]

    async def list_sealed(self, seal_id: int) -> list[KeptEntry]:
        """See `AuditStore`."""
        rows = await self._browser.call(lambda db: fetch_rows(db, "list_sealed", {"seal_id": seal_id}))
        return [_kept_of(row) for row in rows]

    async def find_stray_entry(self, *, since: datetime) -> KeptEntry | None:
        """See `AuditStore`."""
        values = {"since": to_micros(since)}
        row = await self._browser.call(lambda db: fetch_row(db, "find_stray_entry", values))
        return None if row is None else _kept_of(row)

    async def read_audit_horizon(self) -> datetime:
        """See `AuditStore`."""
        return to_instant(await self._reader.call(lambda db: fetch_value(db, "read_audit_horizon")))


def _kept_of(row: NamedRow) -> KeptEntry:
    return make_kept(row._asdict(), to_instant(row.at))


def _seal_of(row: NamedRow) -> AuditSeal:
    return make_stored_seal(row._asdict(), to_instant(row.at))


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
    kept_from = fetch_value(db, "read_audit_horizon")  # it stays a day behind the clock of the machine
    values = {"before": min(to_micros(before), kept_from), "limit": limit}
    execute(db, "prune_seals", values)
    execute(db, "prune_audit", values)
    return db.changes()
