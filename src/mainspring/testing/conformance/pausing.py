"""Pausing and resuming."""

from __future__ import annotations

from dataclasses import replace

from mainspring.core.clocks import ChangeVerdict
from mainspring.core.model import FireRangeKind
from mainspring.ports.store import Store
from mainspring.testing.conformance.jobs import UNKNOWN
from mainspring.testing.factories import (
    START,
    add_job,
    at,
    make_change,
    make_edit,
    make_fire_range,
    make_pause,
    read_job,
)


class Pauses:
    """Pausing stops the clock and opens a gap. Resuming starts the clock and closes the gap."""

    __test__ = False

    async def test_pause_stops_the_clock_and_opens_the_gap(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        assert await store.pause_jobs([make_pause(job)], now=at(1)) == [ChangeVerdict.DONE]
        paused = await read_job(store, job.id)
        assert (paused.is_paused, paused.next_fire_at) == (True, None)
        assert paused.revision > job.revision
        [gap] = await store.list_fire_ranges(job.id)
        assert (gap.kind, gap.reason, gap.from_at, gap.to_at) == (FireRangeKind.GAP, "paused", START, None)
        assert gap.is_open

    async def test_pause_of_a_paused_job_is_done_without_effect(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        change = make_pause(job)
        await store.pause_jobs([change], now=at(1))
        paused = await read_job(store, job.id)
        repeats = [change, make_pause(paused)]
        for repeat in repeats:
            assert await store.pause_jobs([repeat], now=at(2)) == [ChangeVerdict.DONE]
        assert await read_job(store, job.id) == paused
        assert len(await store.list_fire_ranges(job.id)) == 1

    async def test_pause_is_moved_or_missing(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        await store.edit_jobs([make_edit(job)], now=at(1))
        changes = [make_change(job), make_change(job, job_id=UNKNOWN)]
        results = [ChangeVerdict.MOVED, ChangeVerdict.MISSING]
        assert await store.pause_jobs(changes, now=at(2)) == results
        assert not (await read_job(store, job.id)).is_paused

    async def test_resume_starts_the_clock_and_closes_the_gap(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        await store.pause_jobs([make_pause(job)], now=at(1))
        paused = await read_job(store, job.id)
        change = make_change(paused, next_fire_at=at(180))
        assert await store.resume_jobs([change], now=at(150)) == [ChangeVerdict.DONE]
        resumed = await read_job(store, job.id)
        assert (resumed.is_paused, resumed.next_fire_at) == (False, at(180))
        assert resumed.revision > paused.revision
        [gap] = await store.list_fire_ranges(job.id)
        assert (gap.is_open, gap.from_at, gap.to_at) == (False, START, at(150))

    async def test_resume_is_moved_after_an_edit_during_the_pause(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        await store.pause_jobs([make_pause(job)], now=at(1))
        paused = await read_job(store, job.id)
        await store.edit_jobs([make_edit(paused)], now=at(2))
        changes = [make_change(paused, next_fire_at=at(60)), make_change(job, job_id=UNKNOWN)]
        results = [ChangeVerdict.MOVED, ChangeVerdict.MISSING]
        assert await store.resume_jobs(changes, now=at(3)) == results
        assert (await read_job(store, job.id)).is_paused
        assert (await store.list_fire_ranges(job.id))[0].is_open

    async def test_resume_of_a_job_that_runs_is_done_without_effect(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        await store.add_fire_ranges([make_fire_range(job, kind=FireRangeKind.GAP, to_at=None)], now=START)
        fire_ranges = await store.list_fire_ranges(job.id)
        changes = [make_change(job, next_fire_at=at(600)), make_change(job, revision=7, next_fire_at=None)]
        assert await store.resume_jobs(changes, now=at(1)) == [ChangeVerdict.DONE] * 2
        assert await read_job(store, job.id) == job
        assert await store.list_fire_ranges(job.id) == fire_ranges

    async def test_second_resume_of_a_job_in_a_call_finds_it_running(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        await store.pause_jobs([make_pause(job)], now=at(1))
        paused = await read_job(store, job.id)
        changes = [make_change(paused, next_fire_at=at(second)) for second in (70, 80)]
        assert await store.resume_jobs(changes, now=at(2)) == [ChangeVerdict.DONE] * 2
        resumed = await read_job(store, job.id)
        assert (resumed.next_fire_at, resumed.revision) == (at(70), paused.revision + 1)

    async def test_edit_of_a_paused_job_may_end_its_gap_and_open_another(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        other = await add_job(store, next_fire_at=at(60))
        await store.pause_jobs([make_pause(job, from_at=at(5)), make_pause(other)], now=at(1))
        paused = await read_job(store, job.id)
        (gap,) = make_pause(paused, from_at=at(12)).fire_ranges
        edit = replace(make_edit(paused), ends_gap=True, fire_ranges=(gap,))
        assert await store.edit_jobs([edit], now=at(10)) == [ChangeVerdict.DONE]
        gaps = [
            (fire_range.from_at, fire_range.to_at, fire_range.is_open)
            for fire_range in await store.list_fire_ranges(job.id)
        ]
        assert gaps == [(at(12), None, True), (at(5), at(10), False)]
        assert (await store.list_fire_ranges(other.id))[0].is_open

    async def test_each_pause_has_its_own_gap(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        for second in (10, 20):
            job = await read_job(store, job.id)
            await store.pause_jobs([make_pause(job, from_at=at(second))], now=at(second))
            job = await read_job(store, job.id)
            change = make_change(job, next_fire_at=at(60))
            await store.resume_jobs([change], now=at(second + 5))
        gaps = [(gap.from_at, gap.to_at, gap.is_open) for gap in await store.list_fire_ranges(job.id)]
        assert gaps == [(at(20), at(25), False), (at(10), at(15), False)]

    async def test_resume_before_the_next_fire_leaves_no_gap(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        for second in (10, 20):
            job = await read_job(store, job.id)
            await store.pause_jobs([make_pause(job, from_at=at(60))], now=at(second))
            job = await read_job(store, job.id)
            change = make_change(job, next_fire_at=at(60))
            assert await store.resume_jobs([change], now=at(second + 5)) == [ChangeVerdict.DONE]
            assert await store.list_fire_ranges(job.id) == []

    async def test_resume_at_the_instant_of_a_fire_keeps_its_record(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        await store.pause_jobs([make_pause(job, from_at=at(60))], now=at(1))
        paused = await read_job(store, job.id)
        await store.resume_jobs([make_change(paused, next_fire_at=at(120))], now=at(60))
        [gap] = await store.list_fire_ranges(job.id)
        assert (gap.is_open, gap.from_at, gap.to_at) == (False, at(60), at(60))

    async def test_resume_leaves_all_other_fire_ranges(self, store: Store) -> None:
        job, other = await add_job(store, next_fire_at=at(60)), await add_job(store, next_fire_at=at(60))
        fire_ranges = [make_fire_range(job, kind=FireRangeKind.BACKFILL, from_at=at(60), to_at=at(90))]
        fire_ranges.append(make_fire_range(job, kind=FireRangeKind.GAP, from_at=at(60), to_at=at(90)))
        await store.add_fire_ranges(fire_ranges, now=START)
        await store.pause_jobs([make_pause(each, from_at=at(60)) for each in (job, other)], now=at(1))
        paused = await read_job(store, job.id)
        await store.resume_jobs([make_change(paused, next_fire_at=at(60))], now=at(2))
        kinds = [
            (fire_range.kind, fire_range.to_at, fire_range.is_open)
            for fire_range in await store.list_fire_ranges(job.id)
        ]
        assert kinds == [(FireRangeKind.GAP, at(90), False), (FireRangeKind.BACKFILL, at(90), True)]
        [gap] = await store.list_fire_ranges(other.id)
        assert (gap.is_open, gap.from_at) == (True, at(60))
