"""Several nodes on one store: each takes its share, gives up what is another's, and takes over from the dead."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from mainspring.core.fairness import LaneOrder
from mainspring.core.ids import SHARDS, LaneId
from mainspring.core.model import Lane, LaneKey, Priority
from mainspring.core.reach import Reach
from mainspring.core.shards import Refusal, find_owners
from mainspring.engine.common.exchange import ServedExchange
from mainspring.engine.common.write_health import WriteHealth
from mainspring.engine.scheduling.membership import Membership
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.engine.scheduling.shards import Shards, ShardSettings
from mainspring.errors import StoreUnavailable
from mainspring.ports.store import StoreCapabilities
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock, ManualWaiter
from mainspring.testing.factories import START, make_node

PERIOD = 1.0
STEP = 0.1
TAKE_OVER = 4 * PERIOD + STEP


class SharedStore(MemoryStore):
    """A memory store that stands for one which several processes may write; can be told to refuse a verb."""

    def __init__(self, *, time: Callable[[], datetime]) -> None:
        super().__init__(time=time)
        self.is_shared = True
        self.refused: set[str] = set()

    @property
    def capabilities(self) -> StoreCapabilities:
        return replace(super().capabilities, concurrent_writers=self.is_shared)

    def __getattribute__(self, name: str) -> Any:
        async def refuse(*_: object, **__: object) -> None:
            raise StoreUnavailable(name)

        is_refused = name in object.__getattribute__(self, "__dict__").get("refused", ())
        return refuse if is_refused else super().__getattribute__(name)


class Node:
    """One node's service; `at` is the time of its next tick."""

    def __init__(self, cluster: Cluster, name: str, *, tzdata: str = "2026a", period: float = PERIOD) -> None:
        self.name = name
        self.ownership = Ownership()
        self.skew = 0.0
        self.at = cluster.clock.monotonic()
        self.gone = False
        self.order = LaneOrder()
        self.shards = Shards(
            cluster.store,
            node=replace(make_node(name), tzdata=tzdata),
            ownership=self.ownership,
            clock=cluster.clock,
            waiter=ManualWaiter(),
            settings=ShardSettings(period=timedelta(seconds=period), clock_limit=timedelta(seconds=5)),
            write_health=WriteHealth(),
            host_time=lambda: cluster.clock.now() + timedelta(seconds=self.skew),
            served=ServedExchange(self.order),
            membership=Membership(cluster.store, node_id=name, on_start=lambda: cluster.starts.append(name)),
        )

    @property
    def owned(self) -> set[int]:
        return set(self.ownership.epochs)


