"""Scheduler nodes and the shards they own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from asyncpg import Record

from mainspring.core.shards import Refusal
from mainspring.core.starts import start_clock
from mainspring.ports.store.nodes import Cluster, Epochs, NodeFacts, NodeState, ShardLease
from mainspring.ports.store.restrictions import PROTOCOL
from mainspring.ports.store.schedule import gaps_of
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.job_clocks import add_fire_ranges
from mainspring.stores.postgres.rows import columns_of_next_fires


class PostgresNodeStore:
    """`NodeStore` on PostgreSQL."""

    _connections: Connections

    async def beat_node(
        self,
        node: NodeFacts,
        *,
        period: timedelta | None = None,
        refusal: Refusal | None = None,
        served: bytes | None = None,
        is_member: bool = False,
        now: datetime,
    ) -> None:
        await self._connections.fetch(
            Role.BEAT,
            "beat_node",
            is_repeatable=True,
            id=node.id,
            host=node.host,
            pid=node.pid,
            version=node.version,
            tzdata=node.tzdata,
            period=period,
            refusal=refusal,
            served=served,
            is_member=is_member,
            protocol=PROTOCOL,
            now=now,
        )

    async def start_cluster(self, node_id: str, *, now: datetime) -> bool:
        async def work(transaction: Transaction) -> bool:
            await transaction.fetch("lock_cluster")
            # A statement of its own, which sees what the lock waited for.
            if not await transaction.fetch("start_cluster", node_id=node_id):
                return False
            await _start_clocks(transaction, now)
            return True

        return await self._connections.transact(Role.BEAT, work)

    async def read_cluster(self) -> Cluster:
        rows = await self._connections.fetch(Role.BEAT, "read_cluster", is_repeatable=True)
        return Cluster(rows[0]["recorded"], tuple(_node_of(row) for row in rows if row["id"] is not None))

    async def record_tzdata(self, version: str, *, expected: str | None, now: datetime) -> bool:
        rows = await self._connections.fetch(
            Role.BEAT, "record_tzdata", is_repeatable=False, version=version, expected=expected
        )
        return bool(rows)

    async def expire_nodes(self, judged: Sequence[tuple[str, int]], *, now: datetime) -> list[bool]:
        if not judged:
            return []
        ordered = sorted(judged)
        rows = await self._connections.fetch(
            Role.BEAT,
            "expire_nodes",
            is_repeatable=False,
            node_ids=[node_id for node_id, _ in ordered],
            beats=[beats for _, beats in ordered],
        )
        expired = {row["id"] for row in rows}
        return [node_id in expired for node_id, _ in judged]

    async def read_shards(self) -> list[ShardLease]:
        rows = await self._connections.fetch(Role.WATCH, "read_shards", is_repeatable=True)
        return [ShardLease(row["shard"], row["epoch"], row["node_id"], row["beats"]) for row in rows]

    async def take_shards(
        self, node_id: str, expected: Mapping[int, int], *, now: datetime
    ) -> dict[int, int]:
        if not expected:
            return {}

        async def work(transaction: Transaction) -> dict[int, int]:
            shards = sorted(expected)
            free = await transaction.fetch(
                "pick_shards", shards=shards, epochs=[expected[shard] for shard in shards]
            )
            picked = [row["shard"] for row in free]
            rows = await transaction.fetch(
                "take_shards", node_id=node_id, shards=picked, epochs=[expected[shard] for shard in picked]
            )
            return {row["shard"]: row["epoch"] for row in rows}

        return await self._connections.transact(Role.BEAT, work)

    async def release_shards(self, node_id: str, epochs: Epochs, *, now: datetime) -> None:
        if not epochs:
            return

        async def work(transaction: Transaction) -> None:
            await _release(transaction, node_id, epochs)

        await self._connections.transact(Role.BEAT, work, is_repeatable=True)

    async def leave_shards(self, node_id: str, epochs: Epochs, *, now: datetime) -> None:
        async def work(transaction: Transaction) -> None:
            await _release(transaction, node_id, epochs)
            await transaction.execute("take_nodes_in", node_id=node_id)
            await transaction.execute("remove_node", node_id=node_id)

        await self._connections.transact(Role.BEAT, work, is_repeatable=True)


async def _start_clocks(transaction: Transaction, now: datetime) -> None:
    """Set the clocks of the jobs whose trigger is at start."""
    rows = await transaction.fetch("lock_starting")
    started = [
        start_clock(
            next_fire_at=row["next_fire_at"],
            fired_through=row["fired_through"],
            is_paused=row["is_paused"],
            pause_note=row["pause_note"],
            now=now,
        )
        for row in rows
    ]
    await transaction.execute(
        "start_clocks",
        job_ids=[row["id"] for row in rows],
        fired_through=[clock.fired_through for clock in started],
        **columns_of_next_fires([clock.next_fire for clock in started]),
    )
    gaps = [gaps_of(clock, row["id"], row["version"]) for row, clock in zip(rows, started, strict=True)]
    await add_fire_ranges(transaction, [gap for one in gaps for gap in one], now)


async def _release(transaction: Transaction, node_id: str, epochs: Epochs) -> None:
    shards = sorted(epochs)
    await transaction.fetch("lock_shards", shards=shards)
    await transaction.execute(
        "leave_shards", node_id=node_id, shards=shards, epochs=[epochs[shard] for shard in shards]
    )


def _node_of(row: Record) -> NodeState:
    return NodeState(
        facts=NodeFacts(
            id=row["id"], host=row["host"], pid=row["pid"], version=row["version"], tzdata=row["tzdata"]
        ),
        beats=row["beats"],
        period=row["period"],
        refusal=None if row["refusal"] is None else Refusal(row["refusal"]),
        started_at=row["started_at"],
        last_beat_at=row["last_beat_at"],
        served=row["served"],
        is_member=row["is_member"],
    )


async def holds_shard_0(transaction: Transaction, epochs: Epochs) -> bool:
    """Hold shard 0, and say whether the writer still owns it, and with it what the store has only once (law 3)."""
    [row] = await transaction.fetch("hold_shards", shards=[0])
    is_owner: bool = epochs.get(0) == row["epoch"]
    return is_owner
