"""Fires in sets: the same runs as from the definition, under the same conditions (ADR 0040)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

from mainspring.core.model import Job, JobSpec, LaneKey, MisfireRule, Overlap, Priority, Run, RunKind, Target
from mainspring.core.outlines import outline_of
from mainspring.core.planning import jittered
from mainspring.core.states import RunState
from mainspring.core.triggers import Interval, Once
from mainspring.ports.store import Store
from mainspring.ports.store.schedule import DueClock, FireResult, FireStatus
from mainspring.testing.conformance.jobs import UNKNOWN
from mainspring.testing.factories import (
    START,
    add_job,
    at,
    make_change,
    make_edit,
    make_fire,
    make_new_job,
    make_node,
    make_pause,
    make_scheduled_run,
    make_spec,
    own_shards,
    read_job,
)

ALL_SHARDS = range(256)
LOST = [FireResult(FireStatus.LOST)]
FENCED = [FireResult(FireStatus.FENCED)]
SECOND = timedelta(seconds=1)


def make_once(**overrides: Any) -> JobSpec:
    """Make the definition of a one-off job that is due at 60 s."""
    return make_spec(**{"trigger": Once(at(60))} | overrides)


async def add_once(store: Store, spec: JobSpec | None = None, **options: Any) -> Job:
    """Add a one-off job whose fire is due at 60 s."""
    return await add_job(store, make_once() if spec is None else spec, **{"next_fire_at": at(60)} | options)


async def read_clocks(store: Store, *jobs: Job) -> list[DueClock]:
    """Read the clocks of jobs, in their order."""
    found = {clock.job_id: clock for clock in await store.read_due(ALL_SHARDS, until=at(10**6), limit=10_000)}
    return [found[job.id] for job in jobs]


async def read_clock(store: Store, job: Job) -> DueClock:
    """Read the clock of one job."""
    [clock] = await read_clocks(store, job)
    return clock


async def fired_run(store: Store, clock: DueClock, *, now: float = 60) -> Run:
    """Fire a clock in a set, and return its run."""
    [result] = await store.fire_outlined([clock], epochs=await own_shards(store), now=at(now))
    assert result.status is FireStatus.FIRED
    [run] = await store.get_runs(result.run_ids)
    assert run is not None
    return run


class Outlines:
    """A clock has the outline of its job's newest version, if that has one."""

    __test__ = False

    async def test_one_off_job_has_an_outline(self, store: Store) -> None:
        spec = make_once(
            queue='the "first"\\ queue',
            labels=("ä", "b+c"),
            timeout=timedelta(milliseconds=1500),
            misfire=MisfireRule(grace=timedelta(microseconds=1)),
            jitter=timedelta(days=3),
            expires_after=timedelta(seconds=0.5),
        )
        clock = await read_clock(store, await add_once(store, spec))
        assert clock.outline == outline_of(spec, 1)
        assert clock.outline is not None
        assert (clock.outline.queue, clock.outline.route) == (spec.queue, spec.route)

    async def test_other_jobs_have_none(self, store: Store) -> None:
        specs = [
            make_spec(trigger=Interval(timedelta(seconds=60), START)),
            make_once(overlap=Overlap.SKIP),
            make_once(target=Target("of-a-type-that-nobody-knows", {})),
        ]
        for spec in specs:
            assert (await read_clock(store, await add_once(store, spec))).outline is None

    async def test_edit_makes_the_outline_anew(self, store: Store) -> None:
        job = await add_once(store)
        for version, spec in enumerate(
            (make_once(queue="other"), make_once(overlap=Overlap.SKIP), make_once(timeout=5 * SECOND)),
            start=2,
        ):
            await store.edit_jobs([make_edit(job, spec)], now=at(1))
            job = await read_job(store, job.id)
            assert (await read_clock(store, job)).outline == outline_of(spec, version)

    async def test_edits_of_one_call_keep_their_outlines_apart(self, store: Store) -> None:
        jobs = [await add_once(store) for _ in range(4)]
        await store.edit_jobs([make_edit(jobs[1])], now=at(1))
        jobs[1] = await read_job(store, jobs[1].id)
        edits = [
            make_edit(
                job,
                replace(job.spec, queue=f"queue-{number}", overlap=Overlap(["allow", "skip"][number % 2])),
            )
            for number, job in enumerate(jobs)
        ]
        await store.edit_jobs(edits[::-1], now=at(2))
        outlines = [clock.outline for clock in await read_clocks(store, *jobs)]
        versions = (2, 3, 2, 2)
        assert outlines == [
            outline_of(edit.spec, version) for edit, version in zip(edits, versions, strict=True)
        ]

    async def test_pause_and_resume_keep_the_outline(self, store: Store) -> None:
        job = await add_once(store)
        await store.pause_jobs([make_pause(job)], now=at(1))
        await store.resume_jobs([make_change(await read_job(store, job.id), next_fire_at=at(60))], now=at(2))
        assert (await read_clock(store, job)).outline == outline_of(job.spec, 1)

    async def test_edit_of_a_paused_job_counts_when_it_is_resumed(self, store: Store) -> None:
        job = await add_once(store)
        await store.pause_jobs([make_pause(job)], now=at(1))
        spec = replace(job.spec, queue="other")
        await store.edit_jobs(
            [make_edit(await read_job(store, job.id), spec, next_fire_at=at(60))], now=at(2)
        )
        await store.resume_jobs([make_change(await read_job(store, job.id), next_fire_at=at(60))], now=at(3))
        assert (await read_clock(store, job)).outline == outline_of(spec, 2)


