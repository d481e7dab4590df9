"""Scheduler nodes and the shards they own, on SQLite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import apsw

from mainspring.core.shards import Refusal
from mainspring.ports.store.nodes import Cluster, Epochs, NodeFacts, ShardLease
from mainspring.stores.sqlite.base import Part, execute, execute_many, fetch_all, fetch_first
from mainspring.stores.sqlite.rows import count_micros, make_node, to_micros


class SqliteNodeStore(Part):
    """Implements `NodeStore`."""

    async def beat_node(
        self,
        node: NodeFacts,
        *,
        period: timedelta | None = None,
        refusal: Refusal | None = None,
        now: datetime,
    ) -> None:
        """See `NodeStore`."""
        values = {
            "id": node.id,
            "host": node.host,
            "pid": node.pid,
            "version": node.version,
            "tzdata": node.tzdata,
            "period": count_micros(period),
            "refusal": refusal,
            "now": to_micros(now),
        }
        await self._write(lambda db: fetch_all(db, "beat_node", values))

    async def read_cluster(self) -> Cluster:
        """See `NodeStore`."""
        rows = await self._read(lambda db: fetch_all(db, "read_cluster"))
        return Cluster(rows[0][0], tuple(make_node(row[1:]) for row in rows if row[1] is not None))

    async def record_tzdata(self, version: str, *, expected: str | None, now: datetime) -> bool:
        """See `NodeStore`."""
        del now
        values = {"version": version, "expected": expected}
        return await self._write(lambda db: fetch_first(db, "record_tzdata", values)) is not None

    async def expire_nodes(self, judged: Sequence[tuple[str, int]], *, now: datetime) -> list[bool]:
        """See `NodeStore`."""
        del now
        if not judged:
            return []

        def work(db: apsw.Connection) -> list[bool]:
            return [
                fetch_first(db, "expire_node", {"node_id": node_id, "beats": beats}) is not None
                for node_id, beats in judged
            ]

        return await self._write(work)

    async def read_shards(self) -> list[ShardLease]:
        """See `NodeStore`."""
        rows = await self._read(lambda db: fetch_all(db, "read_shards"))
        return [ShardLease(*row) for row in rows]

    async def take_shards(
        self, node_id: str, expected: Mapping[int, int], *, now: datetime
    ) -> dict[int, int]:
        """See `NodeStore`."""
        del now

        def work(db: apsw.Connection) -> dict[int, int]:
            taken = {}
            for shard, epoch in sorted(expected.items()):
                row = fetch_first(db, "take_shard", {"node_id": node_id, "shard": shard, "epoch": epoch})
                if row is not None:
                    taken[shard] = row[0]
            return taken

        return await self._write(work)

    async def release_shards(self, node_id: str, epochs: Epochs, *, now: datetime) -> None:
        """See `NodeStore`."""
        del now
        if epochs:
            await self._write(lambda db: _release(db, node_id, epochs))

    async def leave_shards(self, node_id: str, epochs: Epochs, *, now: datetime) -> None:
        """See `NodeStore`."""
        del now

        def work(db: apsw.Connection) -> None:
            _release(db, node_id, epochs)
            execute(db, "remove_node", {"node_id": node_id})

        await self._write(work)


def _release(db: apsw.Connection, node_id: str, epochs: Epochs) -> None:
    values = [{"node_id": node_id, "shard": shard, "epoch": epoch} for shard, epoch in epochs.items()]
    execute_many(db, "leave_shard", values)
