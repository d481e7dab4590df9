"""Entries of the audit as one JSON parameter, the same in both dialects but for instants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from mainspring.core.actors import ActorKind
from mainspring.core.audit import AuditEntry, KeptEntry
from mainspring.core.audit_seals import AuditSeal


def encode_entries(entries: Sequence[AuditEntry], write_instant: Callable[[datetime], int | datetime]) -> str:
    """Return entries as a JSON list of objects.

    Args:
        write_instant: makes of an instant what the dialect reads from JSON.
    """
    rows = [
        {
            "at": write_instant(entry.at),
            "tenant": entry.tenant,
            "actor": entry.actor,
            "actor_kind": entry.actor_kind,
            "token": entry.token,
            "address": entry.address,
            "request_id": entry.request_id,
            "action": entry.action,
            "subject_kind": entry.subject_kind,
            "subject_id": entry.subject_id,
            "subject_name": entry.subject_name,
            "outcome": entry.outcome,
            "before": entry.before,
            "after": entry.after,
        }
        for entry in entries
    ]
    return msgspec.json.encode(rows).decode()


def make_kept(row: Mapping[str, Any], at: datetime) -> KeptEntry:
    """Make an entry of a row, whose JSON is text."""
    return KeptEntry(
        row["id"],
        AuditEntry(
            at=at,
            tenant=row["tenant"],
            actor=row["actor"],
            actor_kind=ActorKind(row["actor_kind"]),
            token=row["token"],
            address=row["address"],
            request_id=row["request_id"],
            action=row["action"],
            subject_kind=row["subject_kind"],
            subject_id=row["subject_id"],
            subject_name=row["subject_name"],
            outcome=row["outcome"],
            before=_read(row["before"]),
            after=_read(row["after"]),
        ),
        row["seal"],
    )


def make_stored_seal(row: Mapping[str, Any], at: datetime) -> AuditSeal:
    """Make a seal of a row."""
    previous = row["previous"]
    return AuditSeal(
        id=row["id"],
        at=at,
        entries=row["entries"],
        content=bytes(row["content"]),
        digest=bytes(row["digest"]),
        previous=None if previous is None else bytes(previous),
    )


def _read(text: str | None) -> dict[str, Any] | None:
    found: dict[str, Any] | None = None if text is None else msgspec.json.decode(text)
    return found
