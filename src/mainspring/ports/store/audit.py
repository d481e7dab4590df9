"""The audit: entries that verbs write beside what they change."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from mainspring.core.audit import AuditFilter, KeptEntry
from mainspring.core.audit_seals import AuditSeal
from mainspring.ports.store.nodes import Epochs


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

    async def seal_audit(self, *, epochs: Epochs, now: datetime, limit: int) -> AuditSeal | None:
        """Seal the entries that have no seal, the oldest first, at most `limit`; return the seal.

        An entry that is committed after one with a higher id joins a later seal. None: all are sealed, or the caller
        has not the epoch of shard 0.
        """
        ...

    async def list_seals(self, *, after: int, limit: int) -> list[AuditSeal]:
        """Return seals in order, those after the one with this id."""
        ...

    async def list_sealed(self, seal_id: int) -> list[KeptEntry]:
        """Return the entries that have a seal, in order of their ids."""
        ...

    async def find_stray_entry(self, *, since: datetime) -> KeptEntry | None:
        """Return an entry whose seal there is not; None if there is none.

        That is a seal after the last one, or, for an entry from `since` on, before the first one. A seal that is
        missing between others breaks the chain.
        """
        ...

    async def read_audit_horizon(self) -> datetime:
        """Return the instant from which on entries are kept, from 1970 to 9000."""
        ...
