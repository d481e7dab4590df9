"""Drops whole days of the history, and keeps nobody waiting meanwhile (ADR 0061)."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING

from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections

if TYPE_CHECKING:
    from asyncpg import Record

WINDOW = 10_000
"""Attempts of a day that one transaction looks at."""
MOST_WINDOWS = 20
"""Transactions that one call takes to look at attempts, at most."""


class ClosedDays:
    """Drops the days of the history that have ended long enough ago.

    A day is detached in one short transaction and dropped in another. Attempts that stay longer are copied before that,
    some at a time. What a call has not finished, the next one goes on with; another process begins again with the day.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._looked_through: dict[date, tuple[int, int]] = {}

    def forget(self) -> None:
        """Begin again with all days, because the store may have lost what was copied."""
        self._looked_through = {}

    async def drop(self, before: datetime) -> tuple[int, bool]:
        """Drop the days that ended at this instant or before it.

        Returns:
            How many rows went, by the statistics of their tables; and whether attempts are left to look at.
        """
        removed = 0
        for row in await self._fetch("list_detached_days"):  # of a process that died
            removed += await self._drop(row["name"])
        windows = 0
        for row in await self._fetch("list_closed_days", before=before):
            kind, day = row["kind"], row["day"]
            if kind == "attempt":
                while windows < MOST_WINDOWS and await self._keep_attempts(day):
                    windows += 1
                if windows == MOST_WINDOWS:
                    return removed, True
            [detached] = await self._fetch("detach_day", kind=kind, day=day)
            if detached["is_detached"]:
                self._looked_through.pop(day, None)
                removed += await self._drop(f"dropped_{kind}_{day:%Y%m%d}")
        return removed, False

    async def _keep_attempts(self, day: date) -> bool:
        """Copy what stays of the next attempts of a day; return False if all have been looked at."""
        looked_through = self._looked_through  # another one after a failover, which may have lost the copies
        run_id, token = looked_through.get(day, (0, 0))
        found = await self._fetch("keep_attempts_of_day", day=day, run_id=run_id, token=token, limit=WINDOW)
        if found:
            looked_through[day] = found[0]["run_id"], found[0]["token"]
        return bool(found)

    async def _drop(self, name: str) -> int:
        [row] = await self._fetch("drop_day", name=name)
        removed: int = row["removed"]
        return removed

    async def _fetch(self, query: str, /, **values: object) -> list[Record]:
        return await self._connections.fetch(Role.UPKEEP, query, is_repeatable=True, **values)
