"""Which shards this node owns, and under which epochs (design 2, law 3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

import structlog

from mainspring.core.liveness import Watch, look
from mainspring.engine.refusals import Refusals
from mainspring.errors import StoreUnavailable
from mainspring.ports.clock import Clock, Waiter
from mainspring.ports.store import Store
from mainspring.ports.store_types import NodeFacts, ShardLease

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Ownership:
    """The shards that this node believes to own; every scheduler write carries their epochs and is checked."""

    epochs: dict[int, int] = field(default_factory=dict)

    def forget(self) -> None:
        """Give up the belief, after a write was fenced off; the next tick of `Shards` looks afresh."""
        self.epochs = {}


class Shards:
    """Takes shards that nobody alive owns and keeps the node's heartbeat going.

    One live node owns everything; another takes over when its counter has been still for three periods. Where the
    store can have one process only, an owner found at the start is a predecessor and its shards are taken at once.
    """

    name = "shards"

    def __init__(
        self,
        store: Store,
        *,
        node: NodeFacts,
        ownership: Ownership,
        clock: Clock,
        waiter: Waiter,
        period: float = 2.0,
        refusals: Refusals | None = None,
    ) -> None:
        self._store = store
        self._node = node
        self._ownership = ownership
        self._clock = clock
        self.waiter = waiter
        self._period = period
        self._refusals = refusals or Refusals()
        self._watch: Watch[str] | None = None

    async def tick(self, now: datetime) -> float:
        """Beat, look who owns what, and take what is free."""
        try:
            await self._store.beat_node(self._node, now=now)
        except StoreUnavailable:
            self._refusals.refuse()
            raise
        self._refusals.accept(self._clock.monotonic())
        shards = await self._store.read_shards()
        owned: dict[int, int] = {}
        free: dict[int, int] = {}
        others: list[ShardLease] = []
        counters: dict[str, int] = {}
        for lease in shards:
            shard, epoch, node_id, beats = lease
            if node_id == self._node.id:
                owned[shard] = epoch
            elif node_id is None or beats is None:
                free[shard] = epoch
            else:
                counters[node_id] = beats
                others.append(lease)
        self._watch, silent = look(self._watch, counters, at=self._clock.monotonic(), period=self._period)
        if not self._store.capabilities.concurrent_writers:
            silent = list(counters)
        free |= {lease.shard: lease.epoch for lease in others if lease.node_id in silent}
        if free:
            taken = await self._store.take_shards(self._node.id, free, now=now)
            owned |= taken
            _log.info("shards_taken", count=len(taken), node=self._node.id)
        self._ownership.epochs = owned
        return self._period

    async def leave(self, now: datetime) -> None:
        """Give up all shards, so that another node may take them at once."""
        epochs, self._ownership.epochs = self._ownership.epochs, {}
        await self._store.leave_shards(self._node.id, epochs, now=now)