class FiringInSets:
    """A fire in a set inserts the run that the definition would give, and ends the clock."""

    __test__ = False

    async def test_run_is_the_one_that_the_definition_gives(self, store: Store) -> None:
        job = await add_once(
            store, make_once(queue="q", priority=Priority.HIGH, timeout=90 * SECOND), tenant="t"
        )
        run = await fired_run(store, await read_clock(store, job))
        assert (run.job_id, run.version, run.tenant, run.kind) == (job.id, 1, "t", RunKind.SCHEDULED)
        assert run.lane == LaneKey("q", job.spec.route, "t", Priority.HIGH)
        assert (run.state, run.fire_at, run.due_at, run.ready_at) == (
            RunState.PENDING,
            at(60),
            at(60),
            at(60),
        )
        assert (run.created_at, run.attempt, run.token, run.payload) == (at(60), 1, 0, None)
        ended = await read_job(store, job.id)
        assert (ended.next_fire_at, ended.fired_through, ended.revision) == (None, at(60), job.revision)
        assert await store.read_due(ALL_SHARDS, until=at(10**6), limit=10) == []

    async def test_both_ways_give_the_same_row(self, store: Store) -> None:
        spec = make_once(expires_after=9 * SECOND, timeout=2 * SECOND, labels=("gpu",))
        jobs = [await add_once(store, replace(spec, name=name), shard=7) for name in ("planned", "in-set")]
        await store.edit_jobs([make_edit(job) for job in jobs], now=at(1))
        job = await read_job(store, jobs[0].id)
        run = make_scheduled_run(job, at(60), expires_at=at(69))
        fire = make_fire(job, next_fire_at=None, runs=(run,))
        [result] = await store.record_fires([fire], epochs=await own_shards(store), now=at(62))
        [planned] = await store.get_runs(result.run_ids)
        assert planned is not None
        in_set = await fired_run(store, await read_clock(store, jobs[1]), now=62)
        assert replace(in_set, id=planned.id, job_id=planned.job_id) == planned
        assert await store.expire_runs(now=at(68.999), limit=10) == []
        assert sorted(await store.expire_runs(now=at(69), limit=10)) == sorted((in_set.id, planned.id))

    async def test_run_starts_no_earlier_than_now(self, store: Store) -> None:
        run = await fired_run(store, await read_clock(store, await add_once(store)), now=75)
        assert (run.due_at, run.ready_at) == (at(60), at(75))

    async def test_runs_of_a_set_differ_as_their_jobs_do(self, store: Store) -> None:
        specs = [
            make_once(
                queue=f"queue-{number % 3}",
                priority=Priority(number % 2),
                timeout=(1 + number % 4) * SECOND,
                expires_after=None if number % 2 else number * SECOND,
                jitter=timedelta(0) if number % 3 else 5 * SECOND,
            )
            for number in range(12)
        ]
        jobs = [await add_once(store, spec, tenant=f"tenant-{spec.priority}") for spec in specs]
        await store.edit_jobs([make_edit(jobs[7])], now=at(1))
        jobs[7] = await read_job(store, jobs[7].id)
        clocks = await read_clocks(store, *jobs)
        results = await store.fire_outlined(clocks[::-1], epochs=await own_shards(store), now=at(65))
        runs = await store.get_runs([run_id for result in reversed(results) for run_id in result.run_ids])
        assert len(set(runs)) == len(jobs)
        for job, run in zip(jobs, runs, strict=True):
            assert run is not None
            lane = LaneKey(job.spec.queue, job.spec.route, job.tenant, job.spec.priority)
            due_at = jittered(job.id, at(60), job.spec.jitter)
            assert (run.job_id, run.version, run.lane, run.due_at) == (job.id, job.version, lane, due_at)
            assert run.id & 0xFF == job.id.bytes[-1]

    async def test_lane_that_was_pruned_is_made_again(self, store: Store) -> None:
        await fired_run(store, await read_clock(store, await add_once(store)))
        [run] = await store.list_runs("default")
        await store.cancel_runs([run.id], reason="test", now=at(61))
        clock = await read_clock(store, await add_once(store))
        assert await store.prune_lanes(limit=10) == 1
        assert (await fired_run(store, clock, now=62)).lane == run.lane

    async def test_ten_thousand_in_one_set(self, store: Store) -> None:
        jobs = [make_new_job(make_once(), next_fire_at=at(60)) for _ in range(10_000)]
        await store.add_jobs(jobs, now=START)
        clocks = await store.read_due(ALL_SHARDS, until=at(60), limit=10_000)
        results = await store.fire_outlined(clocks, epochs=await own_shards(store), now=at(60))
        assert {(result.status, len(result.run_ids)) for result in results} == {(FireStatus.FIRED, 1)}
        assert await store.count_runs("default") == {RunState.PENDING: 10_000}

    async def test_no_clocks(self, store: Store) -> None:
        assert await store.fire_outlined([], epochs={}, now=START) == []


