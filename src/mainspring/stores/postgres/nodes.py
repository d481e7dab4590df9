"""Scheduler nodes and the shards they own."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from mainspring.ports.store_types import Epochs, NodeFacts, ShardLease
from mainspring.stores.postgres.connection import Connections, Session
from mainspring.stores.postgres.dialing import Role


class NodeVerbs:
    """`NodeStore` on PostgreSQL."""

    _connections: Connections

    async def beat_node(self, node: NodeFacts, *, now: datetime) -> None:
        await self._connections.fetch(
            Role.BEAT,
            "beat_node",
            is_repeatable=True,
            id=node.id,
            host=node.host,
            pid=node.pid,
            version=node.version,
            tzdata=node.tzdata,
            now=now,
        )

    async def read_shards(self) -> list[ShardLease]:
        rows = await self._connections.fetch(Role.WATCH, "read_shards", is_repeatable=True)
        return [ShardLease(*row) for row in rows]

    async def take_shards(
        self, node_id: str, expected: Mapping[int, int], *, now: datetime
    ) -> dict[int, int]:
        if not expected:
            return {}

        async def work(session: Session) -> dict[int, int]:
            shards = sorted(expected)
            await session.fetch("lock_shards", shards=shards)
            rows = await session.fetch(
                "take_shards", node_id=node_id, shards=shards, epochs=[expected[shard] for shard in shards]
            )
            return {row["shard"]: row["epoch"] for row in rows}

        return await self._connections.transact(Role.BEAT, work)

    async def leave_shards(self, node_id: str, epochs: Epochs, *, now: datetime) -> None:
        async def work(session: Session) -> None:
            shards = sorted(epochs)
            await session.fetch("lock_shards", shards=shards)
            await session.execute(
                "leave_shards", node_id=node_id, shards=shards, epochs=[epochs[shard] for shard in shards]
            )
            await session.execute("remove_node", node_id=node_id)

        await self._connections.transact(Role.BEAT, work, is_repeatable=True)
