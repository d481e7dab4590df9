"""The use case of reading who changed what."""

from __future__ import annotations

from datetime import timedelta

from mainspring.core.audit import AuditFilter, KeptEntry
from mainspring.core.audit_seals import AuditCheck, find_fault
from mainspring.errors import InvalidInput, TookTooLong
from mainspring.ports.store import Store

SEALS = 1000
ENTRIES = 5000
"""Seals that one check looks at, at most, and entries after which it stops."""
_SLACK = timedelta(days=1)
"""Entries are written some time before they are sealed, and those of a month go together."""


class AuditTrail:
    """Entries of the audit, of all tenants."""

    def __init__(self, store: Store) -> None:
        self._store = store

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

    async def verify(self, *, after: int = 0) -> AuditCheck:
        """Compare the next seals after one with each other, and with the entries that they cover.

        Of seals whose entries need not be kept any more, only the chain is checked.
        """
        checked_from = await self._store.read_audit_horizon() + _SLACK
        seals = await self._store.list_seals(after=max(after - 1, 0), limit=SEALS)
        last = seals.pop(0) if seals and seals[0].id == after else None
        checked = entries = 0
        for seal in seals:
            kept = await self._store.list_sealed(seal.id) if seal.at >= checked_from else None
            broken = find_fault(seal, last, kept)
            if broken is not None:
                return AuditCheck(seals=checked, entries=entries, last=last, broken=broken, is_complete=True)
            checked, entries, last = checked + 1, entries + len(kept or ()), seal
            if entries >= ENTRIES:
                break
        is_complete = checked == len(seals) and len(seals) < SEALS - 1
        return AuditCheck(seals=checked, entries=entries, last=last, broken=None, is_complete=is_complete)
