"""What became of runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from mainspring.core.usage import UsageLine, UsageStep
from mainspring.ports.store.nodes import Epochs
from mainspring.stores._sql.usage import add_up, encode_usage
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.nodes import holds_shard_0


class PostgresUsageStore:
    """`UsageStore` on PostgreSQL."""

    _connections: Connections

    async def write_usage(self, lines: Sequence[UsageLine], *, process: str) -> None:
        if lines:
            await self._connections.fetch(
                Role.UPKEEP, "write_usage", is_repeatable=True, process=process, **_columns_of(lines)
            )

    async def list_usage(
        self,
        step: UsageStep,
        *,
        since: datetime,
        until: datetime,
        tenant: str | None = None,
        queues: Sequence[str] | None = None,
    ) -> list[UsageLine]:
        name = "list_usage_minutes" if step is UsageStep.MINUTE else "list_usage_hours"
        rows = await self._connections.fetch(
            Role.BROWSE,
            name,
            is_repeatable=True,
            since=since,
            until=until,
            tenant=tenant,
            queues=None if queues is None else list(queues),
        )
        # There may be ten thousands, and the loop has fires to store meanwhile.
        return await asyncio.to_thread(add_up, map(tuple, rows))

    async def write_usage_hours(self, lines: Sequence[UsageLine], *, epochs: Epochs) -> bool:
        async def work(transaction: Transaction) -> bool:
            if not await holds_shard_0(transaction, epochs):
                return False
            await transaction.execute("write_usage_hours", **_columns_of(lines))
            return True

        return await self._connections.transact(Role.UPKEEP, work, is_repeatable=True)

    async def prune_usage(
        self, *, minutes_before: datetime, hours_before: datetime, epochs: Epochs, limit: int
    ) -> int:
        async def work(transaction: Transaction) -> int:
            if not await holds_shard_0(transaction, epochs):
                return 0
            removed = await transaction.fetch("prune_usage_minutes", before=minutes_before, limit=limit)
            return len(removed) + len(
                await transaction.fetch("prune_usage_hours", before=hours_before, limit=limit)
            )

        return await self._connections.transact(Role.UPKEEP, work, is_repeatable=True)


def _columns_of(lines: Sequence[UsageLine]) -> dict[str, list[Any]]:
    """Return the columns of lines, in the order of their keys: so two processes lock rows in one order."""
    lines = sorted(lines, key=lambda line: (line.at, line.key))
    return {
        "at": [line.at for line in lines],
        "tenant": [line.tenant for line in lines],
        "queue": [line.queue for line in lines],
        "body": [encode_usage(line.usage) for line in lines],
    }
