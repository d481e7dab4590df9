"""Scheduler nodes and the shards they own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from mainspring.core.shards import Refusal
from mainspring.core.starts import start_clock
from mainspring.core.triggers import AtStart
from mainspring.ports.store.nodes import Cluster, Epochs, NodeFacts, ShardLease
from mainspring.ports.store.schedule import gaps_of
from mainspring.stores.memory.rows import JobRow, NodeRow
from mainspring.stores.memory.tables import Tables


class MemoryNodeStore:
    """`NodeStore` in memory."""

    _tables: Tables

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
        row = self._tables.nodes.get(node.id)
        if row is None:
            self._tables.nodes[node.id] = NodeRow(node, period, refusal, now, now, served, is_member)
        else:
            row.facts = node
            row.period = period
            row.refusal = refusal
            row.served = served
            row.last_beat_at = now
            row.is_member = row.is_member or is_member
            row.beats += 1

    async def start_cluster(self, node_id: str, *, now: datetime) -> bool:
        nodes = self._tables.nodes
        if node_id not in nodes or any(row.is_member for row in nodes.values()):
            return False
        nodes[node_id].is_member = True
        for job in self._tables.jobs.values():
            if isinstance(job.spec.trigger, AtStart):
                self._start_clock(job, now)
        return True

    def _start_clock(self, job: JobRow, now: datetime) -> None:
        started = start_clock(
            next_fire_at=job.next_fire_at,
            fired_through=job.fired_through,
            is_paused=job.is_paused,
            pause_note=job.pause_note,
            now=now,
        )
        self._tables.set_next_fire(job, started.next_fire)
        job.fired_through = started.fired_through
        for gap in gaps_of(started, job.id, job.version):
            self._tables.add_fire_range(gap, now=now)

    async def read_cluster(self) -> Cluster:
        nodes = self._tables.nodes
        return Cluster(self._tables.tzdata, tuple(nodes[node_id].view() for node_id in sorted(nodes)))

    async def record_tzdata(self, version: str, *, expected: str | None, now: datetime) -> bool:
        if self._tables.tzdata != expected:
            return False
        self._tables.tzdata = version
        return True

    async def expire_nodes(self, judged: Sequence[tuple[str, int]], *, now: datetime) -> list[bool]:
        return [self._remove_silent(node_id, beats) for node_id, beats in judged]

    def _remove_silent(self, node_id: str, beats: int) -> bool:
        row = self._tables.nodes.get(node_id)
        if row is None or row.beats != beats:
            return False
        del self._tables.nodes[node_id]
        return True

    async def read_shards(self) -> list[ShardLease]:
        beats: dict[str | None, int] = {node_id: row.beats for node_id, row in self._tables.nodes.items()}
        return [
            ShardLease(shard, row.epoch, row.node_id, beats.get(row.node_id))
            for shard, row in enumerate(self._tables.shards)
        ]

    async def take_shards(
        self, node_id: str, expected: Mapping[int, int], *, now: datetime
    ) -> dict[int, int]:
        taken = {}
        for shard in sorted(expected):
            row = self._tables.shards[shard]
            if row.epoch == expected[shard]:
                row.epoch += 1
                row.node_id = node_id
                taken[shard] = row.epoch
        return taken

    async def release_shards(self, node_id: str, epochs: Epochs, *, now: datetime) -> None:
        self._release(node_id, epochs)

    async def leave_shards(self, node_id: str, epochs: Epochs, *, now: datetime) -> None:
        self._release(node_id, epochs)
        left = self._tables.nodes.pop(node_id, None)
        if left is not None and left.is_member:
            for row in self._tables.nodes.values():
                row.is_member = True

    def _release(self, node_id: str, epochs: Epochs) -> None:
        for shard in sorted(epochs):
            row = self._tables.shards[shard]
            if row.epoch == epochs[shard] and row.node_id == node_id:
                row.node_id = None
