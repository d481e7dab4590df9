"""Starts of the cluster: who makes them, and what they write to the clocks of jobs at start."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from mainspring.core.clocks import NextFire
from mainspring.core.model import FireRangeKind, Job, JobSpec
from mainspring.core.starts import REASON_NEXT_START
from mainspring.core.triggers import AtStart, Interval
from mainspring.ports.store import Store
from mainspring.ports.store.jobs import ClockChange, JobEdit
from mainspring.ports.store.schedule import FireStatus
from mainspring.testing.factories import (
    MINUTE,
    START,
    add_job,
    at,
    make_fire,
    make_node,
    make_spec,
    own_shards,
    read_job,
)


async def _beat(store: Store, node_id: str = "a") -> None:
    await store.beat_node(make_node(node_id), now=START)


async def _start(store: Store, seconds: float = 0, node_id: str = "a") -> bool:
    await _beat(store, node_id)
    return await store.start_cluster(node_id, now=at(seconds))


async def _leave(store: Store, node_id: str = "a") -> None:
    await store.leave_shards(node_id, {}, now=START)


async def _members(store: Store) -> set[str]:
    return {node.facts.id for node in (await store.read_cluster()).nodes if node.is_member}


def _at_start() -> JobSpec:
    return make_spec(trigger=AtStart())


def _change(job: Job) -> ClockChange:
    return ClockChange(job_id=job.id, revision=job.revision, fire_at=job.next_fire_at)


class Starts:
    """The first node of a cluster starts it, once, and jobs at start are due from that instant."""

    __test__ = False

    async def test_the_first_node_starts_the_cluster(self, store: Store) -> None:
        assert await _start(store)
        assert await _members(store) == {"a"}

    async def test_a_cluster_with_a_member_does_not_start(self, store: Store) -> None:
        await _start(store)
        assert not await _start(store, 1)
        assert not await _start(store, 1, "b")
        assert await _members(store) == {"a"}

    async def test_a_node_that_is_not_there_starts_nothing(self, store: Store) -> None:
        job = await add_job(store, _at_start())
        assert not await store.start_cluster("a", now=START)
        assert (await read_job(store, job.id)).next_fire_at is None

    async def test_of_nodes_that_start_together_one_does(self, store: Store) -> None:
        names = [f"node-{number}" for number in range(5)]
        for name in names:
            await _beat(store, name)
        started = await asyncio.gather(*(store.start_cluster(name, now=START) for name in names))
        assert sum(started) == 1
        assert len(await _members(store)) == 1

    async def test_a_member_that_beats_stays_one(self, store: Store) -> None:
        await _start(store)
        await _beat(store)
        assert await _members(store) == {"a"}

    async def test_a_node_joins_by_its_beat(self, store: Store) -> None:
        await _start(store)
        await _beat(store, "b")
        await store.beat_node(make_node("b"), is_member=True, now=START)
        assert await _members(store) == {"a", "b"}

    async def test_a_member_that_leaves_takes_the_others_in(self, store: Store) -> None:
        await _start(store)
        await _beat(store, "b")
        await _leave(store)
        assert await _members(store) == {"b"}
        assert not await store.start_cluster("b", now=at(1))

    async def test_a_node_that_never_joined_takes_nobody_in(self, store: Store) -> None:
        await _beat(store, "a")
        await _beat(store, "b")
        await _leave(store, "a")
        assert await _members(store) == set()
        assert await store.start_cluster("b", now=at(1))

    async def test_after_the_last_one_left_the_cluster_starts_again(self, store: Store) -> None:
        await _start(store)
        await _leave(store)
        assert await _start(store, 1)

    async def test_after_the_last_one_died_the_cluster_starts_again(self, store: Store) -> None:
        await _start(store)
        [node] = (await store.read_cluster()).nodes
        assert await store.expire_nodes([("a", node.beats)], now=START) == [True]
        assert await _start(store, 1, "b")

    async def test_jobs_at_start_are_due_at_the_start(self, store: Store) -> None:
        job = await add_job(store, _at_start())
        others = [await add_job(store), await add_job(store, make_spec(trigger=Interval(MINUTE, START)))]
        before = [await read_job(store, other.id) for other in others]
        await _start(store, 5)
        assert (await read_job(store, job.id)).next_fire_at == at(5)
        assert [await read_job(store, other.id) for other in others] == before
        epochs = await own_shards(store)
        [clock] = await store.read_due(sorted(epochs), until=at(5), limit=10)
        assert (clock.job_id, clock.fire_at, clock.due_at) == (job.id, at(5), at(5))

    async def test_the_fire_of_a_start_is_won_once(self, store: Store) -> None:
        job = await add_job(store, _at_start())
        await _start(store, 5)
        epochs = await own_shards(store)
        fire = make_fire(await read_job(store, job.id), next_fire_at=None)
        first, second = [
            (await store.record_fires([fire], epochs=epochs, now=at(5)))[0].status for _ in range(2)
        ]
        assert (first, second) == (FireStatus.FIRED, FireStatus.LOST)
        assert (await read_job(store, job.id)).next_fire_at is None

    async def test_a_fire_of_the_start_before_gives_way_to_the_next_one(self, store: Store) -> None:
        job = await add_job(store, _at_start())
        await _start(store, 5)
        await _leave(store)
        await _start(store, 9)
        now = await read_job(store, job.id)
        assert (now.next_fire_at, now.fired_through) == (at(9), at(5))
        [gap] = await store.list_fire_ranges(job.id)
        assert (gap.kind, gap.from_at, gap.to_at) == (FireRangeKind.GAP, at(5), at(5))
        assert (gap.reason, gap.is_open) == (REASON_NEXT_START, False)

    async def test_a_paused_job_has_a_record_and_no_fire(self, store: Store) -> None:
        job = await add_job(store, _at_start())
        await store.pause_jobs([_change(await read_job(store, job.id))], now=START)
        await _start(store, 5)
        paused = await read_job(store, job.id)
        assert (paused.next_fire_at, paused.fired_through) == (None, at(5))
        [gap] = await store.list_fire_ranges(job.id)
        assert (gap.from_at, gap.to_at, gap.reason) == (at(5), at(5), "paused")
        await store.resume_jobs([_change(paused)], now=at(6))
        assert (await read_job(store, job.id)).next_fire_at is None

    async def test_a_clock_that_was_set_back_names_a_later_instant(self, store: Store) -> None:
        job = await add_job(store, _at_start())
        await _start(store, 5)
        epochs = await own_shards(store)
        fire = make_fire(await read_job(store, job.id), next_fire_at=None)
        await store.record_fires([fire], epochs=epochs, now=at(5))
        await store.leave_shards("node-1", epochs, now=START)
        await _leave(store)
        assert await _start(store, -60)
        assert (await read_job(store, job.id)).next_fire_at == at(5) + timedelta(microseconds=1)

    async def test_an_edit_takes_a_job_in_and_out(self, store: Store) -> None:
        job = await add_job(store, make_spec(name="in", trigger=Interval(MINUTE, START)))
        out = await add_job(store, make_spec(name="out", trigger=AtStart()))
        now = [await read_job(store, one.id) for one in (job, out)]
        edits = [
            JobEdit(
                job_id=one.id,
                revision=one.revision,
                fire_at=one.next_fire_at,
                spec=make_spec(name=one.spec.name, trigger=trigger),
                next_fire=next_fire,
            )
            for one, trigger, next_fire in (
                (now[0], AtStart(), None),
                (now[1], Interval(MINUTE, START), NextFire(at(60), at(60))),
            )
        ]
        await store.edit_jobs(edits, now=START)
        await _start(store, 5)
        assert (await read_job(store, job.id)).next_fire_at == at(5)
        assert (await read_job(store, out.id)).next_fire_at == at(60)

    async def test_a_deleted_job_does_not_fire(self, store: Store) -> None:
        job = await add_job(store, _at_start())
        await store.delete_jobs([_change(await read_job(store, job.id))], now=START)
        assert await _start(store, 5)
        assert await store.list_fire_ranges(job.id) == []
