"""The due window: the clocks that are to fire soon, by priority and by the instant at which they are due."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.core.ids import SHARDS
from mainspring.core.model import Priority
from mainspring.ports.store import Store
from mainspring.ports.store.schedule import DueClock, FireStatus
from mainspring.testing.factories import (
    MINUTE,
    START,
    add_job,
    at,
    make_change,
    make_edit,
    make_fire,
    make_next_fire,
    make_pause,
    make_spec,
    own_shards,
    read_job,
)

TIERS = (Priority.LOW, Priority.HIGH, Priority.MEDIUM)


async def read_all(store: Store, until: float = 3600) -> Sequence[DueClock]:
    return await store.read_due(range(SHARDS), until=at(until), limit=10)


class DueClocks:
    """The due window of some shards, the earliest first."""

    __test__ = False

    async def test_read_due_gives_the_earliest_first(self, store: Store) -> None:
        jobs = [await add_job(store, next_fire_at=at(second)) for second in (30, 10, 50, 20)]
        due = await store.read_due(range(SHARDS), until=at(30), limit=10)
        assert [clock.fire_at for clock in due] == [at(10), at(20), at(30)]
        first = due[0]
        job = jobs[1]
        assert (first.job_id, first.tenant, first.version) == (job.id, job.tenant, job.version)
        assert (first.priority, first.revision, first.fired_through) == (Priority.MEDIUM, job.revision, None)

    async def test_read_due_keeps_to_limit_and_bound(self, store: Store) -> None:
        for second in (30, 10, 20):
            await add_job(store, next_fire_at=at(second))
        due = await store.read_due(range(SHARDS), until=at(60), limit=2)
        assert [clock.fire_at for clock in due] == [at(10), at(20)]
        assert await store.read_due(range(SHARDS), until=at(9), limit=2) == []

    async def test_read_due_begins_where_it_is_told(self, store: Store) -> None:
        for second in (10, 20, 30):
            await add_job(store, next_fire_at=at(second))
        due = await store.read_due(range(SHARDS), since=at(20), until=at(60), limit=10)
        assert [clock.fire_at for clock in due] == [at(20), at(30)]

    async def test_read_due_keeps_to_the_shards(self, store: Store) -> None:
        jobs = [await add_job(store, next_fire_at=at(1), shard=shard) for shard in (0, 7, 255)]
        due = await store.read_due([255, 0, 100], until=at(1), limit=10)
        assert {clock.job_id for clock in due} == {jobs[0].id, jobs[2].id}

    async def test_read_due_leaves_out_jobs_without_a_next_fire(self, store: Store) -> None:
        await add_job(store)
        paused = await add_job(store, next_fire_at=at(1))
        deleted = await add_job(store, next_fire_at=at(1))
        await store.pause_jobs([make_pause(paused)], now=START)
        await store.delete_jobs([make_change(deleted)], now=START)
        assert await store.read_due(range(SHARDS), until=at(60), limit=10) == []


class DueClocksByPriority:
    """The due window holds the earliest of each priority, however many another one has."""

    __test__ = False

    async def test_read_due_gives_each_priority_its_own_places(self, store: Store) -> None:
        for number, priority in enumerate(TIERS):
            for second in (30, 20, 10):
                await add_job(store, make_spec(priority=priority), next_fire_at=at(second + number))
        due = await store.read_due(range(SHARDS), until=at(60), limit=2)
        assert [(clock.priority, clock.fire_at) for clock in due] == [
            (Priority.HIGH, at(11)),
            (Priority.HIGH, at(21)),
            (Priority.MEDIUM, at(12)),
            (Priority.MEDIUM, at(22)),
            (Priority.LOW, at(10)),
            (Priority.LOW, at(20)),
        ]

    async def test_edit_moves_a_clock_to_the_priority_of_its_definition(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        spec = make_spec(name=job.spec.name, priority=Priority.HIGH)
        await store.edit_jobs([make_edit(job, spec)], now=START)
        [due] = await read_all(store)
        assert (due.priority, due.version, due.fire_at) == (Priority.HIGH, 2, at(60))

    async def test_edit_of_a_paused_job_counts_when_it_is_resumed(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        await store.pause_jobs([make_pause(job)], now=START)
        spec = make_spec(name=job.spec.name, priority=Priority.LOW)
        await store.edit_jobs([make_edit(await read_job(store, job.id), spec)], now=at(1))
        paused = await read_job(store, job.id)
        await store.resume_jobs([make_change(paused, next_fire_at=at(90))], now=at(2))
        [due] = await read_all(store)
        assert (due.priority, due.fire_at) == (Priority.LOW, at(90))

    async def test_pause_and_resume_keep_the_priority(self, store: Store) -> None:
        job = await add_job(store, make_spec(priority=Priority.HIGH), next_fire_at=at(60))
        await store.pause_jobs([make_pause(job)], now=START)
        paused = await read_job(store, job.id)
        await store.resume_jobs([make_change(paused, next_fire_at=at(90))], now=at(1))
        [due] = await read_all(store)
        assert due.priority is Priority.HIGH


class FiresHeldBackByJitter:
    """A clock is due at its jittered instant. What identifies the fire is its nominal time all the same (law 2)."""

    __test__ = False

    async def test_clock_is_due_at_its_jittered_instant(self, store: Store) -> None:
        await add_job(store, next_fire_at=at(60), jitter=MINUTE)
        early = await add_job(store, next_fire_at=at(90))
        assert [clock.job_id for clock in await read_all(store, 119)] == [early.id]
        first, second = await read_all(store, 120)
        assert (first.fire_at, first.due_at) == (at(90), at(90))
        assert (second.fire_at, second.due_at) == (at(60), at(120))

    async def test_read_due_begins_at_a_jittered_instant(self, store: Store) -> None:
        await add_job(store, next_fire_at=at(60))
        held_back = await add_job(store, next_fire_at=at(50), jitter=MINUTE)
        [due] = await store.read_due(range(SHARDS), since=at(61), until=at(3600), limit=10)
        assert due.job_id == held_back.id

    async def test_fire_is_won_by_its_nominal_time_and_sets_when_the_next_is_due(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60), jitter=MINUTE)
        fire = make_fire(job, next_fire=make_next_fire(at(360), jitter=2 * MINUTE))
        epochs = await own_shards(store)
        [result] = await store.record_fires([fire], epochs=epochs, now=at(120))
        assert result.status is FireStatus.FIRED
        [due] = await read_all(store)
        assert (due.fire_at, due.due_at, due.fired_through) == (at(360), at(480), at(60))
        assert (await read_job(store, job.id)).next_fire_at == at(360)

    async def test_edit_and_resume_set_when_the_next_fire_is_due(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        await store.edit_jobs([make_edit(job, next_fire=make_next_fire(at(60), jitter=MINUTE))], now=START)
        [due] = await read_all(store)
        assert (due.fire_at, due.due_at) == (at(60), at(120))
        edited = await read_job(store, job.id)
        await store.pause_jobs([make_pause(edited)], now=at(1))
        paused = await read_job(store, job.id)
        change = make_change(paused, next_fire=make_next_fire(at(180), jitter=MINUTE))
        await store.resume_jobs([change], now=at(2))
        [due] = await read_all(store)
        assert (due.fire_at, due.due_at) == (at(180), at(240))