class Cluster:
    """Nodes that tick, each in its own phase, while time passes in small steps."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = SharedStore(time=self.clock.now)
        self.nodes: list[Node] = []
        self.gaps: dict[int, float] = {}
        """How long each shard was planned for by nobody, at a stretch, at most."""
        self._unowned: dict[int, float] = {}
        self.starts: list[str] = []
        """The nodes that started the cluster, in order."""

    async def add(self, name: str, **given: Any) -> Node:
        node = Node(self, name, **given)
        self.nodes.append(node)
        await self.tick(node)
        return node

    async def tick(self, node: Node) -> None:
        try:
            node.at += await node.shards.tick(self.clock.now())
        except StoreUnavailable:
            node.at += STEP

    async def leave(self, node: Node) -> None:
        self.kill(node)
        await node.shards.leave(self.clock.now())

    def kill(self, node: Node) -> None:
        node.gone = True
        self.nodes.remove(node)

    async def advance(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP)):
            self.clock.advance(STEP)
            for node in self.nodes:
                if node.at <= self.clock.monotonic() + STEP / 10:
                    await self.tick(node)
            await self._watch_gaps()

    async def _watch_gaps(self) -> None:
        epochs = {lease.shard: lease.epoch for lease in await MemoryStore.read_shards(self.store)}
        planned = {
            shard
            for node in self.nodes
            for shard, epoch in node.ownership.epochs.items()
            if epochs[shard] == epoch
        }
        at = self.clock.monotonic()
        for shard in range(SHARDS):
            if shard in planned:
                self._unowned.pop(shard, None)
            else:
                gap = at - self._unowned.setdefault(shard, at)
                self.gaps[shard] = max(self.gaps.get(shard, 0.0), gap)

    @property
    def longest_gap(self) -> float:
        return max(self.gaps.values(), default=0.0)

    def assert_divided(self) -> None:
        owners = find_owners(frozenset(node.name for node in self.nodes))
        for node in self.nodes:
            assert node.owned == {shard for shard, owner in enumerate(owners) if owner == node.name}


@pytest.fixture
async def cluster() -> Cluster:
    return Cluster()


async def make_cluster(cluster: Cluster, count: int) -> list[Node]:
    nodes = []
    for number in range(count):
        nodes.append(await cluster.add(f"node-{number}"))
        await cluster.advance(0.3)
    await cluster.advance(8 * PERIOD)
    cluster.gaps.clear()
    return nodes


async def test_lone_node_owns_everything_at_once(cluster: Cluster) -> None:
    node = await cluster.add("a")
    assert len(node.owned) == SHARDS
    assert node.shards.figures.owned == SHARDS


async def test_node_that_joins_gets_its_share_without_a_gap(cluster: Cluster) -> None:
    [first] = await make_cluster(cluster, 1)
    second = await cluster.add("node-1")
    await cluster.advance(2 * PERIOD)
    assert len(first.owned) == SHARDS  # who has just come may be gone again in a moment
    await cluster.advance(4 * PERIOD)
    cluster.assert_divided()
    assert cluster.longest_gap == 0.0
    assert first.shards.figures.released == second.shards.figures.taken == len(second.owned)


async def test_joining_moves_shards_to_the_new_node_only(cluster: Cluster) -> None:
    nodes = await make_cluster(cluster, 3)
    before = {node.name: node.owned for node in nodes}
    await cluster.add("node-3")
    await cluster.advance(8 * PERIOD)
    cluster.assert_divided()
    for node in nodes:
        assert node.owned < before[node.name]


async def test_shards_of_a_dead_node_are_taken_within_four_periods(cluster: Cluster) -> None:
    nodes = await make_cluster(cluster, 3)
    cluster.kill(nodes[0])
    await cluster.advance(TAKE_OVER)
    cluster.assert_divided()
    assert cluster.longest_gap <= TAKE_OVER
    assert [node.facts.id for node in (await cluster.store.read_cluster()).nodes] == ["node-1", "node-2"]


async def test_nodes_of_different_periods_are_each_judged_by_their_own(cluster: Cluster) -> None:
    slow = await cluster.add("node-0", period=4 * PERIOD)
    quick = await cluster.add("node-1")
    await cluster.advance(40 * PERIOD)
    cluster.assert_divided()
    assert slow.shards.figures.taken == SHARDS  # at its start, and nobody was taken for dead since
    assert quick.shards.figures.taken == len(quick.owned)
    cluster.kill(quick)
    await cluster.advance(TAKE_OVER)  # the slow one has looked as often as the quick one beat
    cluster.assert_divided()
    quick = await cluster.add("node-1", period=PERIOD)
    await cluster.advance(40 * PERIOD)
    cluster.assert_divided()
    cluster.kill(slow)
    await cluster.advance(8 * PERIOD)
    assert len(quick.owned) < SHARDS  # no longer than two of its own periods
    await cluster.advance(9 * PERIOD)
    cluster.assert_divided()


async def test_default_settings_take_over_within_six_seconds() -> None:
    assert 4 * ShardSettings().period <= timedelta(seconds=5.6)


async def test_shards_of_a_node_that_leaves_are_taken_at_the_next_look(cluster: Cluster) -> None:
    nodes = await make_cluster(cluster, 3)
    await cluster.leave(nodes[1])
    await cluster.advance(PERIOD)
    cluster.assert_divided()
    assert cluster.longest_gap <= PERIOD


async def test_all_but_one_die_and_the_last_one_owns_everything(cluster: Cluster) -> None:
    nodes = await make_cluster(cluster, 4)
    for node in nodes[1:]:
        cluster.kill(node)
    await cluster.advance(TAKE_OVER)
    cluster.assert_divided()


async def test_node_that_dies_before_it_takes_what_was_given_up_leaves_no_gap(cluster: Cluster) -> None:
    [first] = await make_cluster(cluster, 1)
    second = await cluster.add("node-1")
    while first.shards.figures.released == 0:
        await cluster.advance(STEP)
    cluster.kill(second)
    await cluster.advance(TAKE_OVER)
    assert len(first.owned) == SHARDS
    assert cluster.longest_gap == 0.0


async def test_node_that_was_paused_loses_its_shards_and_gets_them_back(cluster: Cluster) -> None:
    nodes = await make_cluster(cluster, 3)
    cluster.kill(nodes[0])
    stale = dict(nodes[0].ownership.epochs)
    await cluster.advance(10 * PERIOD)
    cluster.assert_divided()
    epochs = {lease.shard: lease.epoch for lease in await cluster.store.read_shards()}
    assert all(epochs[shard] > epoch for shard, epoch in stale.items())
    nodes[0].at = cluster.clock.monotonic()
    cluster.nodes.append(nodes[0])
    await cluster.advance(STEP)
    assert nodes[0].owned == set()
    await cluster.advance(8 * PERIOD)
    cluster.assert_divided()


async def test_node_that_starts_again_and_again_moves_nothing(cluster: Cluster) -> None:
    [first] = await make_cluster(cluster, 1)
    for number in range(5):
        node = await cluster.add(f"restless-{number}")
        await cluster.advance(2 * PERIOD)
        cluster.kill(node)
    await cluster.advance(TAKE_OVER)
    assert first.shards.figures.released == 0
    assert cluster.longest_gap == 0.0


async def test_node_that_cannot_take_shards_is_silent_and_the_others_take_them(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heartbeat comes last: who cannot do its duty is not waited for."""
    nodes = await make_cluster(cluster, 2)
    cluster.kill(nodes[0])
    lame = await cluster.add("lame")

    async def refuse(*_: object, **__: object) -> None:
        raise StoreUnavailable("take_shards")

    lame.shards._store = _Lame(cluster.store, refuse)  # type: ignore[assignment]
    await cluster.advance(12 * PERIOD)
    assert len(nodes[1].owned) == SHARDS


