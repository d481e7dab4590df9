"""Jobs that are paused when their newest runs have failed, exactly and once."""

from __future__ import annotations

from dataclasses import replace

from mainspring.core import outcomes
from mainspring.core.clocks import ChangeVerdict
from mainspring.core.ids import JobId, RunId
from mainspring.core.model import FireRangeKind, Job
from mainspring.core.outcomes import Failure
from mainspring.core.retry import RetryPolicy
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.jobs import ClockChange
from mainspring.testing.factories import (
    add_job,
    add_session,
    at,
    claim,
    facts_of,
    make_change,
    make_edit,
    make_fire,
    make_fire_range,
    make_pause,
    make_scheduled_run,
    make_spec,
    own_shards,
    read_held,
    read_job,
    submit,
)

SHARDS = range(256)


async def watched(store: Store, threshold: int | None = 2, *, fires: bool = True) -> Job:
    """Insert a job that is paused after so many failed runs in a row."""
    spec = make_spec(pause_after_failures=threshold, retry=RetryPolicy(max_retries=0))
    return await add_job(store, spec, next_fire_at=at(60) if fires else None)


async def run(store: Store, job: Job, outcome: RunState, *, seconds: float) -> RunId:
    """Make a run, and let it end so."""
    [run_id] = await submit(store, job, now=at(seconds), due_at=at(seconds))
    if outcome is RunState.CANCELLED:
        await store.cancel_runs([run_id], reason="operator", now=at(seconds))
        return run_id
    session_id = await add_session(store, now=at(seconds))
    [claimed] = await claim(store, session_id, now=at(seconds))
    assert claimed.run_id == run_id
    await end(store, job, run_id, outcome, seconds=seconds)
    return run_id


async def end(store: Store, job: Job, run_id: RunId, outcome: RunState, *, seconds: float) -> None:
    """End a RUNNING run."""
    held = await read_held(store, run_id)
    if outcome is RunState.SUCCEEDED:
        transition = outcomes.succeeded(run_id, held.token, held.session_id)
    else:
        failure = Failure(error="no")
        transition = outcomes.failed(facts_of(held), job.spec, failure, now=at(seconds), random=lambda: 0.5)
    await store.apply([transition], now=at(seconds))
    [ended] = await store.get_runs([run_id])
    assert ended is not None
    assert ended.state is outcome


async def look(store: Store, job: Job, *, seconds: float = 100) -> bool:
    """Pause what is found, and say whether it is this job. The hint and the decision agree."""
    found = await store.read_failing(SHARDS, limit=10)
    paused = await store.pause_failing([await stop(store, job_id) for job_id in found], now=at(seconds))
    assert paused == found
    assert await store.pause_failing([make_change(job)], now=at(seconds)) == []
    return job.id in paused


async def stop(store: Store, job_id: JobId) -> ClockChange:
    """Make the pause of a job as it is now, with its gap."""
    job = await read_job(store, job_id)
    if job.next_fire_at is None:
        return make_change(job)
    gap = make_fire_range(
        job, kind=FireRangeKind.GAP, from_at=job.next_fire_at, to_at=None, reason="failures"
    )
    return make_change(job, fire_ranges=(gap,))


FAILED, SUCCEEDED, CANCELLED = RunState.FAILED, RunState.SUCCEEDED, RunState.CANCELLED


