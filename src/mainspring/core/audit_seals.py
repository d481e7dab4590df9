"""Seals of the audit: a chain of digests over its entries, so that what is changed behind our back is noticed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256

from mainspring.core.audit import KeptEntry
from mainspring.core.values import value


@value(kw_only=True)
class AuditSeal:
    """A seal. It covers the entries that had none when it was set, in order of their ids.

    Attributes:
        id: 1 for the first one, then 2, and so on.
        entries: how many it covers.
        digest: what `digest_of` makes of them.
        previous: the digest of the seal before; None for the first one.
    """

    id: int
    at: datetime
    entries: int
    digest: bytes
    previous: bytes | None


@value(kw_only=True)
class BrokenSeal:
    """A seal that does not fit what it covers.

    Attributes:
        entry_id: the first entry that has it; None if there is none left.
        reason: what does not fit.
    """

    seal: AuditSeal
    entry_id: int | None
    reason: str


@value(kw_only=True)
class AuditCheck:
    """What a check of seals has found.

    Attributes:
        seals, entries: how many fit.
        last: the last seal that fits; None if there is none.
        broken: the first one that does not.
        is_complete: there are no more to check.
    """

    seals: int
    entries: int
    last: AuditSeal | None
    broken: BrokenSeal | None
    is_complete: bool


def make_seal(last: AuditSeal | None, entries: Sequence[KeptEntry], *, now: datetime) -> AuditSeal:
    """Return the seal that follows another one, over entries in order of their ids."""
    seal_id, previous = (1, None) if last is None else (last.id + 1, last.digest)
    return AuditSeal(
        id=seal_id,
        at=now,
        entries=len(entries),
        digest=digest_of(seal_id, previous, entries),
        previous=previous,
    )


def digest_of(seal_id: int, previous: bytes | None, entries: Sequence[KeptEntry]) -> bytes:
    """Return the SHA-256 of a seal's number, the digest before it, and all that its entries say."""
    digest = sha256(b"%d|" % seal_id)
    digest.update(previous or b"")
    for kept in entries:
        digest.update(_text_of(kept))
    return digest.digest()


def _text_of(kept: KeptEntry) -> bytes:
    entry = kept.entry
    facts = [
        kept.id,
        entry.at.isoformat(),
        entry.tenant,
        entry.actor,
        entry.actor_kind.value,
        entry.token,
        entry.address,
        entry.request_id,
        entry.action,
        entry.subject_kind,
        entry.subject_id,
        entry.subject_name,
        entry.outcome,
        entry.before,
        entry.after,
    ]
    return json.dumps(facts, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def find_fault(
    seal: AuditSeal, last: AuditSeal | None, entries: Sequence[KeptEntry] | None
) -> BrokenSeal | None:
    """Say whether a seal follows the one before, and covers what its entries say; None if all is well.

    Args:
        last: the seal before it; None if it is not kept any more.
        entries: those that have this seal, in order of their ids; None if they need not be kept any more.
    """
    first = entries[0].id if entries else None
    if last is not None and (seal.id != last.id + 1 or seal.previous != last.digest):
        reason = f"it does not follow seal {last.id}: one was taken out or changed"
        return BrokenSeal(seal=seal, entry_id=first, reason=reason)
    if entries is None:
        return None
    if len(entries) != seal.entries:
        reason = f"it covers {seal.entries:,} entries, and {len(entries):,} have it"
        return BrokenSeal(seal=seal, entry_id=first, reason=reason)
    if digest_of(seal.id, seal.previous, entries) != seal.digest:
        return BrokenSeal(seal=seal, entry_id=first, reason="an entry that it covers was changed")
    return None
