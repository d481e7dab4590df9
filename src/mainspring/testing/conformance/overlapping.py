"""What becomes of fires while earlier runs of their job are live: they are skipped, wait in a line, or cancel."""

from __future__ import annotations

from datetime import datetime

from mainspring.core import outcomes
from mainspring.core.ids import RunId
from mainspring.core.limits import JobLimit
from mainspring.core.model import Job, Overlap, Run
from mainspring.core.outcomes import Failure
from mainspring.core.retry import RetryPolicy
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.schedule import FireRangeStep, FireResult, FireStatus
from mainspring.testing.conformance.limits import end, ids
from mainspring.testing.factories import (
    add_job,
    add_session,
    at,
    claim,
    claim_lined_up,
    facts_of,
    make_edit,
    make_fire,
    make_fire_range,
    make_new_run,
    make_scheduled_run,
    make_spec,
    own_shards,
    read_held,
    read_job,
    submit,
)


async def add_overlapping(store: Store, overlap: Overlap, **options: object) -> tuple[Job, dict[int, int]]:
    """Insert a job that fires at 60 seconds, and take all shards."""
    job = await add_job(store, make_spec(overlap=overlap, **options), next_fire_at=at(60))
    return job, await own_shards(store)


async def fire(store: Store, job: Job, epochs: dict[int, int]) -> FireResult:
    """Fire a job where its clock stands, as its definition says."""
    job = await read_job(store, job.id)
    assert job.next_fire_at is not None
    [result] = await store.record_fires(
        [make_fire(job, overlap=job.spec.overlap)], epochs=epochs, now=job.next_fire_at
    )
    assert result.status is FireStatus.FIRED
    return result


async def runs_of(store: Store, job: Job) -> list[Run]:
    """Return a job's runs, the oldest first."""
    return (await store.list_runs("default", job_id=job.id))[::-1]


async def states_of(store: Store, job: Job) -> list[tuple[datetime | None, RunState]]:
    """Return when the runs of a job fired, and their states; the oldest first."""
    return [(run.fire_at, run.state) for run in await runs_of(store, job)]


class RunsFollowOneAnother:
    """All runs of a job stand in one line, whatever made them."""

    __test__ = False

    async def test_one_starts_when_the_other_has_ended(self, store: Store) -> None:
        job, epochs = await add_overlapping(store, Overlap.QUEUE_ALL)
        session_id = await add_session(store, now=at(60))
        [first], [submitted] = (await fire(store, job, epochs)).run_ids, await submit(store, job, now=at(60))
        [third] = (await fire(store, job, epochs)).run_ids
        assert await claim(store, session_id, now=at(120), limit=9) == ()
        seconds = 120
        for run_id in (first, submitted, third):
            started = await claim_lined_up(store, session_id, now=at(seconds), limit=9)
            assert ids(started.runs) == [run_id]
            assert (await claim_lined_up(store, session_id, now=at(seconds), limit=9)).runs == ()
            await end(store, started.runs, session_id, seconds=seconds)
            seconds += 1

    async def test_a_retry_keeps_its_turn(self, store: Store) -> None:
        job, epochs = await add_overlapping(store, Overlap.QUEUE_ALL, retry=RetryPolicy(max_retries=3))
        session_id = await add_session(store, now=at(60))
        [first] = (await fire(store, job, epochs)).run_ids
        assert ids((await claim_lined_up(store, session_id, now=at(60))).runs) == [first]
        await fire(store, job, epochs)
        await fail(store, job, first, seconds=120)
        assert (await claim_lined_up(store, session_id, now=at(121), limit=9)).runs == ()
        assert ids((await claim_lined_up(store, session_id, now=at(9999), limit=9)).runs) == [first]

    async def test_a_line_stands_beside_limits(self, store: Store) -> None:
        limits = (JobLimit(key="$.customer", limit=1), JobLimit(limit=50))
        payload = b'{"customer":"a"}'
        job, epochs = await add_overlapping(store, Overlap.QUEUE_ALL, concurrency=limits, payload=payload)
        session_id = await add_session(store, now=at(60))
        await submit(store, job, payload=b'{"customer":"b"}')
        await fire(store, job, epochs)
        assert len((await claim_lined_up(store, session_id, now=at(60), limit=9)).runs) == 1


async def fail(store: Store, job: Job, run_id: RunId, *, seconds: float) -> None:
    """Let a run's attempt fail; its job says whether there is another."""
    facts = facts_of(await read_held(store, run_id))
    transition = outcomes.failed(facts, job.spec, Failure(error="no"), now=at(seconds), random=lambda: 0.5)
    await store.apply([transition], now=at(seconds))


