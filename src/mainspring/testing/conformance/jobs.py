"""Definitions: inserting, editing, pausing, resuming, deleting and reading jobs."""

from __future__ import annotations

from datetime import timedelta

from mainspring.core.clocks import ChangeVerdict
from mainspring.core.cron import Cron
from mainspring.core.ids import JobId
from mainspring.core.model import Delivery, FireRangeKind, Misfire, MisfireRule, Overlap, Priority, Target
from mainspring.core.retry import Backoff, RetryPolicy
from mainspring.core.triggers import Interval, Once
from mainspring.ports.store import Store
from mainspring.ports.store.jobs import AddResult
from mainspring.testing.factories import (
    START,
    IdSequence,
    add_job,
    at,
    make_change,
    make_edit,
    make_fire_range,
    make_new_job,
    make_pause,
    make_spec,
    read_job,
    submit,
)

UNKNOWN = IdSequence(10**9).new_job_id()


class Jobs:
    """Jobs are inserted with a clock, found by id and name, and listed in order of creation."""

    __test__ = False

    async def test_add_jobs_reads_back_what_was_inserted(self, store: Store) -> None:
        new = make_new_job(make_spec(name="reads back"), next_fire_at=at(60))
        assert await store.add_jobs([new], now=START) == [AddResult.ADDED]
        job = await read_job(store, new.id)
        assert (job.id, job.tenant, job.spec) == (new.id, new.tenant, new.spec)
        assert (job.version, job.is_paused) == (1, False)
        assert (job.next_fire_at, job.fired_through) == (at(60), None)
        assert (job.created_at, job.updated_at) == (START, START)

    async def test_add_jobs_keeps_every_field_of_the_definition(self, store: Store) -> None:
        spec = make_spec(
            target=Target("http", {"url": "https://example.org/a?b=c", "headers": {"X-A": "b"}}),
            trigger=Interval(timedelta(seconds=90), START),
            payload=b'{"n":1}',
            priority=Priority.HIGH,
            queue="mail",
            labels=("eu", "gpu"),
            retry=RetryPolicy(
                max_retries=7, backoff=Backoff.LIST, delays=(timedelta(seconds=1),), jitter=0.0
            ),
            timeout=timedelta(minutes=5),
            soft_timeout=timedelta(minutes=4),
            misfire=MisfireRule(policy=Misfire.FIRE_ALL, grace=timedelta(seconds=1), max_count=3),
            overlap=Overlap.SKIP,
            delivery=Delivery.AT_MOST_ONCE,
            jitter=timedelta(seconds=3),
            expires_after=timedelta(hours=2),
            poison_limit=1,
        )
        job = await add_job(store, spec)
        assert job.spec == spec
        assert await store.read_versions([(job.id, 1)]) == [spec]

    async def test_add_jobs_keeps_every_kind_of_trigger(self, store: Store) -> None:
        triggers = (Once(at(5)), Interval(timedelta(seconds=90), START), Cron("0 3 * * 1-5", "Europe/Berlin"))
        for trigger in triggers:
            job = await add_job(store, make_spec(trigger=trigger), next_fire_at=trigger.next_after(START))
            assert job.spec.trigger == trigger

    async def test_add_jobs_refuses_a_name_that_the_tenant_has(self, store: Store) -> None:
        spec = make_spec(name="twice")
        first, second = make_new_job(spec), make_new_job(spec)
        assert await store.add_jobs([first], now=START) == [AddResult.ADDED]
        assert await store.add_jobs([second], now=START) == [AddResult.NAME_TAKEN]
        assert await store.get_jobs([second.id]) == [None]

    async def test_add_jobs_refuses_a_name_twice_within_a_call(self, store: Store) -> None:
        spec = make_spec(name="twice at once")
        jobs = [make_new_job(), make_new_job(spec), make_new_job(spec), make_new_job()]
        added, taken = AddResult.ADDED, AddResult.NAME_TAKEN
        assert await store.add_jobs(jobs, now=START) == [added, added, taken, added]
        [found] = await store.find_jobs("default", ["twice at once"])
        assert found is not None
        assert found.id == jobs[1].id

    async def test_names_are_each_tenants_own(self, store: Store) -> None:
        spec = make_spec(name="mine")
        one, other = make_new_job(spec, tenant="one"), make_new_job(spec, tenant="other")
        assert await store.add_jobs([one, other], now=START) == [AddResult.ADDED] * 2
        [found] = await store.find_jobs("other", ["mine"])
        assert found is not None
        assert found.id == other.id

    async def test_get_and_find_answer_in_order_with_none_for_unknown(self, store: Store) -> None:
        first, second = await add_job(store), await add_job(store)
        assert await store.get_jobs([second.id, UNKNOWN, first.id]) == [second, None, first]
        names = [second.spec.name, "nobody", first.spec.name]
        assert await store.find_jobs("default", names) == [second, None, first]
        assert await store.find_jobs("stranger", names) == [None] * 3

    async def test_list_jobs_pages_in_order_of_creation(self, store: Store) -> None:
        jobs = [await add_job(store) for _ in range(5)]
        await add_job(store, tenant="other")
        seen: list[JobId] = []
        after = None
        while page := await store.list_jobs("default", after=after, limit=2):
            assert len(page) <= 2
            seen += [job.id for job in page]
            after = seen[-1]
        assert seen == [job.id for job in jobs]

    async def test_list_jobs_is_stable_while_jobs_come_and_go(self, store: Store) -> None:
        jobs = [await add_job(store) for _ in range(4)]
        page = await store.list_jobs("default", limit=2)
        await store.delete_jobs([make_change(jobs[0]), make_change(jobs[1])], now=at(1))
        await add_job(store)
        rest = await store.list_jobs("default", after=page[-1].id, limit=2)
        assert [job.id for job in rest] == [jobs[2].id, jobs[3].id]


