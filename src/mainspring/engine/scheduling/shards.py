"""Takes a node's share of the shards, gives up those of other nodes, and sends its heartbeat (design 2, 5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

import structlog

from mainspring.core.liveness import PERIODS_OF_SILENCE, Pulse, Watch, forget, list_settled, observe
from mainspring.core.shards import Holding, Refusal, choose_tzdata, divide, refuse_clock
from mainspring.core.values import value
from mainspring.engine.common.exchange import ServedExchange
from mainspring.engine.common.write_health import WriteHealth
from mainspring.engine.scheduling.membership import Membership
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.errors import StoreUnavailable
from mainspring.ports.clock import Clock, Waiter
from mainspring.ports.figures import ShardFigures
from mainspring.ports.store import Store
from mainspring.ports.store.nodes import NodeFacts, NodeState
from mainspring.ports.telemetry import Measure

_log = structlog.get_logger(__name__)
T = TypeVar("T")


@value(kw_only=True)
class ShardSettings:
    """How nodes divide the shards.

    Attributes:
        period: the time between this node's heartbeats. Each heartbeat states it, and other nodes judge the node by
            it. They take a dead node's shards within four periods: one in which they may just have seen it alive, and
            three of silence.
        clock_limit: how much the host's clock may differ from the store's. Beyond this limit, the node owns no shards.
    """

    period: timedelta = timedelta(seconds=1.4)
    clock_limit: timedelta = timedelta(seconds=5)


class Shards:
    """Reads all nodes and shards each period, then takes and gives up shards accordingly.

    The heartbeat comes last. So a rising counter proves that the node has read, given up and taken shards, and no node
    leaves shards to one that cannot take them. If the store allows only one process, all other nodes are predecessors,
    and dead.
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
        settings: ShardSettings,
        write_health: WriteHealth,
        host_time: Callable[[], datetime] | None,
        served: ServedExchange,
        membership: Membership,
    ) -> None:
        self._store = store
        self.membership: Membership = membership
        self._served = served
        self._node = node
        self._ownership = ownership
        self._clock = clock
        self.waiter = waiter
        self._settings = settings
        self._period = self._settings.period.total_seconds()
        self._write_health = write_health
        self._host_time = host_time
        self._watch: Watch[str] | None = None
        self.figures: ShardFigures = ShardFigures(tzdata=node.tzdata)
        ownership.subscribe_fences(waiter.signal)

    def measures(self) -> Iterator[Measure]:
        """Yield the figures of the shards."""
        figures = self.figures
        yield Measure("shards_owned", figures.owned)
        yield Measure("shards_taken_total", figures.taken)
        yield Measure("shards_released_total", figures.released)
        yield Measure("shards_fenced_total", self._ownership.fenced)
        yield Measure("servers_alive", figures.nodes)
        yield Measure("clock_skew_seconds", figures.skew)

    async def tick(self, now: datetime) -> float:
        """Read who is alive and who owns what; give up and take shards accordingly; beat."""
        cluster = await self._store.read_cluster()
        others = [node for node in cluster.nodes if node.facts.id != self._node.id]
        living = await self._expire_silent(others, now)
        self._served.hear(living)
        refusal = await self._judge_self(cluster.tzdata, living, now)
        own = next((node for node in cluster.nodes if node.facts.id == self._node.id), None)
        if own is None:  # otherwise the others would take its new shards for those of a dead node
            await self._beat(refusal, now, is_alone=not living)
        await self.membership.settle(own, living, now)
        if refusal is None:
            await self._divide(living, now)
        else:
            await self._give_up(now)
        self.figures.owned = len(self._ownership.epochs)
        self.figures.fenced = self._ownership.fenced
        self.figures.nodes = 1 + len(living)
        if own is not None:
            await self._beat(refusal, now, is_alone=not living)
        # A node that beats faster must be read as often as it beats. Otherwise its silence would never count.
        return min([self._period, *(self._period_of(node) for node in living)])

    async def leave(self, now: datetime) -> None:
        """Give up all shards, so that another node may take them at once."""
        epochs = self._ownership.epochs
        self._ownership.update({})
        await self._store.leave_shards(self._node.id, epochs, now=now)

    async def _beat(self, refusal: Refusal | None, now: datetime, *, is_alone: bool) -> None:
        served = self._served.take(is_alone=is_alone)
        await self._write(
            self._store.beat_node(
                self._node,
                period=self._settings.period,
                refusal=refusal,
                served=served,
                is_member=self.membership.is_member,
                now=now,
            )
        )
        self._write_health.accept(self._clock.monotonic())

    async def _write(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except StoreUnavailable:
            self._write_health.refuse()
            raise

    async def _expire_silent(self, others: Sequence[NodeState], now: datetime) -> list[NodeState]:
        """Remove nodes that have been silent for three periods, and return the others."""
        pulses = {node.facts.id: Pulse(node.beats, self._period_of(node)) for node in others}
        at = self._clock.monotonic()
        self._watch, found = observe(self._watch, pulses, at=at)
        is_alone = not self._store.capabilities.concurrent_writers
        silent = [
            key
            for key in (pulses if is_alone else found)
            if is_alone or self._write_health.is_clear(at, PERIODS_OF_SILENCE * pulses[key].period)
        ]
        if silent:
            judged = [(node_id, pulses[node_id].beats) for node_id in silent]
            dead = await self._write(self._store.expire_nodes(judged, now=now))
            gone = [node_id for node_id, is_dead in zip(silent, dead, strict=True) if is_dead]
            _log.warning("nodes_lost", nodes=gone)
            # A node that is alive after all starts its count again. If this node remembered how long the old count
            # stood still, it would declare that node dead again at once, time and again.
            self._watch = forget(self._watch, gone)
        return [node for node in others if node.facts.id not in silent]

    def _period_of(self, node: NodeState) -> float:
        return self._period if node.period is None else node.period.total_seconds()

    async def _judge_self(
        self, recorded: str | None, living: Sequence[NodeState], now: datetime
    ) -> Refusal | None:
        """Return why this node must own no shards, or None. Record its version of the zone data if that is due."""
        figures, mine = self.figures, self._node.tzdata
        refusal = None
        # A store of one process uses the host's clock. The two differ for a while after that clock was set.
        if self._host_time is not None and self._store.capabilities.concurrent_writers:
            skew = self._host_time() - self._clock.now()
            figures.skew = skew.total_seconds()
            was_refused = figures.refusal is Refusal.CLOCK
            if refuse_clock(skew, limit=self._settings.clock_limit, was_refused=was_refused):
                refusal = Refusal.CLOCK
        if refusal is None:
            versions = [node.facts.tzdata for node in living if node.refusal is not Refusal.CLOCK]
            chosen = choose_tzdata(recorded, mine, versions)
            if chosen is not None:
                if await self._write(self._store.record_tzdata(chosen, expected=recorded, now=now)):
                    recorded = chosen
                else:  # another node was first
                    recorded = (await self._store.read_cluster()).tzdata
            if recorded != mine:
                refusal = Refusal.TZDATA
        figures.recorded_tzdata = recorded
        if refusal is not figures.refusal:
            tell = _log.info if refusal is None else _log.warning
            event = "shards_accepted" if refusal is None else "shards_refused"
            tell(event, reason=refusal, skew=figures.skew, tzdata=mine, recorded_tzdata=recorded)
            figures.refusal = refusal
        return refusal

    async def _divide(self, living: Sequence[NodeState], now: datetime) -> None:
        assert self._watch is not None
        # Compare the version itself: a node that has refused may not know yet that the recorded version has changed.
        present = {
            node.facts.id
            for node in living
            if node.refusal is not Refusal.CLOCK and node.facts.tzdata == self._node.tzdata
        }
        known = list_settled(self._watch)
        division = divide(
            self._node.id,
            await self._read_holdings(),
            used=self._ownership.epochs,
            present=present,
            settled=present.intersection(known),
        )
        if division.released:
            await self._write(
                self._store.release_shards(self._node.id, division.released, now=now),
            )
            self.figures.released += len(division.released)
            _log.info("shards_released", count=len(division.released), node=self._node.id)
        taken: dict[int, int] = {}
        if division.wanted:
            taken = await self._write(self._store.take_shards(self._node.id, division.wanted, now=now))
            self.figures.taken += len(taken)
            _log.info("shards_taken", count=len(taken), node=self._node.id)
        self._ownership.update(division.kept | taken)

    async def _give_up(self, now: datetime) -> None:
        """Stop planning, and let other nodes take the shards that this node holds."""
        self._ownership.update({})
        held = {
            shard: epoch for shard, epoch, holder in await self._read_holdings() if holder == self._node.id
        }
        if held:
            await self._write(self._store.release_shards(self._node.id, held, now=now))
            self.figures.released += len(held)

    async def _read_holdings(self) -> list[Holding]:
        """Return all shards. The shards of dead nodes have no holder."""
        return [
            (shard, epoch, None if beats is None else node_id)
            for shard, epoch, node_id, beats in await self._store.read_shards()
        ]
