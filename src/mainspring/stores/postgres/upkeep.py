"""The janitor's verbs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from mainspring.ports.store.upkeep import UniqueKeyPlace
from mainspring.stores.postgres.audit import prune_audit
from mainspring.stores.postgres.closed_days import ClosedDays
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.once import prune_unique_keys


class PostgresUpkeepStore:
    """`UpkeepStore` on PostgreSQL. Every call may be repeated, and several nodes may call it at once."""

    _closed_days: ClosedDays
    _connections: Connections

    async def prepare_history(self, *, now: datetime) -> None:
        await self._connections.fetch(Role.UPKEEP, "prepare_history", is_repeatable=True, now=now)

    async def prune_history(
        self, *, before: datetime, limit: int, audit_before: datetime | None = None
    ) -> int:
        """See `UpkeepStore`. Of days that are dropped whole, the count is an estimate."""
        dropped, is_unfinished = await self._closed_days.drop(before)
        [attempts] = await self._connections.fetch(
            Role.UPKEEP, "prune_attempts", is_repeatable=True, before=before, limit=limit
        )
        removed_attempts: int = attempts["removed"]
        return max(
            dropped,
            limit if is_unfinished else 0,
            await self._prune_runs(before, limit),
            removed_attempts,
            await self._prune("prune_kept_attempts", limit=limit),
            await self._prune("prune_fire_ranges", before=before, limit=limit),
            0 if audit_before is None else await self._prune_audit(audit_before, limit),
        )

    async def _prune_audit(self, before: datetime, limit: int) -> int:
        async def work(transaction: Transaction) -> int:
            return await prune_audit(transaction, before, limit)

        return await self._connections.transact(Role.UPKEEP, work, is_repeatable=True)

    async def _prune_runs(self, before: datetime, limit: int) -> int:
        async def work(transaction: Transaction) -> int:
            # The lock comes first: what ends up in the tally meanwhile is seen by the statement that follows.
            [mark] = await transaction.fetch("share_settled")
            [row] = await transaction.fetch(
                "prune_history", before=before, limit=limit, settled_before=mark["settled_before"]
            )
            removed: int = row["removed"]
            return removed

        return await self._connections.transact(Role.UPKEEP, work, is_repeatable=True)

    async def prune_keys(self, *, now: datetime, limit: int) -> int:
        return await self._prune("prune_keys", now=now, limit=limit)

    async def prune_unique_keys(
        self, *, now: datetime, after: UniqueKeyPlace | None, limit: int
    ) -> tuple[int, UniqueKeyPlace | None]:
        """See `UpkeepStore`."""

        async def work(transaction: Transaction) -> tuple[int, UniqueKeyPlace | None]:
            return await prune_unique_keys(transaction, now, after, limit)

        return await self._connections.transact(Role.UPKEEP, work, is_repeatable=True)

    async def prune_sessions(self, *, before: datetime, limit: int) -> int:
        async def work(transaction: Transaction) -> int:
            gone = await transaction.fetch("prune_sessions", before=before, limit=limit)
            if gone:
                await transaction.execute(
                    "add_past_sessions",
                    session_ids=[row["id"] for row in gone],
                    workers=[row["worker"] for row in gone],
                    hosts=[row["host"] for row in gone],
                    ends_at=[row["ended_at"] for row in gone],
                )
            return len(gone)

        return await self._connections.transact(Role.UPKEEP, work, is_repeatable=True)

    async def prune_workers(self, *, before: datetime, limit: int) -> int:
        return await self._prune("prune_workers", before=before, limit=limit)

    async def prune_lanes(self, *, limit: int) -> int:
        async def work(transaction: Transaction) -> int:
            rows = await transaction.fetch("lock_empty_lanes", limit=limit)
            if not rows:
                return 0
            # A second statement sees the runs of every submit that held a lane's row until just now.
            return await transaction.execute("delete_empty_lanes", lane_ids=[row["id"] for row in rows])

        return await self._connections.transact(Role.UPKEEP, work, is_repeatable=True)

    async def _prune(self, name: str, **values: Any) -> int:
        async def work(transaction: Transaction) -> int:
            return await transaction.execute(name, **values)

        return await self._connections.run(Role.UPKEEP, work, is_repeatable=True, is_atomic=True)
