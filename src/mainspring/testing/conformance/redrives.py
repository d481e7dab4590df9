"""Redrives: records, and steps that pass each dead letter once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mainspring.core.dead_letters import LAST_RUN, DeadFilter
from mainspring.core.ids import RedriveId, RunId
from mainspring.core.redrives import DeadVersion, Redrive, RedriveChange, RedriveState
from mainspring.ports.store import Store
from mainspring.ports.store.redrives import DeadWindow, NewRedrive, RedriveStep
from mainspring.testing.conformance.dead_letters import bury, redrive_of
from mainspring.testing.factories import IdSequence, add_job, at, make_spec, own_shards

EVERYTHING = DeadFilter(until=at(1000))
UNKNOWN = RedriveId(IdSequence(1_000_000).new_uuid())


async def start(store: Store, ids: IdSequence, wanted: DeadFilter = EVERYTHING, **fields: Any) -> RedriveId:
    """Insert a redrive, ten seconds after the start."""
    redrive_id = RedriveId(ids.new_uuid())
    values: dict[str, Any] = {"tenant": "default", "is_newest": True, "rate": 10, "total": 3, **fields}
    await store.add_redrive(NewRedrive(id=redrive_id, wanted=wanted, **values), now=at(10))
    return redrive_id


async def read(store: Store, redrive_id: RedriveId) -> Redrive:
    """Return a redrive that exists."""
    redrive = await store.get_redrive(redrive_id)
    assert redrive is not None
    return redrive


class RedrivesAreKept:
    """A redrive is a record that is shown, paused, resumed and cancelled."""

    __test__ = False

    async def test_a_redrive_is_as_it_was_made(self, store: Store) -> None:
        job = await add_job(store)
        wanted = DeadFilter(
            job_id=job.id,
            queue="mail",
            reason="deadline",
            error="50% of _",
            error_group="#",
            since=at(0.123456),
            until=at(9),
            run_ids=(RunId(2**62), RunId(5)),
        )
        redrive_id = await start(store, IdSequence(), wanted, is_newest=False, rate=7, total=412)
        assert await store.get_redrive(redrive_id) == Redrive(
            id=redrive_id,
            tenant="default",
            wanted=wanted,
            is_newest=False,
            rate=7,
            state=RedriveState.RUNNING,
            cursor=RunId(0),
            total=412,
            done=0,
            created_at=at(10),
            closed_at=None,
        )
        assert await store.get_redrive(UNKNOWN) is None

    async def test_a_page_of_redrives_is_a_tenants_newest(self, store: Store) -> None:
        ids = IdSequence()
        made = [await start(store, ids) for _ in range(3)]
        other = await start(store, ids, tenant="other")
        page = await store.list_redrives("default", limit=2)
        assert [redrive.id for redrive in page] == [made[2], made[1]]
        page = await store.list_redrives("default", before=made[1])
        assert [redrive.id for redrive in page] == [made[0]]
        assert [redrive.id for redrive in await store.list_redrives("other")] == [other]

    async def test_changes_follow_the_states(self, store: Store) -> None:
        redrive_id = await start(store, IdSequence())
        for change, state in (
            (RedriveChange.RESUME, RedriveState.RUNNING),
            (RedriveChange.PAUSE, RedriveState.PAUSED),
            (RedriveChange.PAUSE, RedriveState.PAUSED),
            (RedriveChange.RESUME, RedriveState.RUNNING),
            (RedriveChange.CANCEL, RedriveState.CANCELLED),
        ):
            assert await store.change_redrive(redrive_id, change, now=at(20))
            assert (await read(store, redrive_id)).state is state
        assert (await read(store, redrive_id)).closed_at == at(20)
        assert await store.change_redrive(redrive_id, RedriveChange.CANCEL, now=at(30))
        assert (await read(store, redrive_id)).closed_at == at(20)
        for change in (RedriveChange.PAUSE, RedriveChange.RESUME):
            assert not await store.change_redrive(redrive_id, change, now=at(30))
        assert not await store.change_redrive(UNKNOWN, RedriveChange.PAUSE, now=at(30))

    async def test_only_running_ones_are_worked_on(self, store: Store) -> None:
        ids = IdSequence()
        made = [await start(store, ids, tenant=tenant) for tenant in ("b", "a", "b", "a")]
        await store.change_redrive(made[1], RedriveChange.PAUSE, now=at(20))
        running = await store.list_running_redrives(limit=9)
        assert [redrive.id for redrive in running] == [made[0], made[2], made[3]]
        assert [redrive.id for redrive in await store.list_running_redrives(limit=2)] == [made[0], made[2]]


class RedrivesPassDeadLetters:
    """Steps find what is open, and count what is redriven."""

    __test__ = False

    async def test_a_look_finds_what_is_meant_of_what_it_sees(self, store: Store) -> None:
        jobs = [await add_job(store, make_spec(name=name)) for name in ("one", "two")]
        dead = [await bury(store, jobs[number % 2]) for number in range(6)]
        one = replace(EVERYTHING, job_id=jobs[0].id)

        async def look(wanted: DeadFilter, after: int, limit: int) -> DeadWindow:
            return await store.find_dead_to_redrive("default", wanted, after=RunId(after), limit=limit)

        assert await look(EVERYTHING, 0, 2) == DeadWindow(dead[:2], dead[1])
        assert await look(EVERYTHING, dead[1], 9) == DeadWindow(dead[2:], dead[5])
        assert await look(EVERYTHING, dead[5], 9) == DeadWindow([], None)
        assert await look(one, 0, 3) == DeadWindow([dead[0], dead[2]], dead[2])
        assert await look(one, dead[4], 9) == DeadWindow([], dead[5])
        await store.discard_dead("default", DeadFilter(run_ids=(dead[0],)), reason="gone", now=at(5), limit=1)
        assert await look(EVERYTHING, 0, 1) == DeadWindow([dead[1]], dead[1])
        named = replace(EVERYTHING, run_ids=(dead[4], dead[2]))
        assert await look(named, 0, 9) == DeadWindow([dead[2], dead[4]], dead[5])
        assert await store.find_dead_to_redrive("other", EVERYTHING, after=RunId(0), limit=9) == DeadWindow(
            [], None
        )

    async def test_versions_of_what_is_meant_are_counted(self, store: Store) -> None:
        one, two = [await add_job(store, make_spec(name=name)) for name in ("one", "two")]
        for job in (two, one, two):
            await bury(store, job)
        settled = await bury(store, one)
        await store.discard_dead("default", DeadFilter(run_ids=(settled,)), reason="gone", now=at(5), limit=1)
        counts = [
            DeadVersion(job_id=two.id, version=1, count=2),
            DeadVersion(job_id=one.id, version=1, count=1),
        ]
        assert await store.count_dead_versions("default", EVERYTHING, limit=9) == counts
        assert await store.count_dead_versions("default", EVERYTHING, limit=1) == counts[:1]
        of_one = replace(EVERYTHING, job_id=one.id)
        assert await store.count_dead_versions("default", of_one, limit=9) == counts[1:]
        assert await store.count_dead_versions("other", EVERYTHING, limit=9) == []

    async def test_a_step_counts_what_was_redriven_since_it_was_made(self, store: Store) -> None:
        epochs = await own_shards(store)
        job = await add_job(store)
        before, *dead = [await bury(store, job) for _ in range(5)]
        await store.submit_runs([redrive_of(job, before)], now=at(9))
        redrive_id = await start(store, IdSequence())
        await store.submit_runs([redrive_of(job, run_id) for run_id in dead[:2]], now=at(11))
        await store.discard_dead(
            "default", DeadFilter(run_ids=(dead[2],)), reason="gone", now=at(11), limit=1
        )
        redrive = await read(store, redrive_id)
        step = RedriveStep(redrive=redrive, cursor_to=dead[1], is_done=False)
        assert await store.advance_redrives([step], epochs=epochs, now=at(12))
        assert await store.get_redrive(redrive_id) == replace(redrive, cursor=dead[1], done=2)
        assert await store.advance_redrives([step], epochs=epochs, now=at(13))  # the cursor has moved
        assert await store.get_redrive(redrive_id) == replace(redrive, cursor=dead[1], done=2)
        await store.submit_runs([redrive_of(job, dead[3])], now=at(13))
        moved = await read(store, redrive_id)
        last = RedriveStep(redrive=moved, cursor_to=LAST_RUN, is_done=True)
        assert await store.advance_redrives([last], epochs=epochs, now=at(14))
        done = await read(store, redrive_id)
        assert (done.state, done.done, done.closed_at) == (RedriveState.DONE, 3, at(14))
        for change in RedriveChange:
            assert not await store.change_redrive(redrive_id, change, now=at(15))

    async def test_a_step_counts_only_what_is_meant(self, store: Store) -> None:
        epochs = await own_shards(store)
        jobs = [await add_job(store, make_spec(name=name)) for name in ("one", "two")]
        dead = [await bury(store, job) for job in jobs]
        redrive_id = await start(store, IdSequence(), replace(EVERYTHING, job_id=jobs[1].id))
        await store.submit_runs(
            [redrive_of(job, run_id) for job, run_id in zip(jobs, dead, strict=True)], now=at(11)
        )
        redrive = await read(store, redrive_id)
        step = RedriveStep(redrive=redrive, cursor_to=LAST_RUN, is_done=True)
        assert await store.advance_redrives([step], epochs=epochs, now=at(12))
        assert (await read(store, redrive_id)).done == 1

    async def test_a_step_of_one_that_does_not_run_changes_nothing(self, store: Store) -> None:
        epochs = await own_shards(store)
        redrive_id = await start(store, IdSequence())
        redrive = await read(store, redrive_id)
        await store.change_redrive(redrive_id, RedriveChange.PAUSE, now=at(11))
        paused = await read(store, redrive_id)
        step = RedriveStep(redrive=redrive, cursor_to=RunId(7), is_done=False)
        assert await store.advance_redrives([step], epochs=epochs, now=at(12))
        assert await read(store, redrive_id) == paused

    async def test_a_step_needs_the_epoch_of_the_first_shard(self, store: Store) -> None:
        epochs = await own_shards(store)
        redrive_id = await start(store, IdSequence())
        redrive = await read(store, redrive_id)
        step = RedriveStep(redrive=redrive, cursor_to=RunId(7), is_done=False)
        for wrong in ({}, {0: epochs[0] + 1}):
            assert not await store.advance_redrives([step], epochs=wrong, now=at(12))
        assert await read(store, redrive_id) == redrive
        assert await store.advance_redrives([], epochs={}, now=at(12))
