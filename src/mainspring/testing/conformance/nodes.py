"""Scheduler nodes and their shards: which node owns which shard, and that each shard has only one owner."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from mainspring.core.ids import SHARDS, job_shard
from mainspring.core.shards import Refusal
from mainspring.ports.store import Store
from mainspring.ports.store.nodes import ShardLease
from mainspring.ports.store.schedule import FireStatus
from mainspring.testing.factories import (
    START,
    add_job,
    at,
    make_fire,
    make_node,
    own_shards,
    read_job,
)


class Nodes:
    """Shards are taken by their epoch, have one owner at a time, and are given up for others to take."""

    __test__ = False

    async def test_all_shards_are_free_at_first(self, store: Store) -> None:
        leases = await store.read_shards()
        assert [lease.shard for lease in leases] == list(range(SHARDS))
        assert {(lease.node_id, lease.node_beats) for lease in leases} == {(None, None)}

    async def test_taking_raises_the_epoch(self, store: Store) -> None:
        before = {lease.shard: lease.epoch for lease in await store.read_shards()}
        await store.beat_node(make_node("a"), now=START)
        wanted = {3: before[3], 200: before[200], 7: before[7] + 5}
        assert await store.take_shards("a", wanted, now=START) == {3: before[3] + 1, 200: before[200] + 1}
        after = {lease.shard: lease for lease in await store.read_shards()}
        assert (after[3].epoch, after[3].node_id) == (before[3] + 1, "a")
        assert (after[7].epoch, after[7].node_id) == (before[7], None)

    async def test_only_one_of_many_concurrent_takers_gets_each_shard(self, store: Store) -> None:
        expected = {lease.shard: lease.epoch for lease in await store.read_shards()}
        nodes = [f"node-{number}" for number in range(5)]
        for node_id in nodes:
            await store.beat_node(make_node(node_id), now=START)
        backwards = dict(reversed(list(expected.items())))
        taken = await asyncio.gather(
            *(
                store.take_shards(node_id, backwards if number % 2 else expected, now=START)
                for number, node_id in enumerate(nodes)
            )
        )
        shards = [shard for epochs in taken for shard in epochs]
        assert sorted(shards) == list(range(SHARDS))
        owners = {lease.shard: lease.node_id for lease in await store.read_shards()}
        for node_id, epochs in zip(nodes, taken, strict=True):
            assert {owners[shard] for shard in epochs} <= {node_id}

    async def test_owner_beats_are_told_with_its_shards(self, store: Store) -> None:
        await own_shards(store, "a")

        async def beats() -> int:
            counters = {lease.node_beats for lease in await store.read_shards()}
            [counter] = counters
            assert counter is not None
            return counter

        first = await beats()
        await store.beat_node(make_node("a"), now=at(1))
        assert await beats() == first + 1
        await store.beat_node(make_node("b"), now=at(1))
        assert await beats() == first + 1

    async def test_a_heartbeat_tells_what_was_given_since_the_one_before(self, store: Store) -> None:
        await store.beat_node(make_node("a"), served=b"[1]", now=START)
        await store.beat_node(make_node("b"), now=START)
        assert [node.served for node in (await store.read_cluster()).nodes] == [b"[1]", None]
        await store.beat_node(make_node("a"), now=at(1))
        await store.beat_node(make_node("b"), served=b"[2]", now=at(1))
        assert [node.served for node in (await store.read_cluster()).nodes] == [None, b"[2]"]

    async def test_left_shards_are_free_at_once(self, store: Store) -> None:
        epochs = await own_shards(store, "a")
        await store.leave_shards("a", epochs, now=at(1))
        leases = await store.read_shards()
        assert {(lease.node_id, lease.node_beats) for lease in leases} == {(None, None)}
        assert len(await own_shards(store, "b")) == SHARDS
        assert all(lease.epoch > epochs[lease.shard] for lease in await store.read_shards())

    async def test_leaving_gives_up_only_what_is_held(self, store: Store) -> None:
        stale = await own_shards(store, "a")
        fresh = await own_shards(store, "b")
        await store.leave_shards("a", stale, now=at(1))
        leases = await store.read_shards()
        assert {(lease.node_id, lease.epoch == fresh[lease.shard]) for lease in leases} == {("b", True)}

    async def test_shards_of_a_vanished_node_have_no_counter(self, store: Store) -> None:
        epochs = await own_shards(store, "a")
        del epochs[9]
        await store.leave_shards("a", epochs, now=at(1))
        lease = (await store.read_shards())[9]
        assert isinstance(lease, ShardLease)
        assert lease.node_beats is None

    async def test_released_shards_are_free_and_good_until_they_are_taken(self, store: Store) -> None:
        epochs = await own_shards(store, "a")
        job = await add_job(store, next_fire_at=START)
        shard = job_shard(job.id)
        await store.release_shards("a", {shard: epochs[shard], 3: epochs[3]}, now=at(1))
        leases = await store.read_shards()
        assert {lease.shard for lease in leases if lease.node_id is None} == {shard, 3}
        assert {lease.shard: lease.epoch for lease in leases} == epochs
        [fired] = await store.record_fires([make_fire(job, next_fire_at=at(10))], epochs=epochs, now=at(1))
        assert fired.status is FireStatus.FIRED
        await store.beat_node(make_node("b"), now=at(2))
        assert await store.take_shards("b", {shard: epochs[shard]}, now=at(2)) == {shard: epochs[shard] + 1}
        fire = make_fire(await read_job(store, job.id), next_fire_at=at(20))
        [late] = await store.record_fires([fire], epochs=epochs, now=at(10))
        assert late.status is FireStatus.FENCED
        assert [node.facts.id for node in (await store.read_cluster()).nodes] == ["a", "b"]

    async def test_releasing_gives_up_only_what_is_held(self, store: Store) -> None:
        stale = await own_shards(store, "a")
        fresh = await own_shards(store, "b")
        await store.release_shards("a", stale, now=at(1))
        await store.release_shards("a", fresh, now=at(1))
        await store.release_shards("b", stale, now=at(1))
        assert {lease.node_id for lease in await store.read_shards()} == {"b"}

    async def test_cluster_shows_its_nodes_in_order(self, store: Store) -> None:
        assert (await store.read_cluster()).nodes == ()
        await store.beat_node(make_node("b"), now=START)
        await store.beat_node(make_node("B"), refusal=Refusal.TZDATA, now=at(1))
        period = timedelta(seconds=1.4)
        await store.beat_node(make_node("b"), period=period, refusal=Refusal.CLOCK, now=at(2))
        first, second = (await store.read_cluster()).nodes
        assert (first.facts, second.facts) == (make_node("B"), make_node("b"))
        assert (first.refusal, second.refusal) == (Refusal.TZDATA, Refusal.CLOCK)
        assert (first.period, second.period) == (None, period)
        assert (second.started_at, second.last_beat_at) == (START, at(2))
        assert second.beats > first.beats
        await store.beat_node(make_node("b"), now=at(3))
        assert (await store.read_cluster()).nodes[1].refusal is None

    async def test_node_is_expired_only_with_the_counter_that_was_judged(self, store: Store) -> None:
        epochs = await own_shards(store, "a")
        await store.beat_node(make_node("b"), now=START)
        counters = {node.facts.id: node.beats for node in (await store.read_cluster()).nodes}
        await store.beat_node(make_node("b"), now=at(1))
        judged = [("b", counters["b"]), ("nobody", 0), ("a", counters["a"])]
        assert await store.expire_nodes(judged, now=at(2)) == [False, False, True]
        assert [node.facts.id for node in (await store.read_cluster()).nodes] == ["b"]
        lease = (await store.read_shards())[0]
        assert (lease.epoch, lease.node_beats) == (epochs[0], None)
        await store.beat_node(make_node("a"), now=at(3))
        assert (await store.read_shards())[0].node_beats is not None

    async def test_zone_data_is_recorded_where_it_is_the_expected_one(self, store: Store) -> None:
        assert (await store.read_cluster()).tzdata is None
        assert not await store.record_tzdata("2026b", expected="2026a", now=START)
        assert await store.record_tzdata("2026a", expected=None, now=START)
        assert not await store.record_tzdata("2026b", expected=None, now=START)
        assert (await store.read_cluster()).tzdata == "2026a"
        assert await store.record_tzdata("2026b", expected="2026a", now=START)
        await store.beat_node(make_node("a"), now=START)
        await store.beat_node(make_node("b"), now=START)
        assert (await store.read_cluster()).tzdata == "2026b"

    async def test_one_of_many_records_the_first_zone_data(self, store: Store) -> None:
        versions = [f"2026{letter}" for letter in "abcde"]
        done = await asyncio.gather(
            *(store.record_tzdata(version, expected=None, now=START) for version in versions)
        )
        assert done.count(True) == 1
        assert (await store.read_cluster()).tzdata == versions[done.index(True)]
