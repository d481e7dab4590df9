"""The audit in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice, pairwise

from mainspring.core.audit import AuditEntry, AuditFilter, KeptEntry, settle_entries
from mainspring.core.audit_seals import AuditSeal, make_seal
from mainspring.ports.store.nodes import Epochs
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

    async def seal_audit(self, *, epochs: Epochs, now: datetime, limit: int) -> AuditSeal | None:
        audit = self._tables.audit
        if epochs.get(0) != self._tables.shards[0].epoch:
            return None
        unsealed = [kept for kept in audit.entries if kept.seal is None][:limit]
        if not unsealed:
            return None
        seal = make_seal(audit.seals[-1] if audit.seals else None, unsealed, now=now)
        audit.seals.append(seal)
        ids = {kept.id for kept in unsealed}
        audit.entries = [
            KeptEntry(kept.id, kept.entry, seal.id) if kept.id in ids else kept for kept in audit.entries
        ]
        return seal

    async def list_seals(self, *, after: int, limit: int) -> list[AuditSeal]:
        return [seal for seal in self._tables.audit.seals if seal.id > after][:limit]

    async def list_sealed(self, seal_id: int) -> list[KeptEntry]:
        return [kept for kept in self._tables.audit.entries if kept.seal == seal_id]

    async def find_stray_entry(self, *, since: datetime) -> KeptEntry | None:
        seals = self._tables.audit.seals
        first, last = (seals[0].id, seals[-1].id) if seals else (1, 0)
        stray = (
            kept
            for kept in self._tables.audit.entries
            if kept.seal is not None and (kept.seal > last or (kept.seal < first and kept.entry.at >= since))
        )
        return next(stray, None)

    async def read_audit_horizon(self) -> datetime:
        return self._tables.audit.kept_from


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
    tables.audit.kept_from = max(tables.audit.kept_from, before)
    seals = tables.audit.seals
    old = [seal.id for seal, following in pairwise(seals) if following.at < before][:limit]
    tables.audit.seals = [seal for seal in seals if seal.id not in old]
    entries = tables.audit.entries
    gone = {kept.id for kept in islice((kept for kept in entries if kept.entry.at < before), limit)}
    tables.audit.entries = [kept for kept in entries if kept.id not in gone]
    return len(gone)
