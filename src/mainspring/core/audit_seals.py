"""Seals of the audit: a chain of digests over its entries, so that what is changed behind our back is noticed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from mainspring.core.audit import KeptEntry
from mainspring.core.values import value

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SLACK = timedelta(days=1)
"""Entries are written some time before they are sealed, at most that long."""


@value(kw_only=True)
class AuditSeal:
    """A seal. It covers the entries that had none when it was set, in order of their ids.

    Attributes:
        id: 1 for the first one, then 2, and so on.
        at: when it was set; not before the seal before.
        entries: how many it covers.
        content: what `content_of` makes of them.
        digest: what `digest_of` makes of all the rest.
        previous: the digest of the seal before; None for the first one.
    """

    id: int
    at: datetime
    entries: int
    content: bytes
    digest: bytes
    previous: bytes | None


@value(kw_only=True)
class ExpectedSeal:
    """A seal as somebody knows it from elsewhere, such as a server's log."""

    id: int
    digest: bytes


@value(kw_only=True)
class BrokenSeal:
    """A seal that does not fit what it covers, or that is missing.

    Attributes:
        entry_id: the first entry that has it; None if there is none left.
        reason: what does not fit.
    """

    seal_id: int
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
        checked_from: what was sealed from this instant on has to be there; older entries may be gone.
    """

    seals: int
    entries: int
    last: AuditSeal | None
    broken: BrokenSeal | None
    is_complete: bool
    checked_from: datetime


def make_seal(last: AuditSeal | None, entries: Sequence[KeptEntry], *, now: datetime) -> AuditSeal:
    """Return the seal that follows another one, over entries in order of their ids.

    It is not set before the other one, even if the clock of the server that does so is behind.
    """
    seal_id, previous, at = (1, None, now) if last is None else (last.id + 1, last.digest, max(now, last.at))
    content = content_of(entries)
    return AuditSeal(
        id=seal_id,
        at=at,
        entries=len(entries),
        content=content,
        digest=digest_of(seal_id, at, len(entries), content, previous),
        previous=previous,
    )


def digest_of(seal_id: int, at: datetime, entries: int, content: bytes, previous: bytes | None) -> bytes:
    """Return the SHA-256 of what a seal says: all but its digest."""
    micros = (at - _EPOCH) // _MICROSECOND
    facts = [seal_id, micros, entries, content.hex(), None if previous is None else previous.hex()]
    return sha256(json.dumps(facts, separators=(",", ":")).encode()).digest()


def content_of(entries: Sequence[KeptEntry]) -> bytes:
    """Return the SHA-256 of all that entries say."""
    digest = sha256()
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


def check_from(horizon: datetime, *, now: datetime, keep: timedelta) -> datetime:
    """Return from which instant on seals must have all of their entries.

    The horizon alone does not say so: whoever may write rows may move it on, and delete what is before it.

    Args:
        horizon: rows from before it may have been deleted.
        keep: how long entries are kept.
    """
    return min(horizon, now - keep) + min(_SLACK, keep / 10)


def find_fault(
    seal: AuditSeal, last: AuditSeal | None, entries: Sequence[KeptEntry], *, checked_from: datetime
) -> BrokenSeal | None:
    """Say whether a seal follows the one before, and covers what its entries say; None if all is well.

    Args:
        last: the seal before it; None if it is the first one that is there.
        entries: those that have this seal, in order of their ids.
        checked_from: an older seal need not have all of its entries, and may follow one that is gone.
    """
    reason = _check_start(seal, checked_from) if last is None else _check_place(seal, last)
    reason = reason or _check_content(seal, entries, checked_from)
    if reason is None:
        return None
    return BrokenSeal(seal_id=seal.id, entry_id=entries[0].id if entries else None, reason=reason)


def _check_start(seal: AuditSeal, checked_from: datetime) -> str | None:
    is_first = seal.id == 1 and seal.previous is None
    if _is_changed(seal):
        return _CHANGED
    if is_first or (seal.id > 1 and seal.at < checked_from):
        return None
    return f"the audit begins with it, at {seal.at:%Y-%m-%d %H:%M}: what was before was taken out"


def _check_place(seal: AuditSeal, last: AuditSeal) -> str | None:
    if seal.id != last.id + 1 or seal.previous != last.digest:
        return f"it does not follow seal {last.id}: one was taken out or changed"
    if _is_changed(seal):
        return _CHANGED
    return f"it was set before seal {last.id}" if seal.at < last.at else None


_CHANGED = "its instant, its number of entries or its place in the chain was changed"


def _is_changed(seal: AuditSeal) -> bool:
    return digest_of(seal.id, seal.at, seal.entries, seal.content, seal.previous) != seal.digest


def _check_content(seal: AuditSeal, entries: Sequence[KeptEntry], checked_from: datetime) -> str | None:
    if len(entries) == seal.entries:
        return None if content_of(entries) == seal.content else "an entry that it covers was changed"
    if len(entries) > seal.entries or seal.at >= checked_from:
        return f"it covers {seal.entries:,} entries, and {len(entries):,} have it"
    if any(kept.entry.at > seal.at + _SLACK for kept in entries):
        return "an entry has it that was written later"
    return None


def find_stray(entry: KeptEntry | None) -> BrokenSeal | None:
    """Say what is wrong with an entry whose seal there is not; None if there is no such entry."""
    if entry is None or entry.seal is None:
        return None
    return BrokenSeal(seal_id=entry.seal, entry_id=entry.id, reason="there is no such seal")


def compare_expected(expected: ExpectedSeal, found: AuditSeal | None) -> BrokenSeal | None:
    """Say whether a seal is as it is known from elsewhere; None if it is.

    Args:
        found: the seal with that id; None if there is none.
    """
    if found is None:
        reason = "there is no such seal: it was taken out, or is older than what is kept"
    elif found.digest != expected.digest:
        reason = f"its digest is {found.digest.hex()}, and not the one expected: the chain was made again"
    else:
        return None
    return BrokenSeal(seal_id=expected.id, entry_id=None, reason=reason)
