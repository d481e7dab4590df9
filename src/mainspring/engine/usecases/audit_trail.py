"""The use case of reading who changed what."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from mainspring.core.audit import AuditFilter, KeptEntry
from mainspring.core.audit_seals import (
    AuditCheck,
    BrokenSeal,
    ExpectedSeal,
    check_from,
    compare_expected,
    find_fault,
    find_stray,
)
from mainspring.errors import InvalidInput, TookTooLong
from mainspring.ports.store import Store

SEALS = 1000
ENTRIES = 5000
"""Seals that one check looks at, at most, and entries after which it stops."""
KEEP = timedelta(days=400)


class AuditTrail:
    """Entries of the audit, of all tenants.

    Args:
        keep: how long entries are kept.
    """

    def __init__(self, store: Store, *, keep: timedelta = KEEP) -> None:
        self._store = store
        self._keep = keep

    async def list_page(
        self, wanted: AuditFilter, *, before: int | None = None, limit: int = 100
    ) -> list[KeptEntry]:
        """Return a page of entries, the newest first.

        Raises:
            InvalidInput: the store is too slow for this list. The error says what to add.
        """
        try:
            return await self._store.list_audit(wanted, before=before, limit=limit)
        except TookTooLong as error:
            field = "since" if wanted.since is None else "tenant" if wanted.tenant is None else "until"
            raise InvalidInput(field, "this takes too long; add it, or narrow what is asked for") from error

    async def verify(
        self, *, now: datetime, after: int = 0, expected: ExpectedSeal | None = None
    ) -> AuditCheck:
        """Compare the next seals after one with each other, and with the entries that they cover.

        Entries that need not be kept any more may be gone. What is sealed with a seal that there is not is found when
        there are no more seals to check.

        Args:
            expected: a seal that has to be there, wherever it is in the chain. Without one, it is not noticed if the
                newest seals were taken out with their entries.
        """
        horizon = await self._store.read_audit_horizon()
        checked = await self._follow(after, check_from(horizon, now=now, keep=self._keep))
        broken = checked.broken
        if broken is None and expected is not None:
            broken = await self._compare(expected)
        if broken is None and checked.is_complete:
            broken = find_stray(await self._store.find_stray_entry(since=checked.checked_from))
        return checked if broken is None else replace(checked, broken=broken, is_complete=True)

    async def _follow(self, after: int, checked_from: datetime) -> AuditCheck:
        seals = await self._store.list_seals(after=max(after - 1, 0), limit=SEALS)
        last = seals.pop(0) if seals and seals[0].id == after else None
        checked = entries = 0
        broken = None
        for seal in seals:
            kept = await self._store.list_sealed(seal.id)
            broken = find_fault(seal, last, kept, checked_from=checked_from)
            if broken is not None:
                break
            checked, entries, last = checked + 1, entries + len(kept), seal
            if entries >= ENTRIES:
                break
        return AuditCheck(
            seals=checked,
            entries=entries,
            last=last,
            broken=broken,
            is_complete=broken is not None or (checked == len(seals) and len(seals) < SEALS - 1),
            checked_from=checked_from,
        )

    async def _compare(self, expected: ExpectedSeal) -> BrokenSeal | None:
        found = await self._store.list_seals(after=expected.id - 1, limit=1)
        is_there = bool(found) and found[0].id == expected.id
        return compare_expected(expected, found[0] if is_there else None)