class _Lame:
    def __init__(self, store: MemoryStore, refuse: Callable[..., Awaitable[None]]) -> None:
        self._store = store
        self.take_shards = refuse

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_outage_of_the_store_declares_nobody_dead(cluster: Cluster) -> None:
    nodes = await make_cluster(cluster, 2)
    verbs = {"read_cluster", "read_shards", "beat_node", "take_shards", "release_shards", "expire_nodes"}
    cluster.store.refused |= verbs
    await cluster.advance(10 * PERIOD)
    cluster.store.refused.clear()
    await cluster.advance(6 * PERIOD)
    cluster.assert_divided()
    assert [node.shards.figures.taken for node in nodes] == [SHARDS, len(nodes[1].owned)]


async def test_store_that_takes_no_writes_declares_nobody_dead(cluster: Cluster) -> None:
    """On a full disk everybody can see that no counter rises."""
    nodes = await make_cluster(cluster, 2)
    cluster.store.refused |= {"beat_node", "take_shards", "release_shards", "expire_nodes"}
    await cluster.advance(10 * PERIOD)
    cluster.store.refused.clear()
    await cluster.advance(6 * PERIOD)
    cluster.assert_divided()
    assert [node.shards.figures.taken for node in nodes] == [SHARDS, len(nodes[1].owned)]


async def test_only_process_of_a_store_takes_from_its_predecessor_at_once() -> None:
    cluster = Cluster()
    cluster.store = MemoryStore(time=cluster.clock.now)  # type: ignore[assignment]
    first = await cluster.add("first")
    cluster.kill(first)
    second = await cluster.add("second")
    assert len(second.owned) == SHARDS
    assert [node.facts.id for node in (await cluster.store.read_cluster()).nodes] == ["second"]


async def test_fenced_write_drops_the_shard_and_calls_for_a_look(cluster: Cluster) -> None:
    node = await cluster.add("a")
    used = node.ownership.epochs
    await cluster.store.take_shards("b", {3: used[3]}, now=cluster.clock.now())
    node.ownership.fence({3}, used=used)
    assert node.owned == set(range(SHARDS)) - {3}
    assert node.ownership.fenced == 1
    await node.shards.waiter.wait(60)  # which returns at once
    node.ownership.fence({3}, used=used)
    assert node.ownership.fenced == 1


async def test_shard_taken_again_meanwhile_is_not_dropped_by_an_old_fence() -> None:
    ownership = Ownership({3: 8})
    ownership.fence({3}, used={3: 7})
    assert ownership.epochs == {3: 8}


