"""Backfills: kept with their sections, changed, and advanced step by step."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from mainspring.core.backfill import (
    Backfill,
    BackfillChange,
    BackfillDefinition,
    BackfillOptions,
    BackfillState,
    BackfillWork,
    Section,
    SkipDone,
    VersionTime,
)
from mainspring.core.ids import BackfillId, make_backfill_id
from mainspring.core.model import FireRangeKind, Job, Overlap, Priority, RunKind
from mainspring.core.rates import Rate
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.backfills import AddedBackfill, BackfillStep, NewBackfill
from mainspring.ports.store.schedule import FireStatus
from mainspring.testing.conformance.firing import ALL_SHARDS, FENCED, LOST
from mainspring.testing.factories import (
    START,
    add_job,
    at,
    lane_of,
    make_change,
    make_edit,
    make_fire,
    make_pause,
    make_scheduled_run,
    own_shards,
    read_job,
    submit,
)

OPTIONS = BackfillOptions(
    skip_done=SkipDone.ANY,
    definition=BackfillDefinition.NOW,
    rate=Rate(90, timedelta(minutes=1)),
    max_live=7,
    priority=Priority.MEDIUM,
    note="the disk was full",
)


def make_backfill(job: Job, number: int = 1, **overrides: Any) -> NewBackfill:
    """Make a backfill of ten minutes before START, of one section."""
    values: dict[str, Any] = {
        "id": make_backfill_id(UUID(int=number << 32), job.id),
        "job_id": job.id,
        "tenant": job.tenant,
        "from_at": at(-600),
        "to_at": START,
        "options": OPTIONS,
        "fires": 10,
        "sections": (Section(1, at(-600), START - timedelta(microseconds=1)),),
    }
    return NewBackfill(**values | overrides)


async def add_backfill(store: Store, job: Job, number: int = 1, **overrides: Any) -> BackfillWork:
    """Insert a backfill, and return its work."""
    new = make_backfill(job, number, **overrides)
    assert await store.add_backfill(new, now=START) == AddedBackfill(is_added=True)
    return await read_work(store, new.id)


async def read_work(store: Store, backfill_id: BackfillId) -> BackfillWork:
    """Return the work of an open backfill."""
    found = await store.read_backfill_work(ALL_SHARDS, after=None, limit=100)
    [work] = [one for one in found if one.id == backfill_id]
    return work


async def read_backfill(store: Store, backfill_id: BackfillId) -> Backfill:
    """Return a backfill that exists."""
    [backfill] = await store.get_backfills([backfill_id])
    assert backfill is not None
    return backfill


def make_step(job: Job, work: BackfillWork, *seconds: float, **overrides: Any) -> BackfillStep:
    """Make a step that makes the runs of some instants."""
    section = work.section
    runs = [
        make_scheduled_run(
            job,
            at(second),
            kind=RunKind.BACKFILL,
            fire_range_id=section.id,
            lane=replace(lane_of(job), priority=Priority.LOW),
        )
        for second in seconds
    ]
    values: dict[str, Any] = {
        "id": work.id,
        "job_id": job.id,
        "fire_range_id": section.id,
        "cursor_from": section.cursor_at,
        "cursor_to": at(seconds[-1]) if seconds else section.to_at,
        "runs": tuple(runs),
        "skipped": 0,
        "is_section_done": False,
        "is_done": False,
        "level": 0.5,
        "level_at": at(1),
    }
    return BackfillStep(**values | overrides)


class Backfills:
    """A backfill is kept with its options and sections, and can be paused, resumed and cancelled."""

    __test__ = False

    async def test_backfill_reads_back_what_was_inserted(self, store: Store) -> None:
        job = await add_job(store)
        work = await add_backfill(store, job)
        backfill = await read_backfill(store, work.id)
        assert (backfill.id, backfill.job_id, backfill.tenant) == (work.id, job.id, job.tenant)
        assert (backfill.from_at, backfill.to_at, backfill.options) == (at(-600), START, OPTIONS)
        assert (backfill.state, backfill.fires, backfill.left) == (BackfillState.OPEN, 10, 10)
        assert (backfill.made, backfill.skipped, backfill.live) == (0, 0, 0)
        assert (backfill.cursor_at, backfill.created_at, backfill.closed_at) == (None, START, None)

    async def test_unknown_backfill_is_none(self, store: Store) -> None:
        job = await add_job(store)
        work = await add_backfill(store, job)
        unknown = BackfillId(UUID(int=5))
        found = await store.get_backfills([unknown, work.id])
        assert [one is not None for one in found] == [False, True]
        assert not await store.change_backfill(unknown, BackfillChange.CANCEL, now=at(1))

    async def test_sections_are_fire_ranges_that_are_not_drained(self, store: Store) -> None:
        job = await add_job(store)
        sections = (Section(1, at(-600), at(-300)), Section(1, at(-299), at(-1)))
        work = await add_backfill(store, job, sections=sections)
        assert await store.read_fire_ranges(ALL_SHARDS, limit=10) == []
        second, first = await store.list_fire_ranges(job.id)
        assert first == work.section
        assert (first.kind, first.from_at, first.to_at) == (FireRangeKind.BACKFILL, at(-600), at(-300))
        assert (second.from_at, second.is_open, second.reason) == (at(-299), True, "backfill")
        assert not work.is_last

    async def test_backfill_of_a_range_under_way_is_refused(self, store: Store) -> None:
        job, other = await add_job(store), await add_job(store)
        work = await add_backfill(store, job)
        again = make_backfill(job, 2, from_at=at(-60), to_at=at(60))
        assert await store.add_backfill(again, now=at(1)) == AddedBackfill(is_added=False, other=work.id)
        await store.change_backfill(work.id, BackfillChange.PAUSE, now=at(1))
        assert await store.add_backfill(again, now=at(1)) == AddedBackfill(is_added=False, other=work.id)
        beside = make_backfill(job, 3, from_at=START, to_at=at(60))
        for new in (beside, make_backfill(other, 4)):
            assert await store.add_backfill(new, now=at(1)) == AddedBackfill(is_added=True)
        await store.change_backfill(work.id, BackfillChange.CANCEL, now=at(1))
        assert (await store.add_backfill(make_backfill(job, 5), now=at(1))).is_added

    async def test_two_at_once_of_one_range_add_one(self, store: Store) -> None:
        job = await add_job(store)
        added = await asyncio.gather(
            *(store.add_backfill(make_backfill(job, number), now=START) for number in range(1, 5))
        )
        assert sorted(one.is_added for one in added) == [False, False, False, True]

    async def test_deleted_job_gets_none_and_its_own_are_cancelled(self, store: Store) -> None:
        job = await add_job(store)
        work = await add_backfill(store, job)
        await store.delete_jobs([make_change(job)], now=at(5))
        assert await store.add_backfill(make_backfill(job, 2), now=at(6)) == AddedBackfill(is_added=False)
        backfill = await read_backfill(store, work.id)
        assert (backfill.state, backfill.closed_at, backfill.left) == (BackfillState.CANCELLED, at(5), 0)
        assert await store.read_backfill_work(ALL_SHARDS, after=None, limit=10) == []
        assert not await store.change_backfill(work.id, BackfillChange.RESUME, now=at(6))

    async def test_list_backfills_gives_the_newest_first(self, store: Store) -> None:
        job, other = await add_job(store), await add_job(store)
        ids = [
            (await add_backfill(store, one, number, from_at=at(number), to_at=at(number + 1))).id
            for number, one in enumerate([job, other, job], 1)
        ]

        async def listed(**asked: Any) -> list[BackfillId]:
            return [one.id for one in await store.list_backfills("default", **asked)]

        assert await listed() == ids[::-1]
        assert await listed(limit=2) == ids[:0:-1]
        assert await listed(before=ids[1]) == ids[:1]
        assert await listed(job_id=job.id) == [ids[2], ids[0]]
        assert await listed(job_id=job.id, before=ids[2]) == [ids[0]]
        assert await store.list_backfills("other") == []

    async def test_pause_and_resume(self, store: Store) -> None:
        job = await add_job(store)
        work = await add_backfill(store, job)
        for change, state, is_work in (
            (BackfillChange.PAUSE, BackfillState.PAUSED, False),
            (BackfillChange.PAUSE, BackfillState.PAUSED, False),
            (BackfillChange.RESUME, BackfillState.OPEN, True),
            (BackfillChange.RESUME, BackfillState.OPEN, True),
        ):
            assert await store.change_backfill(work.id, change, now=at(1))
            backfill = await read_backfill(store, work.id)
            assert (backfill.state, backfill.closed_at) == (state, None)
            assert bool(await store.read_backfill_work(ALL_SHARDS, after=None, limit=10)) == is_work

    async def test_cancel_ends_it_for_good(self, store: Store) -> None:
        job = await add_job(store)
        work = await add_backfill(store, job)
        assert await store.change_backfill(work.id, BackfillChange.CANCEL, now=at(1))
        assert await store.change_backfill(work.id, BackfillChange.CANCEL, now=at(2))
        for change in (BackfillChange.PAUSE, BackfillChange.RESUME):
            assert not await store.change_backfill(work.id, change, now=at(3))
        backfill = await read_backfill(store, work.id)
        assert (backfill.state, backfill.closed_at) == (BackfillState.CANCELLED, at(1))
        [section] = await store.list_fire_ranges(job.id)
        assert not section.is_open

    async def test_work_is_given_by_shard_and_in_order(self, store: Store) -> None:
        first, second = await add_job(store, shard=1), await add_job(store, shard=2)
        works = [await add_backfill(store, job, number) for number, job in enumerate([first, second], 1)]
        assert await store.read_backfill_work(ALL_SHARDS, after=None, limit=10) == works
        assert await store.read_backfill_work(ALL_SHARDS, after=None, limit=1) == works[:1]
        assert await store.read_backfill_work(ALL_SHARDS, after=works[0].id, limit=10) == works[1:]
        assert await store.read_backfill_work([2], after=None, limit=10) == works[1:]
        assert await store.read_backfill_work([], after=None, limit=10) == []

    async def test_paused_job_makes_no_runs(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        epochs = await own_shards(store)
        work = await add_backfill(store, job)
        await store.pause_jobs([make_pause(job)], now=at(1))
        assert await store.read_backfill_work(ALL_SHARDS, after=None, limit=10) == []
        assert await store.advance_backfills([make_step(job, work, -300)], epochs=epochs, now=at(2)) == LOST
        assert (await read_backfill(store, work.id)).is_job_paused

    async def test_version_times_are_those_of_the_edits(self, store: Store) -> None:
        job = await add_job(store)
        await store.edit_jobs([make_edit(job)], now=at(30))
        assert await store.list_version_times(job.id) == [VersionTime(1, START), VersionTime(2, at(30))]

    async def test_fires_of_runs_are_found_by_state_and_page(self, store: Store) -> None:
        job, other = await add_job(store), await add_job(store)
        epochs = await own_shards(store)
        work = await add_backfill(store, job)
        [result] = await store.advance_backfills(
            [make_step(job, work, -300, -200, -100)], epochs=epochs, now=at(1)
        )
        await store.cancel_runs(result.run_ids[1:2], reason="x", now=at(2))
        await submit(store, other)
        await submit(store, job)

        async def found(*states: RunState, **asked: Any) -> tuple[set[Any], Any]:
            values: dict[str, Any] = {"from_at": at(-600), "to_at": START, "after": 0, "limit": 100}
            page = await store.read_fires_of_runs(job.id, states=states, **values | asked)
            return set(page.fires), page.last

        fires, last = await found(RunState.PENDING)
        assert fires == {at(-300), at(-100)}
        assert last is not None
        assert await found(RunState.PENDING, after=last) == (set(), None)
        assert (await found(RunState.CANCELLED))[0] == {at(-200)}
        assert (await found(*RunState, from_at=at(-250), to_at=at(-100)))[0] == {at(-200), at(-100)}
        assert await found(*RunState, limit=1) == ({at(-300)}, result.run_ids[0])


class BackfillSteps:
    """A step moves the cursor of a section, inserts runs and counts them; a stale one is lost (law 2)."""

    __test__ = False

    async def test_step_moves_the_cursor_inserts_runs_and_counts(self, store: Store) -> None:
        job = await add_job(store)
        epochs = await own_shards(store)
        work = await add_backfill(store, job)
        assert (work.level, work.level_at, work.live, work.is_job_busy) == (None, None, 0, False)
        step = make_step(job, work, -300, -200, skipped=3)
        [result] = await store.advance_backfills([step], epochs=epochs, now=at(1))
        assert result.status is FireStatus.FIRED
        runs = await store.get_runs(result.run_ids)
        assert [(run.kind, run.fire_at, run.lane.priority) for run in runs if run is not None] == [
            (RunKind.BACKFILL, at(-300), Priority.LOW),
            (RunKind.BACKFILL, at(-200), Priority.LOW),
        ]
        moved = await read_work(store, work.id)
        assert (moved.section.cursor_at, moved.level, moved.level_at) == (at(-200), 0.5, at(1))
        assert (moved.live, moved.is_job_busy) == (2, True)
        backfill = await read_backfill(store, work.id)
        assert (backfill.made, backfill.skipped, backfill.live, backfill.left) == (2, 3, 2, 5)
        assert backfill.cursor_at == at(-200)
        assert await store.list_waiting_of_backfill(work.id, limit=10) == list(result.run_ids)
        await store.cancel_runs(result.run_ids[:1], reason="x", now=at(2))
        assert (await read_backfill(store, work.id)).live == 1
        assert await store.list_waiting_of_backfill(work.id, limit=10) == list(result.run_ids[1:])

    async def test_sections_follow_each_other_and_the_last_step_ends_it(self, store: Store) -> None:
        job = await add_job(store)
        epochs = await own_shards(store)
        sections = (Section(1, at(-600), at(-300)), Section(1, at(-299), at(-1)))
        work = await add_backfill(store, job, sections=sections)
        step = make_step(job, work, -400, cursor_to=at(-300), is_section_done=True)
        await store.advance_backfills([step], epochs=epochs, now=at(1))
        following = await read_work(store, work.id)
        assert (following.section.from_at, following.section.cursor_at) == (at(-299), None)
        assert (following.is_last, following.live) == (True, 1)
        last = make_step(job, following, -100, cursor_to=at(-1), is_section_done=True, is_done=True)
        await store.advance_backfills([last], epochs=epochs, now=at(2))
        backfill = await read_backfill(store, work.id)
        assert (backfill.state, backfill.closed_at) == (BackfillState.DONE, at(2))
        assert (backfill.made, backfill.live, backfill.left) == (2, 2, 0)
        assert await store.read_backfill_work(ALL_SHARDS, after=None, limit=10) == []
        assert await store.advance_backfills([last], epochs=epochs, now=at(3)) == LOST
        for change in (BackfillChange.PAUSE, BackfillChange.RESUME):
            assert not await store.change_backfill(work.id, change, now=at(3))
        await store.delete_jobs([make_change(job)], now=at(4))
        assert (await read_backfill(store, work.id)).state is BackfillState.DONE

    async def test_one_that_has_made_all_its_runs_can_be_cancelled(self, store: Store) -> None:
        job = await add_job(store)
        epochs = await own_shards(store)
        work = await add_backfill(store, job)
        last = make_step(job, work, -100, cursor_to=at(-1), is_section_done=True, is_done=True)
        await store.advance_backfills([last], epochs=epochs, now=at(2))
        assert await store.change_backfill(work.id, BackfillChange.CANCEL, now=at(3))
        backfill = await read_backfill(store, work.id)
        assert (backfill.state, backfill.closed_at) == (BackfillState.CANCELLED, at(2))

    async def test_repeated_step_is_lost(self, store: Store) -> None:
        job = await add_job(store)
        epochs = await own_shards(store)
        work = await add_backfill(store, job)
        step = make_step(job, work, -300)
        await store.advance_backfills([step], epochs=epochs, now=at(1))
        assert await store.advance_backfills([step], epochs=epochs, now=at(2)) == LOST
        assert (await read_backfill(store, work.id)).made == 1
        assert len(await store.list_runs("default")) == 1

    async def test_step_after_a_pause_or_a_cancel_is_lost(self, store: Store) -> None:
        job = await add_job(store)
        epochs = await own_shards(store)
        work = await add_backfill(store, job)
        step = make_step(job, work, -300)
        for change in (BackfillChange.PAUSE, BackfillChange.CANCEL):
            await store.change_backfill(work.id, change, now=at(1))
            assert await store.advance_backfills([step], epochs=epochs, now=at(2)) == LOST
        assert await store.list_runs("default") == []

    async def test_step_and_cancel_at_once_agree(self, store: Store) -> None:
        job = await add_job(store)
        epochs = await own_shards(store)
        work = await add_backfill(store, job)
        [result], _ = await asyncio.gather(
            store.advance_backfills([make_step(job, work, -300)], epochs=epochs, now=at(1)),
            store.change_backfill(work.id, BackfillChange.CANCEL, now=at(1)),
        )
        backfill = await read_backfill(store, work.id)
        assert backfill.state is BackfillState.CANCELLED
        assert backfill.made == len(result.run_ids) == backfill.live

    async def test_step_of_a_stale_epoch_is_fenced(self, store: Store) -> None:
        job = await add_job(store)
        epochs = await own_shards(store)
        work = await add_backfill(store, job)
        stale = {shard: epoch - 1 for shard, epoch in epochs.items()}
        step = make_step(job, work, -300)
        assert await store.advance_backfills([step], epochs=stale, now=at(1)) == FENCED
        assert await store.list_runs("default") == []

    async def test_steps_answer_in_order(self, store: Store) -> None:
        epochs = await own_shards(store)
        jobs = [await add_job(store) for _ in range(3)]
        works = [await add_backfill(store, job, number) for number, job in enumerate(jobs, 1)]
        steps = [make_step(job, work, -300) for job, work in zip(jobs, works, strict=True)][::-1]
        steps[1] = make_step(jobs[1], works[1], -300, cursor_from=at(-400))
        results = await store.advance_backfills(steps, epochs=epochs, now=at(1))
        fired, lost = FireStatus.FIRED, FireStatus.LOST
        assert [result.status for result in results] == [fired, lost, fired]
        assert await store.advance_backfills([], epochs=epochs, now=at(2)) == []

    async def test_live_run_of_a_backfill_skips_no_fire(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        epochs = await own_shards(store)
        work = await add_backfill(store, job)
        await store.advance_backfills([make_step(job, work, -300)], epochs=epochs, now=at(1))
        fire = make_fire(job, overlap=Overlap.SKIP)
        [result] = await store.record_fires([fire], epochs=epochs, now=at(60))
        assert len(result.run_ids) == 1
        fire = make_fire(await read_job(store, job.id), overlap=Overlap.SKIP)
        [result] = await store.record_fires([fire], epochs=epochs, now=at(120))
        assert result.run_ids == ()
