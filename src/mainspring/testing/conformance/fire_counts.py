"""The maximum of a job's fires: how many are left, and what changes that."""

from __future__ import annotations

from mainspring.core.clocks import ChangeVerdict
from mainspring.core.ids import SHARDS
from mainspring.core.model import Job
from mainspring.ports.store import Store
from mainspring.ports.store.schedule import FireResult, FireStatus
from mainspring.testing.conformance.calendars import add_user, make_calendar, make_replan, uses, write
from mainspring.testing.factories import (
    add_job,
    at,
    make_change,
    make_edit,
    make_fire,
    make_pause,
    make_spec,
    own_shards,
    read_job,
)

DONE = [ChangeVerdict.DONE]


async def add_counted(store: Store, max_fires: int = 3) -> Job:
    return await add_job(store, make_spec(max_fires=max_fires), next_fire_at=at(60))


class FireCounts:
    """A clock keeps how many fires are left. Who wins a fire writes it; an edit sets it; a pause leaves it alone."""

    __test__ = False

    async def test_new_job_has_all_of_its_fires_left_and_others_have_no_count(self, store: Store) -> None:
        counted, other = await add_counted(store), await add_job(store, next_fire_at=at(30))
        assert (counted.fires_left, other.fires_left) == (3, None)
        due = await store.read_due(range(SHARDS), until=at(60), limit=10)
        assert [(clock.job_id, clock.fires_left) for clock in due] == [(other.id, None), (counted.id, 3)]
        [page] = [await store.list_jobs(counted.tenant)]
        assert {job.id: job.fires_left for job in page} == {counted.id: 3, other.id: None}

    async def test_fire_that_is_won_writes_how_many_are_left(self, store: Store) -> None:
        epochs = await own_shards(store)
        jobs = [
            await add_counted(store, 2),
            await add_job(store, next_fire_at=at(60)),
            await add_counted(store),
        ]
        await store.record_fires([make_fire(job) for job in jobs], epochs=epochs, now=at(60))
        assert [(await read_job(store, job.id)).fires_left for job in jobs] == [1, None, 2]
        last = make_fire(await read_job(store, jobs[0].id), next_fire_at=None)
        await store.record_fires([last], epochs=epochs, now=at(120))
        finished = await read_job(store, jobs[0].id)
        assert (finished.next_fire_at, finished.fires_left) == (None, 0)

    async def test_fire_that_is_lost_or_fenced_uses_up_nothing(self, store: Store) -> None:
        job = await add_counted(store)
        epochs = await own_shards(store)
        fire = make_fire(job)
        await store.record_fires([fire], epochs=epochs, now=at(60))
        assert await store.record_fires([fire], epochs=epochs, now=at(60)) == [FireResult(FireStatus.LOST)]
        again = make_fire(await read_job(store, job.id))
        late = {shard: epoch - 1 for shard, epoch in epochs.items()}
        fenced = await store.record_fires([again], epochs=late, now=at(120))
        assert fenced == [FireResult(FireStatus.FENCED)]
        assert (await read_job(store, job.id)).fires_left == 2

    async def test_fire_planned_before_an_edit_does_not_touch_its_count(self, store: Store) -> None:
        job = await add_counted(store)
        epochs = await own_shards(store)
        fire = make_fire(job)
        edit = make_edit(job, make_spec(name=job.spec.name, max_fires=9), fires_left=9)
        assert await store.edit_jobs([edit], now=at(1)) == DONE
        assert await store.record_fires([fire], epochs=epochs, now=at(60)) == [FireResult(FireStatus.LOST)]
        assert (await read_job(store, job.id)).fires_left == 9

    async def test_edit_sets_the_count_or_takes_it_away(self, store: Store) -> None:
        job = await add_counted(store)
        assert await store.edit_jobs([make_edit(job, fires_left=7)], now=at(1)) == DONE
        job = await read_job(store, job.id)
        assert job.fires_left == 7
        assert await store.edit_jobs([make_edit(job, fires_left=None)], now=at(2)) == DONE
        assert (await read_job(store, job.id)).fires_left is None

    async def test_edit_that_comes_too_late_leaves_the_count_alone(self, store: Store) -> None:
        job = await add_counted(store)
        epochs = await own_shards(store)
        await store.record_fires([make_fire(job)], epochs=epochs, now=at(60))
        moved = await store.edit_jobs([make_edit(job, fires_left=9)], now=at(61))
        assert moved == [ChangeVerdict.MOVED]
        assert (await read_job(store, job.id)).fires_left == 2

    async def test_pause_and_resume_keep_the_count(self, store: Store) -> None:
        job = await add_counted(store)
        assert await store.pause_jobs([make_pause(job, from_at=at(60))], now=at(1)) == DONE
        paused = await read_job(store, job.id)
        assert (paused.is_paused, paused.fires_left) == (True, 3)
        assert await store.resume_jobs([make_change(paused, next_fire_at=at(90))], now=at(2)) == DONE
        resumed = await read_job(store, job.id)
        assert (resumed.next_fire_at, resumed.fires_left) == (at(90), 3)

    async def test_new_version_of_a_calendar_sets_the_count(self, store: Store) -> None:
        await write(store, make_calendar("off", 1))
        jobs = [await add_user(store, "off"), await add_user(store, "off")]
        await write(store, make_calendar("off", 2))
        newest = await uses(store, "off", version=2)
        plans = [make_replan(jobs[0], newest, fires_left=4), make_replan(jobs[1], newest)]
        assert await store.replan_jobs(plans, now=at(1)) == DONE * 2
        assert [(await read_job(store, job.id)).fires_left for job in jobs] == [4, None]