class StaleClocksOfSetsLoseLaw2:
    """One fire, one run: a clock that has moved since it was read loses, and takes no other with it."""

    __test__ = False

    async def _assert_lost(self, store: Store, clock: DueClock) -> None:
        epochs = {lease.shard: lease.epoch for lease in await store.read_shards()}
        before = await store.list_runs("default")
        assert await store.fire_outlined([clock], epochs=epochs, now=at(60)) == LOST
        assert await store.list_runs("default") == before

    async def test_second_fire_is_lost(self, store: Store) -> None:
        clock = await read_clock(store, await add_once(store))
        await fired_run(store, clock)
        await self._assert_lost(store, clock)

    async def test_each_fire_is_won_once_by_sets_and_plans_at_once(self, store: Store) -> None:
        jobs = [await add_once(store) for _ in range(5)]
        clocks = await read_clocks(store, *jobs)
        epochs = await own_shards(store)
        fires = [make_fire(job, next_fire_at=None) for job in jobs]
        answers = await asyncio.gather(
            *(store.fire_outlined(clocks, epochs=epochs, now=at(60)) for _ in range(4)),
            *(store.record_fires(fires, epochs=epochs, now=at(60)) for _ in range(4)),
        )
        for results in zip(*answers, strict=True):
            assert sorted(result.status for result in results) == [FireStatus.FIRED] + [FireStatus.LOST] * 7
        assert len(await store.list_runs("default")) == 5

    async def test_fire_at_another_instant_is_lost(self, store: Store) -> None:
        clock = await read_clock(store, await add_once(store))
        await own_shards(store)
        for second in (59, 61):
            await self._assert_lost(store, replace(clock, fire_at=at(second)))

    async def test_fire_loses_after_an_edit(self, store: Store) -> None:
        clock = await read_clock(store, job := await add_once(store))
        await own_shards(store)
        await store.edit_jobs([make_edit(job)], now=at(1))
        await self._assert_lost(store, clock)

    async def test_fire_loses_after_a_pause(self, store: Store) -> None:
        clock = await read_clock(store, job := await add_once(store))
        await own_shards(store)
        await store.pause_jobs([make_pause(job)], now=at(1))
        await self._assert_lost(store, clock)
        await store.resume_jobs([make_change(await read_job(store, job.id), next_fire_at=at(60))], now=at(2))
        await self._assert_lost(store, clock)

    async def test_fire_loses_after_a_delete(self, store: Store) -> None:
        clock = await read_clock(store, job := await add_once(store))
        await own_shards(store)
        await store.delete_jobs([make_change(job)], now=at(1))
        await self._assert_lost(store, clock)
        await self._assert_lost(store, replace(clock, job_id=UNKNOWN))

    async def test_instant_that_was_fired_is_never_fired_again(self, store: Store) -> None:
        job = await add_once(store)
        await fired_run(store, await read_clock(store, job))
        await store.edit_jobs([make_edit(await read_job(store, job.id), next_fire_at=at(60))], now=at(61))
        turned_back = await read_clock(store, job)
        assert turned_back.fired_through == at(60)
        await self._assert_lost(store, turned_back)

    async def test_clocks_that_moved_take_no_other_with_them(self, store: Store) -> None:
        jobs = [await add_once(store) for _ in range(5)]
        clocks = await read_clocks(store, *jobs)
        await store.edit_jobs([make_edit(jobs[3])], now=at(1))
        clocks[1] = replace(clocks[1], fire_at=at(59))
        results = await store.fire_outlined(clocks, epochs=await own_shards(store), now=at(60))
        fired, lost = FireStatus.FIRED, FireStatus.LOST
        assert [result.status for result in results] == [fired, lost, fired, lost, fired]
        for clock, result in zip(clocks, results, strict=True):
            runs = await store.get_runs(result.run_ids)
            assert [run and run.job_id for run in runs] == ([clock.job_id] if result.run_ids else [])


