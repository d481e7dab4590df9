"""What became of runs, on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import apsw

from mainspring.core.usage import UsageLine, UsageStep
from mainspring.ports.store.nodes import Epochs
from mainspring.stores._sql.usage import add_up, encode_usage
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.nodes import owns_shard_0
from mainspring.stores.sqlite.rows import to_instant, to_json, to_micros
from mainspring.stores.sqlite.statements import execute_many, fetch_rows, fetch_values


class SqliteUsageStore:
    """Implements `UsageStore`."""

    _browser: Database
    _writer: Database

    async def write_usage(self, lines: Sequence[UsageLine], *, process: str) -> None:
        """See `UsageStore`."""
        values = [_values_of(line) | {"process": process} for line in lines]
        if values:
            await self._writer.call(lambda db: execute_many(db, "write_usage", values))

    async def list_usage(
        self,
        step: UsageStep,
        *,
        since: datetime,
        until: datetime,
        tenant: str | None = None,
        queues: Sequence[str] | None = None,
    ) -> list[UsageLine]:
        """See `UsageStore`."""
        name = "list_usage_minutes" if step is UsageStep.MINUTE else "list_usage_hours"
        values = {
            "since": to_micros(since),
            "until": to_micros(until),
            "tenant": tenant,
            "queues": None if queues is None else to_json(list(queues)),
        }

        def work(db: apsw.Connection) -> list[UsageLine]:
            rows = fetch_rows(db, name, values)
            return add_up((to_instant(row.at), row.tenant, row.queue, row.body) for row in rows)

        return await self._browser.call(work)

    async def write_usage_hours(self, lines: Sequence[UsageLine], *, epochs: Epochs) -> bool:
        """See `UsageStore`."""
        values = [_values_of(line) for line in lines]

        def work(db: apsw.Connection) -> bool:
            if not owns_shard_0(db, epochs):
                return False
            execute_many(db, "write_usage_hours", values)
            return True

        return await self._writer.call(work)

    async def prune_usage(
        self, *, minutes_before: datetime, hours_before: datetime, epochs: Epochs, limit: int
    ) -> int:
        """See `UsageStore`."""

        def work(db: apsw.Connection) -> int:
            if not owns_shard_0(db, epochs):
                return 0
            minutes = {"before": to_micros(minutes_before), "limit": limit}
            hours = {"before": to_micros(hours_before), "limit": limit}
            removed = fetch_values(db, "prune_usage_minutes", minutes)
            return len(removed) + len(fetch_values(db, "prune_usage_hours", hours))

        return await self._writer.call(work)


def _values_of(line: UsageLine) -> dict[str, Any]:
    return {
        "at": to_micros(line.at),
        "tenant": line.tenant,
        "queue": line.queue,
        "body": encode_usage(line.usage),
    }
