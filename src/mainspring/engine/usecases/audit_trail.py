"""The use case of reading who changed what."""

from __future__ import annotations

from mainspring.core.audit import AuditFilter, KeptEntry
from mainspring.errors import InvalidInput, TookTooLong
from mainspring.ports.store import Store


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
