"""What the steps of durable functions have come to, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.checkpoints import Checkpoint, CheckpointVerdict, NewCheckpoint
from mainspring.core.ids import RunId
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction


class PostgresCheckpointStore:
    """`CheckpointStore` on PostgreSQL. What is kept shares a connection with what attempts write."""

    _connections: Connections

    async def keep_checkpoints(
        self, items: Sequence[NewCheckpoint], *, now: datetime
    ) -> list[CheckpointVerdict]:
        """See `CheckpointStore`. The runs are locked, so that nobody takes them away meanwhile."""
        if not items:
            return []
        wanted = sorted({(item.run_id, item.token, item.session_id) for item in items})

        async def work(transaction: Transaction) -> tuple[set[tuple[int, ...]], set[tuple[int, str, int]]]:
            rows = await transaction.fetch(
                "hold_checkpointed_runs",
                run_ids=[lease[0] for lease in wanted],
                tokens=[lease[1] for lease in wanted],
                session_ids=[lease[2] for lease in wanted],
            )
            held: set[tuple[int, ...]] = {(row["id"], row["token"], row["session_id"]) for row in rows}
            crashed = [row["id"] for row in rows if row["quarantined_crashes"]]
            if crashed:
                await transaction.execute("forget_crashes", run_ids=crashed)
            return held, await _keep(transaction, [item for item in items if _lease_of(item) in held], now)

        held, kept = await self._connections.transact(Role.LOG, work)
        verdicts = []
        for item in items:
            key = (item.run_id, item.name, item.number)
            if _lease_of(item) not in held:
                verdicts.append(CheckpointVerdict.STALE)
            else:
                verdicts.append(CheckpointVerdict.KEPT if key in kept else CheckpointVerdict.KNOWN)
                kept.discard(key)  # the second one of a batch is known
        return verdicts

    async def list_checkpoints(
        self, run_id: RunId, *, after: tuple[str, int] | None = None, limit: int = 100
    ) -> list[Checkpoint]:
        """See `CheckpointStore`."""
        name, number = after or ("", -1)
        rows = await self._connections.fetch(
            Role.LOG,
            "list_checkpoints",
            is_repeatable=True,
            run_id=run_id,
            name=name,
            number=number,
            limit=limit,
        )
        return [Checkpoint(*row) for row in map(tuple, rows)]

    async def prune_checkpoints(self, *, before: datetime, limit: int) -> int:
        """See `CheckpointStore`."""

        async def work(transaction: Transaction) -> int:
            return await transaction.execute("prune_checkpoints", before=before, limit=limit)

        return await self._connections.run(Role.UPKEEP, work, is_repeatable=True, is_atomic=True)


def _lease_of(item: NewCheckpoint) -> tuple[int, ...]:
    return item.run_id, item.token, item.session_id


async def _keep(
    transaction: Transaction, items: Sequence[NewCheckpoint], now: datetime
) -> set[tuple[int, str, int]]:
    """Insert what is not there, and return the keys of that."""
    if not items:
        return set()
    # In the order of the key, so that two calls wait for each other in one direction only.
    new = sorted(items, key=lambda item: (item.run_id, item.name, item.number))
    rows = await transaction.fetch(
        "add_checkpoints",
        run_ids=[item.run_id for item in new],
        names=[item.name for item in new],
        numbers=[item.number for item in new],
        tokens=[item.token for item in new],
        are_errors=[item.is_error for item in new],
        datas=[item.value for item in new],
        now=now,
    )
    return {(row["run_id"], row["name"], row["number"]) for row in rows}
