"""The audit in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from mainspring.core.audit import AuditEntry, AuditFilter, KeptEntry, settle_entries
from mainspring.stores.memory.tables import Tables


class MemoryAuditStore:
    """`AuditStore` in memory."""

    _tables: Tables

    async def list_audit(
        self, wanted: AuditFilter, *, before: int | None = None, limit: int = 100
    ) -> list[KeptEntry]:
        newest = reversed(self._tables.audit.entries)
        found = (
            kept for kept in newest if (before is None or kept.id < before) and _is_wanted(kept.entry, wanted)
        )
        return list(islice(found, limit))


def _is_wanted(entry: AuditEntry, wanted: AuditFilter) -> bool:
    asked = (
        (wanted.tenant, entry.tenant),
        (wanted.subject_kind, entry.subject_kind),
        (wanted.actor, entry.actor),
        (wanted.action, entry.action),
    )
    return (
        all(value is None or value == found for value, found in asked)
        and (not wanted.is_of_subject or _is_about(entry, wanted.subject_id, wanted.subject_name))
        and (wanted.since is None or entry.at >= wanted.since)
        and (wanted.until is None or entry.at < wanted.until)
    )


def _is_about(entry: AuditEntry, subject_id: str | None, name: str | None) -> bool:
    if subject_id is not None:
        many = () if entry.subject_id else (entry.after or {}).get("ids", ())
        if entry.subject_id == subject_id or subject_id in many:
            return True
    return name is not None and entry.subject_name == name


def write_audit(tables: Tables, audit: Sequence[AuditEntry], changed: Sequence[bool]) -> None:
    """Write the entries about what has changed."""
    add_entries(tables, settle_entries(audit, changed))


def add_entries(tables: Tables, entries: Sequence[AuditEntry]) -> None:
    """Write entries."""
    audit = tables.audit
    audit.entries += [KeptEntry(next(audit.sequence), replace(entry, items=())) for entry in entries]


def prune_audit(tables: Tables, before: datetime, limit: int) -> int:
    """Remove entries from before an instant, at most so many. Return how many went."""
    entries = tables.audit.entries
    gone = {kept.id for kept in islice((kept for kept in entries if kept.entry.at < before), limit)}
    tables.audit.entries = [kept for kept in entries if kept.id not in gone]
    return len(gone)
