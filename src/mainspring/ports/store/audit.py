"""The audit: entries that verbs write beside what they change."""

from __future__ import annotations

from typing import Protocol

from mainspring.core.audit import AuditFilter, KeptEntry


class AuditStore(Protocol):
    """The audit.

    Every verb that changes definitions, or runs by hand, takes `audit`: entries that it writes in its transaction, if
    the change takes place (see `core.audit.settle_entries`). A change that is refused, or that finds everything as it
    is to be, has none. What sets values (`write_tenants`, …) has one also if they are the old ones.

    Entries are never changed and never deleted before `UpkeepStore.prune_history` is told so.
    """

    async def list_audit(
        self, wanted: AuditFilter, *, before: int | None = None, limit: int = 100
    ) -> list[KeptEntry]:
        """Return a page of entries, the newest first.

        It is stopped at the time limit of lists, and raises `TookTooLong` then.

        Args:
            before: the id of the last entry of the page before.
        """
        ...
