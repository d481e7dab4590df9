"""The call that says what the archive has."""

from __future__ import annotations

from datetime import date

from mainspring.sdk.transport import Transport
from mainspring.wire import operations
from mainspring.wire.archive import ArchivePage


class ArchiveCalls(Transport):
    """A part of `AsyncClient`."""

    async def list_archive_days(self, *, before: str | date | None = None, limit: int = 100) -> ArchivePage:
        """Return a page of the days of the history that were written into the archive, the newest first.

        `next` of the answer is `before` of the call that goes on; it is None when there are no more.
        """
        day = before.isoformat() if isinstance(before, date) else before
        return await self.call(operations.LIST_ARCHIVE_DAYS, query={"before": day, "limit": limit})