class OneFireWaits:
    """With `queue_one`, a fire is skipped while a run waits, and only then."""

    __test__ = False

    async def test_a_fire_is_skipped_while_one_waits(self, store: Store) -> None:
        job, epochs = await add_overlapping(store, Overlap.QUEUE_ONE)
        session_id = await add_session(store, now=at(60))
        [first] = (await fire(store, job, epochs)).run_ids
        assert ids((await claim_lined_up(store, session_id, now=at(60))).runs) == [first]
        [second] = (await fire(store, job, epochs)).run_ids
        assert (await fire(store, job, epochs)).run_ids == ()
        assert await states_of(store, job) == [
            (at(60), RunState.RUNNING),
            (at(120), RunState.PENDING),
            (at(180), RunState.SKIPPED),
        ]
        [skipped] = await store.list_runs("default", job_id=job.id, state=RunState.SKIPPED)
        assert skipped.reason == "overlap"
        [run] = [run for run in await runs_of(store, job) if run.id == second]
        assert run.state is RunState.PENDING

    async def test_a_run_between_attempts_does_not_wait(self, store: Store) -> None:
        job, epochs = await add_overlapping(store, Overlap.QUEUE_ONE, retry=RetryPolicy(max_retries=3))
        session_id = await add_session(store, now=at(60))
        [first] = (await fire(store, job, epochs)).run_ids
        await claim_lined_up(store, session_id, now=at(60))
        await fail(store, job, first, seconds=61)
        assert len((await fire(store, job, epochs)).run_ids) == 1
        assert (await fire(store, job, epochs)).run_ids == ()

    async def test_a_run_for_later_does_not_wait_yet(self, store: Store) -> None:
        job, epochs = await add_overlapping(store, Overlap.QUEUE_ONE)
        await submit(store, job, due_at=at(150))
        assert len((await fire(store, job, epochs)).run_ids) == 1
        [waiting] = (await store.list_runs("default", job_id=job.id, state=RunState.PENDING))[:1]
        await store.cancel_runs([waiting.id], reason="operator", now=at(100))
        assert len((await fire(store, job, epochs)).run_ids) == 1
        await store.cancel_runs(
            [run.id for run in await runs_of(store, job) if run.fire_at is not None],
            reason="operator",
            now=at(130),
        )
        assert (await fire(store, job, epochs)).run_ids == ()

    async def test_one_of_a_set_waits(self, store: Store) -> None:
        job, epochs = await add_overlapping(store, Overlap.QUEUE_ONE)
        runs = tuple(make_scheduled_run(job, at(second)) for second in (60, 61, 62))
        planned = make_fire(job, runs=runs, fired_through=at(62), overlap=Overlap.QUEUE_ONE)
        [result] = await store.record_fires([planned], epochs=epochs, now=at(62))
        assert len(result.run_ids) == 1
        assert [state for _, state in sorted(await states_of(store, job), key=lambda one: str(one[0]))] == [
            RunState.PENDING,
            RunState.SKIPPED,
            RunState.SKIPPED,
        ]

    async def test_steps_of_one_call_see_each_other(self, store: Store) -> None:
        job, epochs = await add_overlapping(store, Overlap.QUEUE_ONE)
        await store.add_fire_ranges([make_fire_range(job), make_fire_range(job)], now=at(0))
        steps = [
            FireRangeStep(
                fire_range_id=fire_range.id,
                job_id=job.id,
                cursor_from=None,
                cursor_to=at(-300 + number),
                runs=(make_scheduled_run(job, at(-300 + number)),),
                is_done=False,
                overlap=Overlap.QUEUE_ONE,
            )
            for number, fire_range in enumerate(reversed(await store.list_fire_ranges(job.id)))
        ]
        results = await store.advance_fire_ranges(steps, epochs=epochs, now=at(0))
        assert [len(result.run_ids) for result in results] == [1, 0]