class JobsPauseAfterFailures:
    """A job is paused when its newest ended runs have all failed."""

    __test__ = False

    async def test_it_is_paused_after_so_many_in_a_row(self, store: Store) -> None:
        job = await watched(store, 3)
        for number in (1, 2):
            await run(store, job, FAILED, seconds=number)
            assert not await look(store, job)
        await run(store, job, FAILED, seconds=3)
        assert await look(store, job, seconds=4)
        paused = await read_job(store, job.id)
        assert (paused.is_paused, paused.next_fire_at, paused.revision) == (True, None, job.revision + 1)
        assert (paused.pause_note, paused.updated_at) == ("its last 3 runs failed", at(4))
        [gap] = await store.list_fire_ranges(job.id)
        assert (gap.kind, gap.reason, gap.from_at, gap.is_open) == (
            FireRangeKind.GAP,
            "failures",
            at(60),
            True,
        )

    async def test_a_success_in_between_begins_the_count_anew(self, store: Store) -> None:
        job = await watched(store)
        for number, outcome in enumerate((FAILED, SUCCEEDED, FAILED), 1):
            await run(store, job, outcome, seconds=number)
            assert not await look(store, job)
        await run(store, job, FAILED, seconds=4)
        assert await look(store, job)

    async def test_cancelled_and_skipped_runs_do_not_count(self, store: Store) -> None:
        job = await watched(store)
        await run(store, job, FAILED, seconds=1)
        await run(store, job, CANCELLED, seconds=2)
        assert not await look(store, job)
        epochs = await own_shards(store)
        fire = make_fire(job, runs=(make_scheduled_run(job, at(60), skip_reason="misfire"),))
        await store.record_fires([fire], epochs=epochs, now=at(3))
        await run(store, job, FAILED, seconds=4)
        assert await look(store, job)

    async def test_runs_count_in_the_order_in_which_they_were_made(self, store: Store) -> None:
        job = await watched(store)
        session_id = await add_session(store)
        [first] = await submit(store, job)
        assert await claim(store, session_id)
        await run(store, job, FAILED, seconds=1)
        await run(store, job, SUCCEEDED, seconds=2)
        await end(store, job, first, FAILED, seconds=3)
        assert not await look(store, job)
        await run(store, job, FAILED, seconds=4)
        assert not await look(store, job)

    async def test_a_resume_begins_the_count_anew(self, store: Store) -> None:
        job = await watched(store)
        for number in (1, 2):
            await run(store, job, FAILED, seconds=number)
        assert await look(store, job, seconds=3)
        paused = await read_job(store, job.id)
        assert await store.resume_jobs([make_change(paused, next_fire_at=at(120))], now=at(4)) == [
            ChangeVerdict.DONE
        ]
        assert (await read_job(store, job.id)).pause_note is None
        assert not await look(store, job)
        await run(store, job, FAILED, seconds=5)
        assert not await look(store, job)
        await run(store, job, FAILED, seconds=6)
        assert await look(store, job)

    async def test_an_edit_begins_the_count_anew(self, store: Store) -> None:
        job = await watched(store, None)
        for number in (1, 2):
            await run(store, job, FAILED, seconds=number)
        assert not await look(store, job)
        spec = make_spec(name=job.spec.name, pause_after_failures=1, retry=job.spec.retry)
        await store.edit_jobs([make_edit(job, spec)], now=at(3))
        job = await read_job(store, job.id)
        assert not await look(store, job)
        await run(store, job, FAILED, seconds=4)
        assert await look(store, job)

    async def test_an_edit_may_take_it_away(self, store: Store) -> None:
        job = await watched(store, 1)
        spec = make_spec(name=job.spec.name, retry=job.spec.retry)
        await store.edit_jobs([make_edit(job, spec)], now=at(0))
        await run(store, await read_job(store, job.id), FAILED, seconds=1)
        assert not await look(store, job)

    async def test_a_user_s_pause_has_no_note(self, store: Store) -> None:
        job = await watched(store, 1)
        await store.pause_jobs([make_pause(job)], now=at(1))
        assert (await read_job(store, job.id)).pause_note is None
        await run(store, job, FAILED, seconds=2)
        assert not await look(store, job)

    async def test_a_job_without_a_trigger_has_no_gap(self, store: Store) -> None:
        job = await watched(store, 1, fires=False)
        await run(store, job, FAILED, seconds=1)
        assert await look(store, job)
        assert await store.list_fire_ranges(job.id) == []
        assert (await read_job(store, job.id)).pause_note == "its last run failed"

    async def test_a_deleted_job_is_left_alone(self, store: Store) -> None:
        job = await watched(store, 1)
        await run(store, job, FAILED, seconds=1)
        await store.delete_jobs([make_change(job)], now=at(2))
        assert not await look(store, job)

    async def test_only_wanted_shards_and_so_many_are_found(self, store: Store) -> None:
        jobs = [await watched(store, 1) for _ in range(3)]
        for number, job in enumerate(jobs, 1):
            await run(store, job, FAILED, seconds=number)
        assert len(await store.read_failing(SHARDS, limit=2)) == 2
        assert await store.read_failing([], limit=10) == []
        assert len(await store.pause_failing([await stop(store, job.id) for job in jobs], now=at(9))) == 3

    async def test_what_was_planned_from_a_clock_that_has_moved_does_nothing(self, store: Store) -> None:
        job = await watched(store, 1)
        await run(store, job, FAILED, seconds=1)
        planned = await stop(store, job.id)
        fire = make_fire(job, runs=(make_scheduled_run(job, at(60)),), next_fire_at=at(120))
        await store.record_fires([fire], epochs=await own_shards(store), now=at(60))
        assert await store.pause_failing([planned], now=at(61)) == []
        assert await look(store, job, seconds=62)

    async def test_the_records_of_the_plan_are_kept(self, store: Store) -> None:
        job = await watched(store, 1)
        await run(store, job, FAILED, seconds=1)
        planned = await stop(store, job.id)
        kept_out = make_fire_range(
            job, kind=FireRangeKind.GAP, from_at=at(60), to_at=at(70), reason="calendar:off@1"
        )
        planned = replace(planned, fire_ranges=(kept_out, replace(planned.fire_ranges[0], from_at=at(80))))
        assert await store.pause_failing([planned], now=at(75)) == [job.id]
        found = await store.list_fire_ranges(job.id)
        assert {(one.reason, one.from_at, one.to_at) for one in found} == {
            ("calendar:off@1", at(60), at(70)),
            ("failures", at(80), None),
        }
