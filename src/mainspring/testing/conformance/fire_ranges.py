"""Fire ranges: catch-up and backfill, drained step by step, and records of gaps."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from mainspring.core.model import FireRange, FireRangeKind, Job, Overlap, RunKind
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.schedule import FireRangeStep, FireResult, FireStatus
from mainspring.testing.conformance.firing import ALL_SHARDS, FENCED, LOST
from mainspring.testing.factories import (
    START,
    add_job,
    at,
    make_change,
    make_edit,
    make_fire,
    make_fire_range,
    make_pause,
    make_scheduled_run,
    own_shards,
    read_job,
    submit,
)


async def open_fire_range(store: Store, job: Job, **overrides: Any) -> FireRange:
    """Insert a fire range, and return it as the store holds it."""
    await store.add_fire_ranges([make_fire_range(job, **overrides)], now=START)
    return (await store.list_fire_ranges(job.id, limit=1))[0]


async def read_open(store: Store, shards: Sequence[int] = ALL_SHARDS, **page: Any) -> list[FireRange]:
    """Return the fire ranges that are next."""
    return [work.fire_range for work in await store.read_fire_ranges(shards, **page)]


def make_step(job: Job, fire_range: FireRange, second: float, **overrides: Any) -> FireRangeStep:
    """Make a step that moves past one instant and inserts its run."""
    values: dict[str, Any] = {
        "fire_range_id": fire_range.id,
        "job_id": job.id,
        "cursor_from": fire_range.cursor_at,
        "cursor_to": at(second),
        "runs": (make_scheduled_run(job, at(second), fire_range_id=fire_range.id),),
        "is_done": False,
    }
    return FireRangeStep(**values | overrides)


class FireRanges:
    """Each range of fire times is one row. Ranges are read the oldest first, and drained by a cursor."""

    __test__ = False

    async def test_fire_range_reads_back_what_was_inserted(self, store: Store) -> None:
        job = await add_job(store)
        fire_range = await open_fire_range(store, job, kind=FireRangeKind.BACKFILL, reason="asked for")
        assert (fire_range.job_id, fire_range.tenant, fire_range.version) == (job.id, job.tenant, 1)
        assert fire_range.kind is FireRangeKind.BACKFILL
        assert (fire_range.from_at, fire_range.to_at, fire_range.cursor_at) == (at(-600), START, None)
        assert (fire_range.reason, fire_range.is_open, fire_range.created_at) == ("asked for", True, START)
        assert fire_range.calendars == ()
        names = ("office@2", "holidays@31")
        assert (await open_fire_range(store, job, calendars=names)).calendars == names

    async def test_read_fire_ranges_gives_open_work_the_oldest_first(self, store: Store) -> None:
        jobs = [await add_job(store, shard=shard) for shard in (1, 2, 1)]
        kinds = [FireRangeKind.CATCH_UP, FireRangeKind.BACKFILL, FireRangeKind.CATCH_UP]
        fire_ranges = [
            await open_fire_range(store, job, kind=kind) for job, kind in zip(jobs, kinds, strict=True)
        ]
        await open_fire_range(store, jobs[0], kind=FireRangeKind.GAP)
        assert await read_open(store, limit=10) == fire_ranges
        assert await read_open(store, limit=2) == fire_ranges[:2]
        assert await read_open(store, limit=2, after=fire_ranges[0].id) == fire_ranges[1:]
        assert await read_open(store, limit=2, after=fire_ranges[2].id) == []
        assert await read_open(store, [2], limit=10) == fire_ranges[1:2]

    async def test_read_fire_ranges_gives_the_oldest_of_a_job(self, store: Store) -> None:
        job, epochs = await add_job(store), await own_shards(store)
        await open_fire_range(store, job, kind=FireRangeKind.GAP)
        first, second = await open_fire_range(store, job), await open_fire_range(store, job)
        assert await read_open(store, limit=10) == [first]
        assert await read_open(store, limit=10, after=first.id) == []
        last = make_step(job, first, 0, is_done=True)
        await store.advance_fire_ranges([last], epochs=epochs, now=at(1))
        assert await read_open(store, limit=10) == [second]

    async def test_read_fire_ranges_leaves_out_paused_and_deleted_jobs(self, store: Store) -> None:
        paused, deleted = await add_job(store, next_fire_at=at(60)), await add_job(store)
        await store.add_fire_ranges([make_fire_range(paused), make_fire_range(deleted)], now=START)
        await store.pause_jobs([make_pause(paused)], now=at(1))
        await store.delete_jobs([make_change(deleted)], now=at(1))
        assert await read_open(store, limit=10) == []
        job = await read_job(store, paused.id)
        await store.resume_jobs([make_change(job, next_fire_at=at(60))], now=at(2))
        [fire_range] = await read_open(store, limit=10)
        assert (fire_range.job_id, fire_range.kind) == (paused.id, FireRangeKind.CATCH_UP)

    async def test_gap_with_an_end_is_a_closed_record(self, store: Store) -> None:
        job = await add_job(store)
        fire_range = await open_fire_range(store, job, kind=FireRangeKind.GAP, reason="misfire")
        assert not fire_range.is_open
        assert fire_range.to_at == START

    async def test_list_fire_ranges_gives_the_newest_first(self, store: Store) -> None:
        job = await add_job(store)
        fire_ranges = [await open_fire_range(store, job, reason=str(number)) for number in range(3)]
        assert await store.list_fire_ranges(job.id) == fire_ranges[::-1]
        assert await store.list_fire_ranges(job.id, limit=2) == fire_ranges[:0:-1]

    async def test_step_moves_the_cursor_and_inserts_runs(self, store: Store) -> None:
        job = await add_job(store)
        epochs = await own_shards(store)
        fire_range = await open_fire_range(store, job)
        [result] = await store.advance_fire_ranges(
            [make_step(job, fire_range, -300)], epochs=epochs, now=at(1)
        )
        assert result.status is FireStatus.FIRED
        [run] = await store.get_runs(result.run_ids)
        assert run is not None
        assert (run.kind, run.fire_at, run.fire_range_id) == (RunKind.SCHEDULED, at(-300), fire_range.id)
        assert (run.due_at, run.ready_at) == (at(-300), at(1))
        [moved] = await read_open(store, limit=10)
        assert moved.cursor_at == at(-300)

    async def test_last_step_closes_the_fire_range(self, store: Store) -> None:
        job = await add_job(store)
        epochs = await own_shards(store)
        fire_range = await open_fire_range(store, job)
        last = make_step(job, fire_range, 0, is_done=True)
        await store.advance_fire_ranges([last], epochs=epochs, now=at(1))
        assert await read_open(store, limit=10) == []
        [closed] = await store.list_fire_ranges(job.id)
        assert (closed.is_open, closed.cursor_at) == (False, START)
        assert await store.advance_fire_ranges([last], epochs=epochs, now=at(2)) == LOST

    async def test_step_skips_overlapping_runs(self, store: Store) -> None:
        job = await add_job(store)
        epochs = await own_shards(store)
        fire_range = await open_fire_range(store, job)
        await submit(store, job)
        step = make_step(job, fire_range, -300, overlap=Overlap.SKIP)
        results = await store.advance_fire_ranges([step], epochs=epochs, now=at(1))
        assert results == [FireResult(FireStatus.FIRED)]
        [record] = await store.list_runs("default", state=RunState.SKIPPED)
        assert (record.reason, record.fire_at) == ("overlap", at(-300))

    async def test_fire_and_step_at_once_let_one_run_live(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        epochs = await own_shards(store)
        fire_range = await open_fire_range(store, job)
        await asyncio.gather(
            store.advance_fire_ranges(
                [make_step(job, fire_range, -300, overlap=Overlap.SKIP)], epochs=epochs, now=at(60)
            ),
            store.record_fires([make_fire(job, overlap=Overlap.SKIP)], epochs=epochs, now=at(60)),
        )
        states = sorted(run.state for run in await store.list_runs("default"))
        assert states == [RunState.PENDING, RunState.SKIPPED]

    async def test_steps_answer_in_order(self, store: Store) -> None:
        epochs = await own_shards(store)
        jobs = [await add_job(store) for _ in range(3)]
        fire_ranges = [await open_fire_range(store, job) for job in jobs]
        steps = [make_step(job, fire_range, -300) for job, fire_range in zip(jobs, fire_ranges, strict=True)][
            ::-1
        ]
        wrong = make_step(jobs[1], fire_ranges[1], -300, cursor_from=at(-400))
        results = await store.advance_fire_ranges([steps[0], wrong, steps[2]], epochs=epochs, now=at(1))
        fired, lost = FireStatus.FIRED, FireStatus.LOST
        assert [result.status for result in results] == [fired, lost, fired]


class CatchUpIsPaced:
    """With a fire range come the facts that say how fast it may go on: permits, live runs, and the newest version."""

    __test__ = False

    async def test_what_was_never_drained_has_all_permits(self, store: Store) -> None:
        job = await add_job(store)
        await open_fire_range(store, job)
        [work] = await store.read_fire_ranges(ALL_SHARDS, limit=10)
        assert (work.newest, work.level, work.level_at, work.live) == (1, None, None, 0)

    async def test_step_keeps_the_permits_that_are_left(self, store: Store) -> None:
        job, other, epochs = await add_job(store), await add_job(store), await own_shards(store)
        fire_range = await open_fire_range(store, job)
        await open_fire_range(store, other)
        step = make_step(job, fire_range, -300, level=3.25, level_at=at(1))
        await store.advance_fire_ranges([step], epochs=epochs, now=at(1))
        works = await store.read_fire_ranges(ALL_SHARDS, limit=10)
        assert [(work.level, work.level_at) for work in works] == [(3.25, at(1)), (None, None)]
        late = make_step(job, fire_range, -300, level=9.0, level_at=at(2))
        assert await store.advance_fire_ranges([late], epochs=epochs, now=at(2)) == LOST
        [work, _] = await store.read_fire_ranges(ALL_SHARDS, limit=10)
        assert (work.level, work.level_at) == (3.25, at(1))

    async def test_permits_go_over_to_the_next_fire_range(self, store: Store) -> None:
        job, epochs = await add_job(store), await own_shards(store)
        first, second = await open_fire_range(store, job), await open_fire_range(store, job)
        last = make_step(job, first, 0, is_done=True, level=0.5, level_at=at(1))
        await store.advance_fire_ranges([last], epochs=epochs, now=at(1))
        [work] = await store.read_fire_ranges(ALL_SHARDS, limit=10)
        assert (work.fire_range, work.level, work.level_at) == (second, 0.5, at(1))

    async def test_live_runs_of_all_fire_ranges_of_the_job_count(self, store: Store) -> None:
        job, other, epochs = await add_job(store), await add_job(store), await own_shards(store)
        first, second = await open_fire_range(store, job), await open_fire_range(store, job)
        await open_fire_range(store, other)
        await submit(store, job)
        runs = tuple(make_scheduled_run(job, at(at_), fire_range_id=first.id) for at_ in (-300, -200))
        last = make_step(job, first, 0, runs=runs, is_done=True)
        [result] = await store.advance_fire_ranges([last], epochs=epochs, now=at(1))
        await store.advance_fire_ranges([make_step(job, second, -100)], epochs=epochs, now=at(1))
        works = await store.read_fire_ranges(ALL_SHARDS, limit=10)
        assert [work.live for work in works] == [3, 0]
        await store.cancel_runs(result.run_ids[:1], now=at(2), reason="cancelled")
        works = await store.read_fire_ranges(ALL_SHARDS, limit=10)
        assert [work.live for work in works] == [2, 0]

    async def test_an_edit_changes_the_newest_version_alone(self, store: Store) -> None:
        job = await add_job(store)
        await open_fire_range(store, job)
        await store.edit_jobs([make_edit(job)], now=at(1))
        [work] = await store.read_fire_ranges(ALL_SHARDS, limit=10)
        assert (work.fire_range.version, work.newest) == (1, 2)


class StaleFireRangeStepLosesLaw2:
    """A step of a fire range takes effect only once, from the cursor's position, and only if the job is not paused."""

    __test__ = False

    async def test_repeated_step_is_lost(self, store: Store) -> None:
        job = await add_job(store)
        epochs = await own_shards(store)
        fire_range = await open_fire_range(store, job)
        step = make_step(job, fire_range, -300)
        await store.advance_fire_ranges([step], epochs=epochs, now=at(1))
        assert await store.advance_fire_ranges([step], epochs=epochs, now=at(2)) == LOST
        assert len(await store.list_runs("default")) == 1

    async def test_only_one_of_many_concurrent_steps_wins(self, store: Store) -> None:
        job = await add_job(store)
        epochs = await own_shards(store)
        step = make_step(job, await open_fire_range(store, job), -300)
        answers = await asyncio.gather(
            *(store.advance_fire_ranges([step], epochs=epochs, now=at(1)) for _ in range(8))
        )
        statuses = sorted(result.status for [result] in answers)
        assert statuses == [FireStatus.FIRED] + [FireStatus.LOST] * 7
        assert len(await store.list_runs("default")) == 1

    async def test_step_from_another_cursor_is_lost(self, store: Store) -> None:
        job = await add_job(store)
        epochs = await own_shards(store)
        fire_range = await open_fire_range(store, job)
        await store.advance_fire_ranges([make_step(job, fire_range, -300)], epochs=epochs, now=at(1))
        for cursor in (None, at(-301)):
            step = make_step(job, fire_range, -200, cursor_from=cursor)
            assert await store.advance_fire_ranges([step], epochs=epochs, now=at(2)) == LOST

    async def test_step_is_lost_after_the_job_was_deleted_or_paused(self, store: Store) -> None:
        epochs = await own_shards(store)
        deleted, paused = await add_job(store), await add_job(store, next_fire_at=at(60))
        steps = [make_step(job, await open_fire_range(store, job), -300) for job in (deleted, paused)]
        await store.delete_jobs([make_change(deleted)], now=at(1))
        await store.pause_jobs([make_pause(paused)], now=at(1))
        assert await store.advance_fire_ranges(steps, epochs=epochs, now=at(2)) == LOST * 2
        assert await store.list_runs("default") == []

    async def test_step_survives_an_edit_because_the_fire_range_names_its_version(self, store: Store) -> None:
        job = await add_job(store)
        epochs = await own_shards(store)
        step = make_step(job, await open_fire_range(store, job), -300)
        await store.edit_jobs([make_edit(job)], now=at(1))
        [result] = await store.advance_fire_ranges([step], epochs=epochs, now=at(2))
        assert result.status is FireStatus.FIRED

    async def test_step_is_fenced_after_the_shard_was_taken(self, store: Store) -> None:
        job = await add_job(store)
        stale = await own_shards(store, "node-1")
        await own_shards(store, "node-2")
        step = make_step(job, await open_fire_range(store, job), -300)
        assert await store.advance_fire_ranges([step], epochs=stale, now=at(1)) == FENCED
        [fire_range] = await read_open(store, limit=10)
        assert fire_range.cursor_at is None