class StaleEpochFencesSetsLaw3:
    """A scheduler that lost a shard writes nothing of it, and the rest of its set."""

    __test__ = False

    async def test_set_is_fenced_after_the_shard_was_taken(self, store: Store) -> None:
        job = await add_once(store)
        clock = await read_clock(store, job)
        stale = await own_shards(store, "node-1")
        await own_shards(store, "node-2")
        assert await store.fire_outlined([clock], epochs=stale, now=at(60)) == FENCED
        assert await read_job(store, job.id) == job
        assert await store.list_runs("default") == []
        assert (await fired_run(store, clock)).job_id == job.id

    async def test_fence_is_per_shard(self, store: Store) -> None:
        jobs = [await add_once(store, shard=shard) for shard in (2, 1, 3)]
        epochs = await own_shards(store, "node-1")
        del epochs[3]
        await store.beat_node(make_node("node-2"), now=START)
        assert await store.take_shards("node-2", {2: epochs[2]}, now=START) == {2: epochs[2] + 1}
        results = await store.fire_outlined(await read_clocks(store, *jobs), epochs=epochs, now=at(60))
        fenced = FireStatus.FENCED
        assert [result.status for result in results] == [fenced, FireStatus.FIRED, fenced]

    async def test_set_and_takeover_at_once_leave_one_winner(self, store: Store) -> None:
        clock = await read_clock(store, await add_once(store))
        epochs = await own_shards(store)
        [[result], fresh] = await asyncio.gather(
            store.fire_outlined([clock], epochs=epochs, now=at(60)), own_shards(store, "node-2")
        )
        fresh = {lease.shard: lease.epoch for lease in await store.read_shards()}
        [again] = await store.fire_outlined([clock], epochs=fresh, now=at(61))
        assert {result.status, again.status} in (
            {FireStatus.FIRED, FireStatus.LOST},
            {FireStatus.FENCED, FireStatus.FIRED},
        )
        assert len(await store.list_runs("default")) == 1