class Edits:
    """An edit stores a new version and sets the clock, or finds that the job has moved."""

    __test__ = False

    async def test_edit_keeps_both_versions_and_sets_the_clock(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        spec = make_spec(name=job.spec.name, payload=b"2")
        edit = make_edit(job, spec, next_fire_at=at(90))
        assert await store.edit_jobs([edit], now=at(1)) == [ChangeVerdict.DONE]
        edited = await read_job(store, job.id)
        assert (edited.spec, edited.version, edited.next_fire_at) == (spec, 2, at(90))
        assert edited.revision > job.revision
        assert (edited.created_at, edited.updated_at) == (START, at(1))
        versions = await store.read_versions([(job.id, 2), (job.id, 1), (job.id, 3), (UNKNOWN, 1)])
        assert versions == [spec, job.spec, None, None]

    async def test_edit_is_moved_after_another_edit(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        assert await store.edit_jobs([make_edit(job)], now=at(1)) == [ChangeVerdict.DONE]
        late = make_edit(job, make_spec(name=job.spec.name, payload=b"late"))
        assert await store.edit_jobs([late], now=at(2)) == [ChangeVerdict.MOVED]
        assert (await read_job(store, job.id)).version == 2
        assert await store.read_versions([(job.id, 3)]) == [None]

    async def test_edit_is_moved_when_the_clock_stands_elsewhere(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        wrong = [make_edit(job, fire_at=at(61)), make_edit(job, fire_at=None)]
        for edit in wrong:
            assert await store.edit_jobs([edit], now=at(1)) == [ChangeVerdict.MOVED]

    async def test_edit_of_a_job_without_trigger_matches_no_instant(self, store: Store) -> None:
        job = await add_job(store)
        spec = make_spec(name=job.spec.name, trigger=Once(at(30)))
        edit = make_edit(job, spec, next_fire_at=at(30))
        assert await store.edit_jobs([edit], now=at(1)) == [ChangeVerdict.DONE]
        assert (await read_job(store, job.id)).next_fire_at == at(30)

    async def test_edit_moves_the_name_and_frees_the_old_one(self, store: Store) -> None:
        job = await add_job(store, make_spec(name="old"))
        await store.edit_jobs([make_edit(job, make_spec(name="new"))], now=at(1))
        assert [job is None for job in await store.find_jobs("default", ["old", "new"])] == [True, False]
        assert await store.add_jobs([make_new_job(make_spec(name="old"))], now=at(2)) == [AddResult.ADDED]

    async def test_edit_to_a_taken_name_changes_nothing(self, store: Store) -> None:
        await add_job(store, make_spec(name="taken"))
        job = await add_job(store, next_fire_at=at(60))
        edit = make_edit(job, make_spec(name="taken"), fire_ranges=(make_fire_range(job),))
        assert await store.edit_jobs([edit], now=at(1)) == [ChangeVerdict.NAME_TAKEN]
        assert await read_job(store, job.id) == job
        assert await store.list_fire_ranges(job.id) == []

    async def test_edit_inserts_its_fire_ranges_only_where_it_takes_effect(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        edit = make_edit(job, fire_ranges=(make_fire_range(job),))
        assert await store.edit_jobs([edit], now=at(1)) == [ChangeVerdict.DONE]
        assert await store.edit_jobs([edit], now=at(2)) == [ChangeVerdict.MOVED]
        assert len(await store.list_fire_ranges(job.id)) == 1

    async def test_edit_of_missing_jobs_among_others(self, store: Store) -> None:
        job = await add_job(store)
        edits = [make_edit(job, job_id=UNKNOWN), make_edit(job)]
        assert await store.edit_jobs(edits, now=at(1)) == [ChangeVerdict.MISSING, ChangeVerdict.DONE]

    async def test_edit_leaves_a_paused_job_paused(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        await store.pause_jobs([make_pause(job)], now=at(1))
        paused = await read_job(store, job.id)
        assert await store.edit_jobs([make_edit(paused)], now=at(2)) == [ChangeVerdict.DONE]
        edited = await read_job(store, job.id)
        assert (edited.is_paused, edited.next_fire_at, edited.version) == (True, None, 2)

    async def test_edit_with_a_clock_leaves_a_paused_job_stopped(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        await store.pause_jobs([make_pause(job)], now=at(1))
        paused = await read_job(store, job.id)
        edit = make_edit(paused, next_fire_at=at(90))
        assert await store.edit_jobs([edit], now=at(2)) == [ChangeVerdict.DONE]
        edited = await read_job(store, job.id)
        assert (edited.is_paused, edited.next_fire_at, edited.version) == (True, None, 2)
        assert await store.read_due(range(256), until=at(100), limit=9) == []

    async def test_second_edit_of_a_job_in_a_call_is_moved(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        edits = [make_edit(job, next_fire_at=at(90)), make_edit(job, next_fire_at=at(95))]
        assert await store.edit_jobs(edits, now=at(1)) == [ChangeVerdict.DONE, ChangeVerdict.MOVED]
        edited = await read_job(store, job.id)
        assert (edited.version, edited.next_fire_at) == (2, at(90))


class Deletes:
    """A deleted job no longer exists, but its versions, runs and fire ranges stay readable."""

    __test__ = False

    async def test_delete_frees_the_name_at_once(self, store: Store) -> None:
        job = await add_job(store, make_spec(name="phoenix"), next_fire_at=at(60))
        assert await store.delete_jobs([make_change(job)], now=at(1)) == [ChangeVerdict.DONE]
        assert await store.get_jobs([job.id]) == [None]
        assert await store.find_jobs("default", ["phoenix"]) == [None]
        assert await store.list_jobs("default") == []
        again = make_new_job(make_spec(name="phoenix"))
        assert await store.add_jobs([again], now=at(2)) == [AddResult.ADDED]

    async def test_delete_keeps_versions_runs_and_fire_ranges(self, store: Store) -> None:
        job = await add_job(store)
        await store.add_fire_ranges([make_fire_range(job)], now=START)
        [run_id] = await submit(store, job)
        await store.delete_jobs([make_change(job)], now=at(1))
        assert await store.read_versions([(job.id, 1)]) == [job.spec]
        [run] = await store.get_runs([run_id])
        assert run is not None
        assert run.job_id == job.id
        assert [run.id for run in await store.list_runs("default", job_id=job.id)] == [run_id]
        assert len(await store.list_fire_ranges(job.id)) == 1

    async def test_delete_closes_open_fire_ranges(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        await store.add_fire_ranges([make_fire_range(job)], now=START)
        await store.pause_jobs([make_pause(job)], now=at(1))
        paused = await read_job(store, job.id)
        await store.delete_jobs([make_change(paused)], now=at(2))
        gap, catch_up = await store.list_fire_ranges(job.id)
        assert not gap.is_open
        assert gap.to_at == at(2)
        assert not catch_up.is_open

    async def test_delete_before_the_next_fire_leaves_no_gap(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        await store.add_fire_ranges([make_fire_range(job)], now=START)
        await store.pause_jobs([make_pause(job, from_at=at(60))], now=at(1))
        paused = await read_job(store, job.id)
        assert await store.delete_jobs([make_change(paused)], now=at(2)) == [ChangeVerdict.DONE]
        [catch_up] = await store.list_fire_ranges(job.id)
        assert (catch_up.kind, catch_up.is_open) == (FireRangeKind.CATCH_UP, False)

    async def test_delete_closes_the_fire_ranges_that_it_brings(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        fire_ranges = (
            make_fire_range(job),
            make_fire_range(job, kind=FireRangeKind.GAP, from_at=at(1), to_at=None),
        )
        await store.delete_jobs([make_change(job, fire_ranges=fire_ranges)], now=at(2))
        found = [
            (fire_range.kind, fire_range.is_open, fire_range.to_at)
            for fire_range in await store.list_fire_ranges(job.id)
        ]
        assert found == [(FireRangeKind.GAP, False, at(2)), (FireRangeKind.CATCH_UP, False, START)]

    async def test_delete_is_moved_or_missing(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        await store.edit_jobs([make_edit(job)], now=at(1))
        assert await store.delete_jobs([make_change(job)], now=at(2)) == [ChangeVerdict.MOVED]
        edited = await read_job(store, job.id)
        done = [await store.delete_jobs([make_change(edited)], now=at(3)) for _ in range(2)]
        assert done == [[ChangeVerdict.DONE], [ChangeVerdict.MISSING]]

    async def test_deleted_jobs_cannot_be_changed(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        await store.delete_jobs([make_change(job)], now=at(1))
        assert await store.edit_jobs([make_edit(job)], now=at(2)) == [ChangeVerdict.MISSING]
        assert await store.pause_jobs([make_pause(job)], now=at(2)) == [ChangeVerdict.MISSING]
        assert await store.resume_jobs([make_change(job)], now=at(2)) == [ChangeVerdict.MISSING]
