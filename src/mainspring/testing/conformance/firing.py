"""Fires: winning each fire once, and everything that makes a plan stale."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from mainspring.core.model import FireRangeKind, Job, Overlap, RunKind
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.schedule import Fire, FireResult, FireStatus
from mainspring.testing.conformance.jobs import UNKNOWN
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    all_lanes,
    at,
    claim,
    make_change,
    make_edit,
    make_fire,
    make_fire_range,
    make_node,
    make_pause,
    make_scheduled_run,
    own_shards,
    read_held,
    read_job,
    submit,
)

ALL_SHARDS = range(256)
LOST = [FireResult(FireStatus.LOST)]
FENCED = [FireResult(FireStatus.FENCED)]


async def fire_once(
    store: Store, job: Job, epochs: Mapping[int, int] | None = None, *, now: float = 60
) -> FireResult:
    """Record the job's next fire."""
    epochs = await own_shards(store) if epochs is None else epochs
    [result] = await store.record_fires([make_fire(job)], epochs=epochs, now=at(now))
    return result


class Firing:
    """A fire inserts its runs, moves the clock, and returns the runs that went live."""

    __test__ = False

    async def test_fire_inserts_the_run_and_moves_the_clock(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        result = await fire_once(store, job)
        assert result.status is FireStatus.FIRED
        [run] = await store.get_runs(result.run_ids)
        assert run is not None
        assert (run.job_id, run.version, run.kind) == (job.id, 1, RunKind.SCHEDULED)
        assert (run.state, run.fire_at, run.due_at) == (RunState.PENDING, at(60), at(60))
        fired = await read_job(store, job.id)
        assert (fired.next_fire_at, fired.fired_through) == (at(120), at(60))
        assert fired.revision == job.revision

    async def test_fire_without_a_following_instant_exhausts_the_clock(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        epochs = await own_shards(store)
        fire = make_fire(job, next_fire_at=None)
        await store.record_fires([fire], epochs=epochs, now=at(60))
        assert (await read_job(store, job.id)).next_fire_at is None
        assert await store.read_due(ALL_SHARDS, until=at(10**6), limit=10) == []

    async def test_fires_of_many_jobs_answer_in_order(self, store: Store) -> None:
        epochs = await own_shards(store)
        jobs = [await add_job(store, next_fire_at=at(60)) for _ in range(5)]
        await store.edit_jobs([make_edit(jobs[3])], now=at(1))
        fires = [make_fire(job) for job in reversed(jobs)]
        results = await store.record_fires(fires, epochs=epochs, now=at(60))
        fired, lost = FireStatus.FIRED, FireStatus.LOST
        assert [result.status for result in results] == [fired, lost, fired, fired, fired]
        for fire, result in zip(fires, results, strict=True):
            runs = await store.get_runs(result.run_ids)
            assert [run and run.job_id for run in runs] == ([fire.job_id] if result.run_ids else [])

    async def test_late_fire_jumps_past_now_and_leaves_a_fire_range(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        epochs = await own_shards(store)
        fire_range = make_fire_range(
            job, from_at=at(60), to_at=at(540), kind=FireRangeKind.GAP, reason="misfire"
        )
        fire = make_fire(job, next_fire_at=at(660), fired_through=at(600), runs=(), fire_ranges=(fire_range,))
        assert await store.record_fires([fire], epochs=epochs, now=at(601)) == [FireResult(FireStatus.FIRED)]
        jumped = await read_job(store, job.id)
        assert (jumped.next_fire_at, jumped.fired_through) == (at(660), at(600))
        [kept] = await store.list_fire_ranges(job.id)
        assert (kept.from_at, kept.to_at, kept.reason) == (at(60), at(540), "misfire")

    async def test_fired_run_starts_no_earlier_than_now_and_keeps_its_due_instant(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        result = await fire_once(store, job, now=75)
        [run] = await store.get_runs(result.run_ids)
        assert run is not None
        assert (run.due_at, run.ready_at) == (at(60), at(75))

    async def test_jittered_run_is_claimable_from_its_due_instant(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        epochs = await own_shards(store)
        fire = make_fire(job, runs=(make_scheduled_run(job, at(60), due_at=at(63)),))
        await store.record_fires([fire], epochs=epochs, now=at(60))
        session_id = await add_session(store)
        assert await claim(store, session_id, now=at(62)) == ()
        [leased] = await claim(store, session_id, now=at(63))
        assert (leased.fire_at, leased.due_at) == (at(60), at(63))


class EveryFireLeavesARecordLaw4:
    """A fire that does not become work is a SKIPPED run with its reason."""

    __test__ = False

    async def test_planned_skip_goes_straight_to_the_history(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        epochs = await own_shards(store)
        skipped = make_scheduled_run(job, at(60), skip_reason="misfire")
        fire = make_fire(job, runs=(skipped, make_scheduled_run(job, at(61))))
        [result] = await store.record_fires([fire], epochs=epochs, now=at(60))
        assert len(result.run_ids) == 1
        [record] = await store.list_runs("default", state=RunState.SKIPPED)
        assert (record.reason, record.fire_at, record.finished_at) == ("misfire", at(60), at(60))
        session_id = await add_session(store)
        leased = await claim(store, session_id, now=at(61), limit=10)
        assert [run.run_id for run in leased] == list(result.run_ids)

    async def test_overlap_skips_while_a_run_is_live_in_any_state(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        epochs = await own_shards(store)
        await submit(store, job)
        for second, is_claimed in ((60, False), (120, True)):
            if is_claimed:
                assert await claim(store, await add_session(store), now=at(second))
            job = await read_job(store, job.id)
            fire = make_fire(job, overlap=Overlap.SKIP)
            results = await store.record_fires([fire], epochs=epochs, now=at(second))
            assert results == [FireResult(FireStatus.FIRED)]
        records = await store.list_runs("default", job_id=job.id, state=RunState.SKIPPED)
        assert [(record.fire_at, record.reason) for record in records] == [
            (at(120), "overlap"),
            (at(60), "overlap"),
        ]
        assert (await read_job(store, job.id)).fired_through == at(120)

    async def test_overlap_does_not_skip_after_the_run_ended(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        epochs = await own_shards(store)
        [run_id] = await submit(store, job)
        await store.cancel_runs([run_id], reason="operator", now=at(1))
        fire = make_fire(job, overlap=Overlap.SKIP)
        [result] = await store.record_fires([fire], epochs=epochs, now=at(60))
        assert len(result.run_ids) == 1

    async def test_overlap_is_judged_per_job(self, store: Store) -> None:
        busy = await add_job(store, next_fire_at=at(60))
        idle = await add_job(store, next_fire_at=at(60))
        epochs = await own_shards(store)
        await submit(store, busy)
        fires = [make_fire(job, overlap=Overlap.SKIP) for job in (busy, idle)]
        results = await store.record_fires(fires, epochs=epochs, now=at(60))
        assert [len(result.run_ids) for result in results] == [0, 1]

    async def test_overlap_lets_one_of_several_runs_of_a_fire_live(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        epochs = await own_shards(store)
        runs = tuple(make_scheduled_run(job, at(second)) for second in (60, 61, 62))
        fire = make_fire(job, runs=runs, overlap=Overlap.SKIP)
        [result] = await store.record_fires([fire], epochs=epochs, now=at(62))
        [live] = await store.get_runs(result.run_ids)
        assert live is not None
        assert live.fire_at == at(60)
        records = await store.list_runs("default", state=RunState.SKIPPED)
        assert {(record.fire_at, record.reason) for record in records} == {
            (at(61), "overlap"),
            (at(62), "overlap"),
        }


class StalePlanLosesLaw2:
    """One fire, one run: a plan based on anything but the present clock row loses, and inserts nothing."""

    __test__ = False

    async def _assert_lost(self, store: Store, fire: Fire, *, now: float = 60) -> None:
        epochs = {lease.shard: lease.epoch for lease in await store.read_shards()}
        before = [await store.list_runs("default"), await store.list_fire_ranges(fire.job_id)]
        assert await store.record_fires([fire], epochs=epochs, now=at(now)) == LOST
        assert [await store.list_runs("default"), await store.list_fire_ranges(fire.job_id)] == before

    async def test_second_fire_of_one_plan_is_lost(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        fire = make_fire(job, fire_ranges=(make_fire_range(job),))
        epochs = await own_shards(store)
        [first] = await store.record_fires([fire], epochs=epochs, now=at(60))
        assert first.status is FireStatus.FIRED
        await self._assert_lost(store, fire)

    async def test_only_one_of_many_concurrent_planners_wins(self, store: Store) -> None:
        jobs = [await add_job(store, next_fire_at=at(60)) for _ in range(5)]
        epochs = await own_shards(store)
        fires = [make_fire(job) for job in jobs]
        answers = await asyncio.gather(
            *(store.record_fires(fires, epochs=epochs, now=at(60)) for _ in range(8))
        )
        for results in zip(*answers, strict=True):
            statuses = sorted(result.status for result in results)
            assert statuses == [FireStatus.FIRED] + [FireStatus.LOST] * 7
        assert len(await store.list_runs("default")) == 5

    async def test_plan_for_another_instant_than_the_clocks_is_lost(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        for second in (59, 61):
            await self._assert_lost(store, make_fire(job, fire_at=at(second)), now=61)

    async def test_plan_loses_after_an_edit(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        await store.edit_jobs([make_edit(job)], now=at(1))
        await self._assert_lost(store, make_fire(job))

    async def test_plan_loses_after_a_pause(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        await store.pause_jobs([make_pause(job)], now=at(1))
        await self._assert_lost(store, make_fire(job))

    async def test_plan_loses_after_pause_and_resume_to_the_same_instant(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        await store.pause_jobs([make_pause(job)], now=at(1))
        paused = await read_job(store, job.id)
        await store.resume_jobs([make_change(paused, next_fire_at=at(60))], now=at(2))
        await self._assert_lost(store, make_fire(job))

    async def test_plan_loses_after_a_delete(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        await store.delete_jobs([make_change(job)], now=at(1))
        await self._assert_lost(store, make_fire(job))

    async def test_plan_for_an_unknown_job_loses(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        await self._assert_lost(store, make_fire(job, job_id=UNKNOWN))

    async def test_plan_for_another_instant_loses(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        await self._assert_lost(store, make_fire(job, fire_at=at(59)))
        await self._assert_lost(store, make_fire(job, fire_at=at(61)), now=61)

    async def test_instant_that_was_fired_is_never_fired_again(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        await fire_once(store, job)
        fired = await read_job(store, job.id)
        await store.edit_jobs([make_edit(fired, next_fire_at=at(60))], now=at(61))
        turned_back = await read_job(store, job.id)
        assert turned_back.fired_through == at(60)
        await self._assert_lost(store, make_fire(turned_back), now=62)

    async def test_instant_that_was_passed_over_is_never_fired(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        epochs = await own_shards(store)
        jump = make_fire(job, next_fire_at=at(660), fired_through=at(600), runs=())
        await store.record_fires([jump], epochs=epochs, now=at(601))
        jumped = await read_job(store, job.id)
        await store.edit_jobs([make_edit(jumped, next_fire_at=at(300))], now=at(602))
        await self._assert_lost(store, make_fire(await read_job(store, job.id)), now=603)


class StaleEpochIsFencedLaw3:
    """A scheduler that lost its shard writes nothing."""

    __test__ = False

    async def test_fire_is_fenced_after_the_shard_was_taken(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        stale = await own_shards(store, "node-1")
        fresh = await own_shards(store, "node-2")
        assert await store.record_fires([make_fire(job)], epochs=stale, now=at(60)) == FENCED
        assert await read_job(store, job.id) == job
        assert await store.list_runs("default") == []
        assert (await fire_once(store, job, fresh)).status is FireStatus.FIRED

    async def test_fire_is_fenced_without_an_epoch_for_its_shard(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60), shard=3)
        epochs = await own_shards(store)
        del epochs[3]
        assert await store.record_fires([make_fire(job)], epochs=epochs, now=at(60)) == FENCED

    async def test_fence_is_per_shard(self, store: Store) -> None:
        kept = await add_job(store, next_fire_at=at(60), shard=1)
        taken = await add_job(store, next_fire_at=at(60), shard=2)
        epochs = await own_shards(store, "node-1")
        await store.beat_node(make_node("node-2"), now=START)
        assert await store.take_shards("node-2", {2: epochs[2]}, now=START) == {2: epochs[2] + 1}
        fires = [make_fire(taken), make_fire(kept)]
        results = await store.record_fires(fires, epochs=epochs, now=at(60))
        assert [result.status for result in results] == [FireStatus.FENCED, FireStatus.FIRED]

    async def test_fire_and_takeover_at_once_leave_one_winner(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        epochs = await own_shards(store)
        [[result], _] = await asyncio.gather(
            store.record_fires([make_fire(job)], epochs=epochs, now=at(60)), own_shards(store, "node-2")
        )
        assert result.status in {FireStatus.FIRED, FireStatus.FENCED}
        fresh = {lease.shard: lease.epoch for lease in await store.read_shards()}
        [again] = await store.record_fires([make_fire(job)], epochs=fresh, now=at(61))
        assert {result.status, again.status} in (
            {FireStatus.FIRED, FireStatus.LOST},
            {FireStatus.FENCED, FireStatus.FIRED},
        )
        assert len(await store.list_runs("default")) == 1

    async def test_fired_runs_carry_their_jobs_shard(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60), shard=201)
        result = await fire_once(store, job)
        assert [run_id & 0xFF for run_id in result.run_ids] == [201]
        assert await claim(store, await add_session(store), now=at(60), lanes=await all_lanes(store))
        assert (await read_held(store, result.run_ids[0])).job_id == job.id
