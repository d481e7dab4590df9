"""Housekeeping: prepares room for the history, and removes what is no longer needed."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from mainspring.core.ids import JobId
from mainspring.core.values import value


@value()
class UniqueKeyPlace:
    """Where a look at the keys of what runs once has got to."""

    tenant: str
    job_id: JobId
    key: bytes


class UpkeepStore(Protocol):
    """The janitor's verbs; each returns how many rows it removed."""

    async def prepare_history(self, *, now: datetime) -> None:
        """Prepare room in the history (partitions on PostgreSQL)."""
        ...

    async def prune_history(
        self, *, before: datetime, limit: int, audit_before: datetime | None = None
    ) -> int:
        """Remove finished runs, attempts and closed fire ranges that ended before this instant. Dead runs
        stay, and so do the attempts of runs that are live or dead.

        Looks at no more than `limit` of each kind at a time; only a store that drops whole days at once may do more.
        Returns the largest of the counts of rows that went, or were put aside to stay. If it is `limit` or more, more
        may be left.

        Args:
            audit_before: entries of the audit from before this instant go, too; None keeps all of them.
        """
        ...

    async def prune_keys(self, *, now: datetime, limit: int) -> int:
        """Remove expired idempotency rows."""
        ...

    async def prune_unique_keys(
        self, *, now: datetime, after: UniqueKeyPlace | None, limit: int
    ) -> tuple[int, UniqueKeyPlace | None]:
        """Look at the next keys of what runs once, and remove those that have no effect any more.

        The order is the store's own. Without effect are the keys whose time is over, and of those without a time the
        ones whose run has ended. A key that a submission takes meanwhile stays.

        Args:
            after: the last key that was looked at; None begins from the front.
            limit: how many keys to look at.

        Returns:
            How many were removed, and the last key that was looked at; None if there are no more.
        """
        ...

    async def prune_sessions(self, *, before: datetime, limit: int) -> int:
        """Remove sessions that ended before this instant and hold nothing. `find_workers` still knows who they were."""
        ...

    async def prune_workers(self, *, before: datetime, limit: int) -> int:
        """Forget who removed sessions were, if they ended before this instant."""
        ...

    async def prune_lanes(self, *, limit: int) -> int:
        """Remove lanes without live runs, safely against a submit that uses one."""
        ...
