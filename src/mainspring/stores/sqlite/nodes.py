"""Scheduler nodes and the shards they own, on SQLite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import apsw

from mainspring.core.shards import Refusal
from mainspring.core.starts import start_clock
from mainspring.ports.store.nodes import Cluster, Epochs, NodeFacts, ShardLease
from mainspring.ports.store.restrictions import PROTOCOL
from mainspring.ports.store.schedule import gaps_of
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.inserts import insert_fire_ranges
from mainspring.stores.sqlite.rows import (
    count_micros,
    make_job_id,
    make_node,
    to_micros,
    to_optional_instant,
    to_optional_micros,
    values_of_next_fire,
)
from mainspring.stores.sqlite.statements import (
    execute,
    execute_many,
    fetch_rows,
    fetch_tuples,
    fetch_value,
)


class SqliteNodeStore:
    """Implements `NodeStore`."""

    _reader: Database
    _writer: Database

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
        """See `NodeStore`."""
        values = {
            "id": node.id,
            "host": node.host,
            "pid": node.pid,
            "version": node.version,
            "tzdata": node.tzdata,
            "period": count_micros(period),
            "refusal": refusal,
            "served": served,
            "is_member": is_member,
            "protocol": PROTOCOL,
            "now": to_micros(now),
        }
        await self._writer.call(lambda db: execute(db, "beat_node", values))

    async def start_cluster(self, node_id: str, *, now: datetime) -> bool:
        """See `NodeStore`."""
        return await self._writer.call(lambda db: _start(db, node_id, now))

    async def read_cluster(self) -> Cluster:
        """See `NodeStore`."""
        rows = await self._reader.call(lambda db: fetch_rows(db, "read_cluster"))
        return Cluster(rows[0].recorded, tuple(make_node(row) for row in rows if row.id is not None))

    async def record_tzdata(self, version: str, *, expected: str | None, now: datetime) -> bool:
        """See `NodeStore`."""
        del now
        values = {"version": version, "expected": expected}
        return await self._writer.call(lambda db: fetch_value(db, "record_tzdata", values)) is not None

    async def expire_nodes(self, judged: Sequence[tuple[str, int]], *, now: datetime) -> list[bool]:
        """See `NodeStore`."""
        del now
        if not judged:
            return []

        def work(db: apsw.Connection) -> list[bool]:
            return [
                fetch_value(db, "expire_node", {"node_id": node_id, "beats": beats}) is not None
                for node_id, beats in judged
            ]

        return await self._writer.call(work)

    async def read_shards(self) -> list[ShardLease]:
        """See `NodeStore`."""
        rows = await self._reader.call(lambda db: fetch_tuples(db, "read_shards"))
        return [ShardLease(*row) for row in rows]

    async def take_shards(
        self, node_id: str, expected: Mapping[int, int], *, now: datetime
    ) -> dict[int, int]:
        """See `NodeStore`."""
        del now

        def work(db: apsw.Connection) -> dict[int, int]:
            taken = {}
            for shard, epoch in sorted(expected.items()):
                values = {"node_id": node_id, "shard": shard, "epoch": epoch}
                taken_epoch = fetch_value(db, "take_shard", values)
                if taken_epoch is not None:
                    taken[shard] = taken_epoch
            return taken

        return await self._writer.call(work)

    async def release_shards(self, node_id: str, epochs: Epochs, *, now: datetime) -> None:
        """See `NodeStore`."""
        del now
        if epochs:
            await self._writer.call(lambda db: _release(db, node_id, epochs))

    async def leave_shards(self, node_id: str, epochs: Epochs, *, now: datetime) -> None:
        """See `NodeStore`."""
        del now

        def work(db: apsw.Connection) -> None:
            _release(db, node_id, epochs)
            execute(db, "take_nodes_in", {"node_id": node_id})
            execute(db, "remove_node", {"node_id": node_id})

        await self._writer.call(work)


def _start(db: apsw.Connection, node_id: str, now: datetime) -> bool:
    if fetch_value(db, "start_cluster", {"node_id": node_id}) is None:
        return False
    for job in fetch_rows(db, "lock_starting"):
        started = start_clock(
            next_fire_at=to_optional_instant(job.next_fire_at),
            fired_through=to_optional_instant(job.fired_through),
            is_paused=bool(job.is_paused),
            pause_note=job.pause_note,
            now=now,
        )
        values = {"job_id": job.job_id, "fired_through": to_optional_micros(started.fired_through)}
        execute(db, "start_clock", values | values_of_next_fire(started.next_fire))
        insert_fire_ranges(db, gaps_of(started, make_job_id(job.job_id), job.version), to_micros(now))
    return True


def _release(db: apsw.Connection, node_id: str, epochs: Epochs) -> None:
    values = [{"node_id": node_id, "shard": shard, "epoch": epoch} for shard, epoch in epochs.items()]
    execute_many(db, "leave_shard", values)


def owns_shard_0(db: apsw.Connection, epochs: Epochs) -> bool:
    """Say whether the writer still owns shard 0, and with it what the store has only once (law 3)."""
    epoch: int = fetch_value(db, "read_epoch_of_first_shard")
    return epochs.get(0) == epoch
