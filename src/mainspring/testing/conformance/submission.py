"""Submitting runs, and submitting them only once."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from mainspring.core.admission import SubmissionVerdict
from mainspring.core.ids import run_shard
from mainspring.core.model import LaneKey, Priority, RunKind
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.runs import IdempotencyKey, SubmitResult
from mainspring.testing.conformance.completion import fail
from mainspring.testing.conformance.jobs import UNKNOWN
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    at,
    claim,
    lane_of,
    make_change,
    make_edit,
    make_new_run,
    running_run,
    submit,
)


class Submission:
    """Runs of existing jobs are inserted in order, with every value that was given."""

    __test__ = False

    async def test_run_reads_back_what_was_submitted(self, store: Store) -> None:
        job = await add_job(store)
        lane = LaneKey("mail", "http+gpu", job.tenant, Priority.LOW)
        new = make_new_run(job, lane=lane, payload=b"[1]", due_at=at(5), target_key="mine", expires_at=at(50))
        [result] = await store.submit_runs([new], now=START)
        assert result.run_id is not None
        [run] = await store.get_runs([result.run_id])
        assert run is not None
        assert (run.id, run.job_id, run.version, run.tenant) == (result.run_id, job.id, 1, job.tenant)
        assert (run.lane, run.kind, run.state) == (lane, RunKind.MANUAL, RunState.PENDING)
        assert (run.fire_at, run.due_at, run.ready_at) == (None, at(5), at(5))
        assert (run.created_at, run.started_at, run.finished_at) == (START, None, None)
        assert (run.attempt, run.token, run.crashes) == (1, 0, 0)
        assert (run.session_id, run.is_cancel_requested, run.reason, run.error) == (None, False, None, None)
        assert (run.payload, run.result, run.output) == (b"[1]", None, None)
        assert (run.idempotency_key, run.fire_range_id, run.redrive_of) == ("mine", None, None)

    async def test_ids_grow_in_order_and_carry_the_shard(self, store: Store) -> None:
        first, second = await add_job(store, shard=250), await add_job(store, shard=3)
        runs = [make_new_run(first), make_new_run(second), make_new_run(first)]
        results = await store.submit_runs(runs, now=START)
        ids = [result.run_id for result in results if result.run_id is not None]
        ids += await submit(store, second)
        assert ids == sorted(set(ids))
        assert [run_shard(run_id) for run_id in ids] == [250, 3, 250, 3]

    async def test_due_in_the_past_is_ready_now(self, store: Store) -> None:
        job = await add_job(store)
        [run_id] = await submit(store, job, due_at=at(-100))
        [run] = await store.get_runs([run_id])
        assert run is not None
        assert (run.due_at, run.ready_at) == (at(-100), START)

    async def test_missing_jobs_among_others(self, store: Store) -> None:
        job, deleted = await add_job(store), await add_job(store)
        await store.delete_jobs([make_change(deleted)], now=START)
        runs = [make_new_run(deleted), make_new_run(job), make_new_run(job, job_id=UNKNOWN)]
        results = await store.submit_runs(runs, now=START)
        missing = SubmitResult(SubmissionVerdict.JOB_MISSING)
        assert [results[0], results[2]] == [missing, missing]
        assert results[1].status is SubmissionVerdict.SUBMITTED
        assert len(await store.list_runs("default")) == 1

    async def test_run_of_an_older_version_stays_with_it(self, store: Store) -> None:
        job = await add_job(store)
        [run_id] = await submit(store, job, version=1)
        [run] = await store.get_runs([run_id])
        assert run is not None
        assert run.version == 1

    async def test_a_run_that_must_be_of_the_newest_version(self, store: Store) -> None:
        job, other = await add_job(store), await add_job(store)
        await submit(store, job)  # from now on, its lane is known
        await store.edit_jobs([make_edit(job)], now=START)
        key = IdempotencyKey(key="k", request_hash=b"h", expires_at=at(60))
        runs = [
            make_new_run(job, version=1, must_be_newest=True),
            make_new_run(job, version=1, must_be_newest=True, submit_key=key),
            make_new_run(job, version=2, must_be_newest=True),
            make_new_run(job, version=1),
            make_new_run(other, version=1, must_be_newest=True),
        ]
        results = await store.submit_runs(runs, now=START)
        changed, submitted = SubmissionVerdict.JOB_CHANGED, SubmissionVerdict.SUBMITTED
        assert [result.status for result in results] == [changed, changed, submitted, submitted, submitted]
        plain = await store.submit_runs([runs[2], runs[3], runs[0]], now=START)
        assert [result.status for result in plain] == [submitted, submitted, changed]
        alone = await store.submit_runs([make_new_run(job, version=2, submit_key=key)], now=START)
        assert [result.status for result in alone] == [submitted]  # the refused run did not take the key

    async def test_columns_that_differ_in_one_run_only(self, store: Store) -> None:
        job, other = await add_job(store), await add_job(store)
        low = LaneKey("mail", "http", job.tenant, Priority.LOW)
        odd = make_new_run(other, lane=low, due_at=at(7), timeout=timedelta(seconds=3), payload=b"7")
        results = await store.submit_runs([make_new_run(job), make_new_run(job), odd], now=START)
        runs = await store.get_runs([result.run_id for result in results if result.run_id is not None])
        seen = [(run.job_id, run.lane, run.due_at, run.payload) for run in runs if run is not None]
        usual = (job.id, lane_of(job), make_new_run(job).due_at, make_new_run(job).payload)
        assert seen == [usual, usual, (other.id, low, at(7), b"7")]

    async def test_lanes_are_interned_once(self, store: Store) -> None:
        job = await add_job(store)
        await submit(store, job, 3)
        await asyncio.gather(*(submit(store, job, 2) for _ in range(4)))
        [lane] = await store.read_lanes([])
        assert lane.key == lane_of(job)


class Idempotency:
    """A key stands for one run per tenant until it expires."""

    __test__ = False

    def _key(self, body: bytes = b"body", *, key: str = "key", expires: float = 60) -> IdempotencyKey:
        return IdempotencyKey(key=key, request_hash=body, expires_at=at(expires))

    async def test_known_key_answers_the_first_run(self, store: Store) -> None:
        job = await add_job(store)
        [run_id] = await submit(store, job, submit_key=self._key())
        again = make_new_run(job, submit_key=self._key())
        assert await store.submit_runs([again], now=at(1)) == [
            SubmitResult(SubmissionVerdict.DUPLICATE, run_id)
        ]
        assert len(await store.list_runs("default")) == 1

    async def test_a_redrive_names_the_run_that_it_repeats_and_is_made_once(self, store: Store) -> None:
        job = await add_job(store)
        held = await running_run(store, job)
        await store.apply([fail(held, now=1, retry=False)], now=at(1))
        new = make_new_run(
            job, kind=RunKind.REDRIVE, submit_key=self._key(), redrive_of=held.run_id, payload=b"[2]"
        )
        results = [
            result
            for [result] in await asyncio.gather(*(store.submit_runs([new], now=at(2)) for _ in range(8)))
        ]
        [run_id] = {result.run_id for result in results}
        assert run_id is not None
        assert sum(result.status is SubmissionVerdict.SUBMITTED for result in results) == 1
        [run] = await store.get_runs([run_id])
        assert run is not None
        assert (run.kind, run.redrive_of, run.payload) == (RunKind.REDRIVE, held.run_id, b"[2]")
        await store.cancel_runs([run_id], reason="operator", now=at(3))
        [ended] = await store.get_runs([run_id])
        assert ended is not None
        assert (ended.state, ended.redrive_of) == (RunState.CANCELLED, held.run_id)

    async def test_known_key_with_another_request_is_a_mismatch(self, store: Store) -> None:
        job = await add_job(store)
        [run_id] = await submit(store, job, submit_key=self._key())
        other = make_new_run(job, submit_key=self._key(b"other"))
        assert await store.submit_runs([other], now=at(1)) == [
            SubmitResult(SubmissionVerdict.KEY_MISMATCH, run_id)
        ]
        assert len(await store.list_runs("default")) == 1

    async def test_key_holds_within_one_call(self, store: Store) -> None:
        job = await add_job(store)
        keys = [self._key(), None, self._key(), self._key(b"other"), self._key(key="second")]
        runs = [make_new_run(job, submit_key=key) for key in keys]
        results = await store.submit_runs(runs, now=START)
        submitted, first = SubmissionVerdict.SUBMITTED, results[0].run_id
        assert [result.status for result in results] == [
            submitted,
            submitted,
            SubmissionVerdict.DUPLICATE,
            SubmissionVerdict.KEY_MISMATCH,
            submitted,
        ]
        assert (results[2].run_id, results[3].run_id) == (first, first)
        assert len(await store.list_runs("default")) == 3

    async def test_key_is_free_after_it_expired(self, store: Store) -> None:
        job = await add_job(store)
        [first] = await submit(store, job, submit_key=self._key(expires=60))
        [second] = await submit(store, job, now=at(61), submit_key=self._key(b"other", expires=120))
        assert second != first
        again = make_new_run(job, submit_key=self._key(b"other", expires=120))
        assert await store.submit_runs([again], now=at(62)) == [
            SubmitResult(SubmissionVerdict.DUPLICATE, second)
        ]

    async def test_key_outlives_its_run(self, store: Store) -> None:
        job = await add_job(store)
        [run_id] = await submit(store, job, submit_key=self._key())
        await store.cancel_runs([run_id], reason="operator", now=at(1))
        again = make_new_run(job, submit_key=self._key())
        assert await store.submit_runs([again], now=at(2)) == [
            SubmitResult(SubmissionVerdict.DUPLICATE, run_id)
        ]

    async def test_key_is_each_tenants_own(self, store: Store) -> None:
        jobs = [await add_job(store, tenant=tenant) for tenant in ("one", "other")]
        runs = [make_new_run(job, submit_key=self._key()) for job in jobs]
        first, again = [await store.submit_runs(runs, now=START) for _ in range(2)]
        assert [result.status for result in first] == [SubmissionVerdict.SUBMITTED] * 2
        assert again == [SubmitResult(SubmissionVerdict.DUPLICATE, result.run_id) for result in first]

    async def test_refused_run_leaves_its_key_free(self, store: Store) -> None:
        job = await add_job(store)
        lost = make_new_run(job, job_id=UNKNOWN, submit_key=self._key())
        await store.submit_runs([lost], now=START)
        [result] = await store.submit_runs([make_new_run(job, submit_key=self._key())], now=START)
        assert result.status is SubmissionVerdict.SUBMITTED

    async def test_concurrent_submitters_of_one_key_get_one_run(self, store: Store) -> None:
        job = await add_job(store)
        new = make_new_run(job, submit_key=self._key())
        answers = await asyncio.gather(*(store.submit_runs([new], now=START) for _ in range(10)))
        statuses = sorted(result.status for [result] in answers)
        assert statuses == [SubmissionVerdict.DUPLICATE] * 9 + [SubmissionVerdict.SUBMITTED]
        assert len({result.run_id for [result] in answers}) == 1
        assert len(await store.list_runs("default")) == 1

    async def test_pruned_keys_are_free_and_others_hold(self, store: Store) -> None:
        job = await add_job(store)
        await submit(store, job, submit_key=self._key(key="short", expires=10))
        await submit(store, job, submit_key=self._key(key="long", expires=100))
        assert await store.prune_keys(now=at(20), limit=10) == 1
        assert await store.prune_keys(now=at(20), limit=10) == 0
        runs = [make_new_run(job, submit_key=self._key(key=key, expires=100)) for key in ("short", "long")]
        results = await store.submit_runs(runs, now=at(21))
        assert [result.status for result in results] == [
            SubmissionVerdict.SUBMITTED,
            SubmissionVerdict.DUPLICATE,
        ]

    async def test_target_key_is_handed_to_the_target(self, store: Store) -> None:
        job = await add_job(store)
        await submit(store, job, target_key="order-1")
        [leased] = await claim(store, await add_session(store))
        assert leased.target_key == "order-1"