class FiresCancelWhatIsLive:
    """With `cancel_running`, a fire cancels all live runs of its job, and its own starts when they have ended."""

    __test__ = False

    async def test_running_ones_are_asked_to_stop_and_waiting_ones_end(self, store: Store) -> None:
        job, epochs = await add_overlapping(store, Overlap.CANCEL_RUNNING)
        session_id = await add_session(store, now=at(60))
        [first] = (await fire(store, job, epochs)).run_ids
        [claimed] = (await claim_lined_up(store, session_id, now=at(60))).runs
        [submitted] = await submit(store, job, now=at(61))
        result = await fire(store, job, epochs)
        assert result.cancelled == (first, submitted)
        [second] = result.run_ids
        assert await states_of(store, job) == [
            (at(60), RunState.RUNNING),
            (None, RunState.CANCELLED),
            (at(120), RunState.PENDING),
        ]
        [running, cancelled] = await store.get_runs([first, submitted])
        assert running is not None
        assert cancelled is not None
        assert running.is_cancel_requested
        assert cancelled.reason == "overlap"
        assert (await claim_lined_up(store, session_id, now=at(121), limit=9)).runs == ()
        await end(store, [claimed], session_id, seconds=122)
        assert ids((await claim_lined_up(store, session_id, now=at(123), limit=9)).runs) == [second]

    async def test_without_a_live_run_it_is_a_plain_fire(self, store: Store) -> None:
        job, epochs = await add_overlapping(store, Overlap.CANCEL_RUNNING)
        result = await fire(store, job, epochs)
        assert (len(result.run_ids), result.cancelled) == (1, ())

    async def test_only_the_newest_of_a_set_makes_a_run(self, store: Store) -> None:
        job, epochs = await add_overlapping(store, Overlap.CANCEL_RUNNING)
        runs = tuple(make_scheduled_run(job, at(second)) for second in (60, 61, 62))
        planned = make_fire(job, runs=runs, fired_through=at(62), overlap=Overlap.CANCEL_RUNNING)
        await store.record_fires([planned], epochs=epochs, now=at(62))
        assert sorted(await states_of(store, job), key=lambda one: str(one[0])) == [
            (at(60), RunState.SKIPPED),
            (at(61), RunState.SKIPPED),
            (at(62), RunState.PENDING),
        ]

    async def test_an_old_fire_cancels_no_newer_one(self, store: Store) -> None:
        job, epochs = await add_overlapping(store, Overlap.CANCEL_RUNNING)
        [live] = (await fire(store, job, epochs)).run_ids
        await store.add_fire_ranges([make_fire_range(job)], now=at(0))
        [fire_range] = await store.list_fire_ranges(job.id)
        step = FireRangeStep(
            fire_range_id=fire_range.id,
            job_id=job.id,
            cursor_from=None,
            cursor_to=at(-300),
            runs=(make_scheduled_run(job, at(-300)),),
            is_done=False,
            overlap=Overlap.CANCEL_RUNNING,
        )
        [result] = await store.advance_fire_ranges([step], epochs=epochs, now=at(61))
        assert (result.run_ids, result.cancelled) == ((), ())
        [run] = await store.get_runs([live])
        assert run is not None
        assert run.state is RunState.PENDING


class LinesBeginAndEndByEdits:
    """A line waits for what was live before it began. It stays while the job is not said to allow overlaps."""

    __test__ = False

    async def test_a_line_waits_for_what_was_live_before(self, store: Store) -> None:
        job, epochs = await add_overlapping(store, Overlap.ALLOW)
        session_id = await add_session(store, now=at(60))
        [running] = (await fire(store, job, epochs)).run_ids
        [before] = await claim(store, session_id, now=at(60))
        assert before.run_id == running
        [waiting] = await submit(store, job, now=at(61))
        job = await edit(store, job, Overlap.QUEUE_ALL)
        [lined_up] = (await fire(store, job, epochs)).run_ids
        assert (await claim_lined_up(store, session_id, now=at(120), limit=9)).runs == ()
        await end(store, [before], session_id, seconds=121)
        assert (await claim_lined_up(store, session_id, now=at(121), limit=9)).runs == ()
        last = await claim(store, session_id, now=at(121), limit=9)
        assert ids(last) == [waiting]
        await end(store, last, session_id, seconds=122)
        assert ids((await claim_lined_up(store, session_id, now=at(123), limit=9)).runs) == [lined_up]

    async def test_what_was_live_before_counts_as_under_way(self, store: Store) -> None:
        job, epochs = await add_overlapping(store, Overlap.ALLOW)
        session_id = await add_session(store, now=at(60))
        await fire(store, job, epochs)
        assert await claim(store, session_id, now=at(60))
        job = await edit(store, job, Overlap.QUEUE_ONE)
        assert [len((await fire(store, job, epochs)).run_ids) for _ in range(2)] == [1, 0]

    async def test_to_allow_opens_the_line(self, store: Store) -> None:
        job, _ = await add_overlapping(store, Overlap.QUEUE_ALL)
        session_id = await add_session(store)
        await submit(store, job, 3)
        assert len((await claim_lined_up(store, session_id, limit=9)).runs) == 1
        job = await edit(store, job, Overlap.ALLOW)
        assert len((await claim_lined_up(store, session_id, limit=9)).runs) == 2

    async def test_other_policies_keep_the_line(self, store: Store) -> None:
        job, _ = await add_overlapping(store, Overlap.QUEUE_ALL)
        session_id = await add_session(store)
        await submit(store, job, 3)
        [first] = (await claim_lined_up(store, session_id, limit=9)).runs
        for overlap in (Overlap.SKIP, Overlap.CANCEL_RUNNING, Overlap.QUEUE_ONE):
            job = await edit(store, job, overlap)
            assert (await claim_lined_up(store, session_id, limit=9)).runs == ()
        await end(store, [first], session_id)
        assert len((await claim_lined_up(store, session_id, now=at(1), limit=9)).runs) == 1

    async def test_a_job_that_allows_overlaps_has_no_keys(self, store: Store) -> None:
        job, _ = await add_overlapping(store, Overlap.ALLOW)
        assert make_new_run(job).is_plain


async def edit(store: Store, job: Job, overlap: Overlap) -> Job:
    """Give a job another overlap policy."""
    job = await read_job(store, job.id)
    spec = make_spec(overlap=overlap, name=job.spec.name)
    await store.edit_jobs([make_edit(job, spec)], now=at(61))
    return await read_job(store, job.id)
