"""Jobs whose next fire waits for the end of a run: which are looked at, what is found, and how their clocks are set."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from mainspring.core.clocks import ChangeVerdict, NextFire
from mainspring.core.ids import RunId
from mainspring.core.model import Job, JobSpec, RunKind
from mainspring.core.retry import RetryPolicy
from mainspring.core.states import RunState
from mainspring.core.triggers import AfterEnd, Interval, Windowed
from mainspring.ports.store import Store
from mainspring.ports.store.ends import FollowingFire, FollowVerdict
from mainspring.testing.conformance.failing import end
from mainspring.testing.conformance.upkeep import prune_all
from mainspring.testing.factories import (
    MINUTE,
    START,
    add_job,
    add_session,
    at,
    claim,
    make_change,
    make_edit,
    make_fire,
    make_pause,
    make_scheduled_run,
    make_spec,
    own_shards,
    read_job,
    submit,
)

SHARDS = range(256)
LONG = timedelta(days=90)
NEXT = NextFire(at(70), at(70))


def _after_end(**fields: object) -> JobSpec:
    return make_spec(trigger=AfterEnd(MINUTE), retry=RetryPolicy(max_retries=0), **fields)


async def _fired(store: Store, *, spec: JobSpec | None = None, skip_reason: str | None = None) -> Job:
    """Insert a job, and let it fire at START."""
    job = await add_job(store, _after_end() if spec is None else spec, next_fire_at=START)
    await _fire(store, job, skip_reason=skip_reason)
    return await read_job(store, job.id)


async def _fire(store: Store, job: Job, *, skip_reason: str | None = None) -> RunId | None:
    assert job.next_fire_at is not None
    epochs = await own_shards(store)
    run = make_scheduled_run(job, job.next_fire_at, skip_reason=skip_reason)
    fire = make_fire(job, next_fire_at=None, runs=(run,))
    [result] = await store.record_fires([fire], epochs=epochs, now=job.next_fire_at)
    return result.run_ids[0] if result.run_ids else None


async def _run(store: Store, job: Job, outcome: RunState, *, seconds: float) -> RunId:
    """Let the run that waits end so."""
    session_id = await add_session(store, now=at(seconds))
    [claimed] = await claim(store, session_id, now=at(seconds))
    await end(store, job, claimed.run_id, outcome, seconds=seconds)
    return claimed.run_id


async def _ended(store: Store) -> list[Job]:
    return [await read_job(store, job_id) for job_id in await store.read_ended(SHARDS, limit=10)]


async def _follow(store: Store, job: Job, next_fire: NextFire | None = NEXT) -> FollowVerdict:
    epochs = await own_shards(store)
    following = FollowingFire(job_id=job.id, revision=job.revision, next_fire=next_fire)
    [verdict] = await store.follow_ends([following], epochs=epochs, now=at(10))
    return verdict


class EndsAreFound:
    """A job is looked at while its clock waits for the end of its run, and found when that has come."""

    __test__ = False

    async def test_a_job_is_found_when_its_run_has_ended(self, store: Store) -> None:
        job = await _fired(store)
        assert await _ended(store) == []
        await _run(store, job, RunState.SUCCEEDED, seconds=10)
        assert await _ended(store) == [job]

    async def test_a_run_that_waits_for_its_retry_has_not_ended(self, store: Store) -> None:
        job = await _fired(store, spec=make_spec(trigger=AfterEnd(MINUTE)))
        session_id = await add_session(store, now=START)
        [claimed] = await claim(store, session_id, now=START)
        with pytest.raises(AssertionError):  # the attempt failed, the run did not
            await end(store, job, claimed.run_id, RunState.FAILED, seconds=10)
        [run] = await store.get_runs([claimed.run_id])
        assert run is not None
        assert run.state is RunState.RETRYING
        assert await _ended(store) == []

    @pytest.mark.parametrize("outcome", [RunState.SUCCEEDED, RunState.FAILED])
    async def test_what_became_of_a_fire(self, store: Store, outcome: RunState) -> None:
        job = await _fired(store)
        [live] = await store.find_fires([(job.id, START)])
        assert live is not None
        assert (live.state, live.finished_at) == (RunState.PENDING, None)
        run_id = await _run(store, job, outcome, seconds=10)
        [found] = await store.find_fires([(job.id, START)])
        assert found is not None
        assert (found.run_id, found.state, found.finished_at) == (run_id, outcome, at(10))
        assert found.run_id == live.run_id
        assert await _ended(store) == [job]

    async def test_a_cancelled_run_has_ended(self, store: Store) -> None:
        job = await _fired(store)
        [run] = await store.find_fires([(job.id, START)])
        assert run is not None
        await store.cancel_runs([run.run_id], reason="operator", now=at(5))
        [found] = await store.find_fires([(job.id, START)])
        assert found is not None
        assert (found.state, found.finished_at) == (RunState.CANCELLED, at(5))
        assert await _ended(store) == [job]

    async def test_a_fire_that_was_skipped_has_ended_with_its_record(self, store: Store) -> None:
        job = await _fired(store, skip_reason="misfire")
        [found] = await store.find_fires([(job.id, START)])
        assert found is not None
        assert (found.state, found.finished_at) == (RunState.SKIPPED, START)
        assert await _ended(store) == [job]

    async def test_a_run_that_is_no_longer_kept_is_not_found_and_its_job_is(self, store: Store) -> None:
        job = await _fired(store)
        await _run(store, job, RunState.SUCCEEDED, seconds=10)
        await prune_all(store, START + LONG)
        assert await store.find_fires([(job.id, START)]) == [None]
        assert await _ended(store) == [job]

    async def test_other_runs_are_none_of_the_fire(self, store: Store) -> None:
        job = await _fired(store)
        await _run(store, job, RunState.SUCCEEDED, seconds=10)
        await submit(store, job, 3)
        await submit(store, job, kind=RunKind.BACKFILL, fire_at=at(-60))
        assert await _ended(store) == [job]
        found = await store.find_fires([(job.id, at(-60)), (job.id, START), (job.id, at(1))])
        assert [one is None for one in found] == [True, False, True]

    async def test_answers_are_in_the_order_of_the_questions(self, store: Store) -> None:
        jobs = [await _fired(store) for _ in range(3)]
        found = await store.find_fires([(job.id, START) for job in reversed(jobs)])
        ids = [one.run_id for one in found if one is not None]
        runs = await store.get_runs(ids)
        assert [run.job_id for run in runs if run is not None] == [job.id for job in reversed(jobs)]
        assert await store.find_fires([]) == []

    async def test_jobs_that_do_not_wait_are_not_found(self, store: Store) -> None:
        await _fired(store, spec=make_spec(trigger=Interval(MINUTE, START)))  # at its end
        await add_job(store, _after_end(), next_fire_at=at(60))
        paused = await _fired(store, skip_reason="misfire")
        deleted = await _fired(store, skip_reason="misfire")
        await store.pause_jobs([make_pause(paused)], now=at(1))
        await store.delete_jobs([make_change(deleted)], now=at(1))
        assert await _ended(store) == []

    async def test_only_the_asked_shards_are_looked_at(self, store: Store) -> None:
        job = await add_job(store, _after_end(), next_fire_at=START, shard=7)
        await _fire(store, job, skip_reason="misfire")
        assert await store.read_ended([6, 8], limit=10) == []
        assert await store.read_ended([7], limit=10) == [job.id]
        assert await store.read_ended([], limit=10) == []
        assert await store.read_ended([7], limit=0) == []
        assert [await store.watches_ends(shards) for shards in ([6, 8], [6, 7], [])] == [False, True, False]

    async def test_only_jobs_that_count_from_an_end_are_watched(self, store: Store) -> None:
        await add_job(store)
        await add_job(store, make_spec(trigger=Interval(MINUTE, START)), next_fire_at=at(60))
        assert not await store.watches_ends(SHARDS)
        await add_job(store, make_spec(trigger=Windowed(AfterEnd(MINUTE), starts_at=at(60))))
        assert await store.watches_ends(SHARDS)

    async def test_an_edit_takes_a_job_in_and_out(self, store: Store) -> None:
        job = await add_job(store, make_spec(trigger=Interval(MINUTE, START)))
        await store.edit_jobs([make_edit(job, make_spec(trigger=AfterEnd(MINUTE)))], now=START)
        assert await store.watches_ends(SHARDS)
        job = await read_job(store, job.id)
        await store.edit_jobs([make_edit(job, make_spec())], now=START)
        assert not await store.watches_ends(SHARDS)

    async def test_a_deleted_job_leaves_nothing(self, store: Store) -> None:
        job = await _fired(store)
        await store.delete_jobs([make_change(job)], now=at(1))
        assert not await store.watches_ends(SHARDS)


class EndsAreFollowed:
    """The clock of a job whose run has ended is set once, by who owns its shard."""

    __test__ = False

    async def test_a_clock_is_set_and_due(self, store: Store) -> None:
        job = await _fired(store, skip_reason="misfire")
        assert await _follow(store, job, NextFire(at(70), at(75))) is FollowVerdict.SET
        now = await read_job(store, job.id)
        assert (now.next_fire_at, now.fired_through) == (at(70), START)
        assert (now.revision, now.updated_at) == (job.revision + 1, job.updated_at)
        assert await _ended(store) == []
        [clock] = await store.read_due(SHARDS, until=at(75), limit=10)
        assert (clock.job_id, clock.fire_at, clock.due_at) == (job.id, at(70), at(75))

    async def test_the_fire_that_follows_is_won_and_waited_for_in_turn(self, store: Store) -> None:
        job = await _fired(store, skip_reason="misfire")
        await _follow(store, job)
        run_id = await _fire(store, await read_job(store, job.id))
        assert run_id is not None
        assert await _ended(store) == []
        assert await _run(store, job, RunState.SUCCEEDED, seconds=80) == run_id
        [again] = await _ended(store)
        assert (again.next_fire_at, again.fired_through) == (None, at(70))

    async def test_of_those_who_follow_one_end_together_one_sets_the_clock(self, store: Store) -> None:
        job = await _fired(store, skip_reason="misfire")
        epochs = await own_shards(store)
        following = FollowingFire(job_id=job.id, revision=job.revision, next_fire=NEXT)
        verdicts = await asyncio.gather(
            *(store.follow_ends([following], epochs=epochs, now=at(10)) for _ in range(5))
        )
        assert sorted(verdict for [verdict] in verdicts) == [*[FollowVerdict.MOVED] * 4, FollowVerdict.SET]

    async def test_a_clock_that_was_set_before_is_left(self, store: Store) -> None:
        job = await _fired(store, skip_reason="misfire")
        await _follow(store, job)
        assert await _follow(store, job, NextFire(at(90), at(90))) is FollowVerdict.MOVED
        standing = await read_job(store, job.id)
        assert await _follow(store, standing, NextFire(at(90), at(90))) is FollowVerdict.MOVED
        assert await read_job(store, job.id) == standing

    async def test_an_end_that_was_read_before_an_edit_sets_nothing(self, store: Store) -> None:
        job = await _fired(store, skip_reason="misfire")
        await store.edit_jobs([make_edit(job, _after_end())], now=at(1))
        assert await _follow(store, job) is FollowVerdict.MOVED
        assert (await read_job(store, job.id)).next_fire_at is None

    async def test_an_end_that_was_read_before_a_pause_sets_nothing(self, store: Store) -> None:
        job = await _fired(store, skip_reason="misfire")
        await store.pause_jobs([make_pause(job)], now=at(1))
        assert await _follow(store, job) is FollowVerdict.MOVED

    async def test_an_edit_that_read_the_clock_before_loses(self, store: Store) -> None:
        job = await _fired(store, skip_reason="misfire")
        await _follow(store, job)
        await _fire(store, await read_job(store, job.id))  # the clock stands nowhere again
        edit = make_edit(job, _after_end(), next_fire_at=at(71))
        assert await store.edit_jobs([edit], now=at(71)) == [ChangeVerdict.MOVED]

    async def test_who_has_lost_the_shard_sets_nothing(self, store: Store) -> None:
        job = await _fired(store, skip_reason="misfire")
        stale = await own_shards(store)
        await own_shards(store, "node-2")
        following = FollowingFire(job_id=job.id, revision=job.revision, next_fire=NEXT)
        for epochs in (stale, {}):
            assert await store.follow_ends([following], epochs=epochs, now=at(10)) == [FollowVerdict.FENCED]
        assert await read_job(store, job.id) == job

    async def test_a_job_that_is_gone_moved(self, store: Store) -> None:
        job = await _fired(store, skip_reason="misfire")
        await store.delete_jobs([make_change(job)], now=at(1))
        assert await _follow(store, job) is FollowVerdict.MOVED

    async def test_a_job_without_a_next_fire_is_looked_at_no_more_until_it_is_edited(
        self, store: Store
    ) -> None:
        job = await _fired(store, skip_reason="misfire")
        assert await _follow(store, job, None) is FollowVerdict.SET
        assert await _ended(store) == []
        assert not await store.watches_ends(SHARDS)
        over = await read_job(store, job.id)
        await store.edit_jobs([make_edit(over, _after_end())], now=at(20))
        assert [one.id for one in await _ended(store)] == [job.id]

    async def test_each_is_answered_for_itself(self, store: Store) -> None:
        first, second, third = [await _fired(store, skip_reason="misfire") for _ in range(3)]
        epochs = await own_shards(store)
        following = [
            FollowingFire(job_id=third.id, revision=third.revision, next_fire=NEXT),
            FollowingFire(job_id=first.id, revision=first.revision + 1, next_fire=NEXT),
            FollowingFire(job_id=second.id, revision=second.revision, next_fire=None),
        ]
        assert await store.follow_ends(following, epochs=epochs, now=at(10)) == [
            FollowVerdict.SET,
            FollowVerdict.MOVED,
            FollowVerdict.SET,
        ]
        assert await store.follow_ends([], epochs=epochs, now=at(10)) == []
        assert [one.id for one in await _ended(store)] == [first.id]