async def test_gain_of_shards_is_told_and_their_loss_is_not() -> None:
    ownership = Ownership()
    told: list[int] = []
    ownership.subscribe_gains(lambda: told.append(len(ownership.epochs)))
    for epochs in ({1: 1, 2: 1}, {1: 1}, {1: 1}, {1: 1, 3: 5}):
        ownership.update(epochs)
    assert told == [2, 2]


# -- nodes that refuse -----------------------------------------------------------------------------------------


async def test_clock_of_a_host_that_has_the_store_to_itself_is_not_judged(cluster: Cluster) -> None:
    cluster.store.is_shared = False
    node = await cluster.add("a")
    node.skew = 3600.0  # somebody set the clock, and the store's follows slowly
    await cluster.advance(10)
    assert (node.shards.figures.refusal, node.shards.figures.owned) == (None, SHARDS)


async def test_node_with_a_wrong_clock_takes_no_shards(cluster: Cluster) -> None:
    await make_cluster(cluster, 1)
    wrong = Node(cluster, "wrong")
    wrong.skew = -60.0
    cluster.nodes.append(wrong)
    await cluster.advance(8 * PERIOD)
    assert wrong.owned == set()
    figures = wrong.shards.figures
    assert (figures.refusal, figures.skew, figures.owned) == (Refusal.CLOCK, -60.0, 0)
    assert cluster.longest_gap == 0.0
    wrong.skew = 0.0
    await cluster.advance(8 * PERIOD)
    cluster.assert_divided()
    assert figures.refusal is None


async def test_node_whose_clock_goes_wrong_gives_its_shards_up_and_says_so_once(cluster: Cluster) -> None:
    nodes = await make_cluster(cluster, 2)
    with capture_logs() as logs:
        nodes[0].skew = 6.0
        await cluster.advance(2 * PERIOD)
        assert nodes[0].owned == set()
        assert len(nodes[1].owned) == SHARDS
        assert cluster.longest_gap <= PERIOD
        nodes[0].skew = 4.0  # within the limit, but not well within it
        await cluster.advance(8 * PERIOD)
        assert nodes[0].owned == set()
    refused = [entry for entry in logs if entry["event"] == "shards_refused"]
    assert [(entry["reason"], entry["log_level"]) for entry in refused] == [(Refusal.CLOCK, "warning")]


async def test_first_node_records_its_zone_data_and_another_version_takes_no_shards(cluster: Cluster) -> None:
    [first] = await make_cluster(cluster, 1)
    newer = await cluster.add("newer", tzdata="2026b")
    await cluster.advance(8 * PERIOD)
    assert (await cluster.store.read_cluster()).tzdata == "2026a"
    assert newer.owned == set()
    assert newer.shards.figures.refusal is Refusal.TZDATA
    assert len(first.owned) == SHARDS


async def test_upgrade_of_the_zone_data_is_over_when_the_last_old_node_leaves(cluster: Cluster) -> None:
    [*old] = await make_cluster(cluster, 2)
    for number, node in enumerate(old):
        await cluster.leave(node)
        await cluster.add(f"new-{number}", tzdata="2026b")
        await cluster.advance(8 * PERIOD)
    assert (await cluster.store.read_cluster()).tzdata == "2026b"
    cluster.assert_divided()
    assert cluster.longest_gap <= PERIOD


async def test_upgrade_is_over_too_when_the_last_old_node_dies(cluster: Cluster) -> None:
    [old] = await make_cluster(cluster, 1)
    for number in range(2):
        await cluster.add(f"new-{number}", tzdata="2026b")
    cluster.kill(old)
    await cluster.advance(8 * PERIOD)
    cluster.assert_divided()
    assert cluster.longest_gap <= TAKE_OVER + PERIOD


async def test_old_node_with_a_wrong_clock_does_not_keep_its_zone_data_recorded(cluster: Cluster) -> None:
    """Else nobody would own anything: the one refuses for its clock, the others for their zone data."""
    nodes = await make_cluster(cluster, 1)
    newer = await cluster.add("newer", tzdata="2026b")
    nodes[0].skew = 60.0
    await cluster.advance(3 * PERIOD)
    assert len(newer.owned) == SHARDS
    assert (await cluster.store.read_cluster()).tzdata == "2026b"


async def test_node_that_was_given_up_before_it_had_got_going_is_taken_back(cluster: Cluster) -> None:
    """Its host was so busy that its first heartbeat was its last for a while; its count begins at nought again."""
    first = await cluster.add("a")
    second = await cluster.add("b")
    cluster.nodes.remove(second)  # it hangs
    with capture_logs() as logs:
        await cluster.advance(TAKE_OVER)
        assert [log["nodes"] for log in logs if log["event"] == "nodes_lost"] == [["b"]]
        cluster.nodes.append(second)
        second.at = cluster.clock.monotonic()  # between two looks of the first
        await cluster.tick(second)
        await cluster.advance(2 * TAKE_OVER)
    assert [log["nodes"] for log in logs if log["event"] == "nodes_lost"] == [["b"]]
    assert first.owned
    cluster.assert_divided()


async def test_nodes_tell_each_other_what_they_gave(cluster: Cluster) -> None:
    teller, hearer, _ = await make_cluster(cluster, 3)
    key = LaneKey("q", "shell", "a", Priority.MEDIUM)
    for node in (teller, hearer):
        node.order.keep([Lane(LaneId(1), key, START)])
    [queue] = hearer.order._queues.values()
    before = queue.tenants.time("a")
    teller.order.times.learn("a", 2.0)
    teller.order.charge_lane(Reach(lambda queue, route: True), key, 3)
    for _ in range(30):
        if queue.tenants.time("a") == before:
            await cluster.advance(STEP)
    assert queue.tenants.time("a") - before == pytest.approx(6.0)
    assert hearer.order.times.mean("a") == 2.0


async def test_first_node_starts_the_cluster_and_those_that_join_do_not(cluster: Cluster) -> None:
    await make_cluster(cluster, 3)
    assert cluster.starts == ["node-0"]


async def test_last_node_leaves_and_the_next_one_starts_the_cluster(cluster: Cluster) -> None:
    [first] = await make_cluster(cluster, 1)
    await cluster.leave(first)
    await cluster.add("next")
    assert cluster.starts == ["node-0", "next"]


async def test_nodes_that_follow_each_other_without_a_gap_are_one_cluster(cluster: Cluster) -> None:
    before = await cluster.add("node-0")
    for number in range(1, 5):
        node = await cluster.add(f"node-{number}")
        await cluster.leave(before)  # at once: nobody has seen a heartbeat of the other
        await cluster.advance(2 * PERIOD)
        before = node
    await cluster.advance(TAKE_OVER)
    assert cluster.starts == ["node-0"]


async def test_death_of_the_node_that_started_starts_nothing(cluster: Cluster) -> None:
    nodes = await make_cluster(cluster, 2)
    cluster.kill(nodes[0])
    await cluster.advance(2 * TAKE_OVER)
    assert cluster.starts == ["node-0"]


async def test_after_all_were_killed_one_of_those_that_follow_starts_the_cluster(cluster: Cluster) -> None:
    for node in await make_cluster(cluster, 2):
        cluster.kill(node)
    for number in range(3):
        await cluster.add(f"new-{number}")
        await cluster.advance(STEP)
    assert len(cluster.starts) == 1  # those that were killed might live
    await cluster.advance(2 * TAKE_OVER)
    assert len(cluster.starts) == 2


async def test_node_that_was_killed_before_it_could_start_the_cluster_is_not_waited_for(
    cluster: Cluster,
) -> None:
    for node in await make_cluster(cluster, 2):
        cluster.kill(node)
    await cluster.advance(STEP)
    waiting = await cluster.add("waiting")
    await cluster.advance(PERIOD)
    last = await cluster.add("last")
    await cluster.advance(PERIOD)
    cluster.kill(waiting)
    await cluster.advance(TAKE_OVER)
    assert cluster.starts == ["node-0", last.name]


async def test_node_that_hung_while_it_was_alone_starts_nothing(cluster: Cluster) -> None:
    nodes = await make_cluster(cluster, 2)
    cluster.kill(nodes[0])
    await cluster.advance(TAKE_OVER)
    await cluster.leave(nodes[1])
    nodes[0].at = cluster.clock.monotonic()
    cluster.nodes.append(nodes[0])
    await cluster.advance(TAKE_OVER)
    assert cluster.starts == ["node-0"]


async def test_start_that_is_held_comes_when_it_is_released(cluster: Cluster) -> None:
    node = Node(cluster, "held")
    node.shards.membership.is_held = True
    cluster.nodes.append(node)
    await cluster.advance(3 * PERIOD)
    assert cluster.starts == []
    assert len(node.owned) == SHARDS
    node.shards.membership.is_held = False
    await cluster.advance(PERIOD)
    assert cluster.starts == ["held"]
