"""What runs once, from the submission to the worker, with the engine's use cases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.admission import SubmissionVerdict
from mainspring.core.model import Job
from mainspring.core.states import RunState
from mainspring.engine.usecases.runs import Submitted
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import Conflict, InvalidInput
from mainspring.registry import FunctionRegistry
from mainspring.testing.manual import TENANT, ManualRuntime

_V = SubmissionVerdict


@pytest.fixture
async def runtime() -> AsyncIterator[ManualRuntime]:
    registry = FunctionRegistry()
    registry.add("sync", lambda **given: given)
    async with ManualRuntime(registry) as runtime:
        yield runtime


async def make_job(runtime: ManualRuntime, **fields: Any) -> Job:
    return await runtime.client.jobs.create(TENANT, {"name": "sync", "function": "sync", **fields})


async def submit(
    runtime: ManualRuntime, job: Job, payload: bytes | None = b'{"order":1}', **given: Any
) -> Submitted:
    return await runtime.client.runs.submit(TENANT, Submission(job_id=job.id, payload=payload, **given))


async def payload_of(runtime: ManualRuntime, submitted: Submitted) -> bytes | None:
    return (await runtime.client.runs.get(TENANT, submitted.run_id)).payload


async def test_one_sync_per_order_at_a_time(runtime: ManualRuntime) -> None:
    job = await make_job(runtime, unique="$.order")
    worker = await runtime.worker()
    first = await submit(runtime, job)
    other = await submit(runtime, job, b'{"order":2}')
    assert (first.status, other.status) == (_V.SUBMITTED, _V.SUBMITTED)
    assert await submit(runtime, job, b'{"order":"1","x":0}') == Submitted(first.run_id, False, _V.EXISTING)
    assert await worker.work() == 2
    again = await submit(runtime, job)
    assert (again.is_new, again.run_id != first.run_id) == (True, True)


async def test_held_back_submissions_are_counted_by_status(runtime: ManualRuntime) -> None:
    job = await make_job(runtime, throttle={"limit": 1, "per": "1h"})
    submitted = [await submit(runtime, job) for _ in range(3)]
    assert [one.status for one in submitted] == [_V.SUBMITTED, _V.THROTTLED, _V.THROTTLED]
    assert {one.run_id for one in submitted} == {submitted[0].run_id}
    figures = {measure.labels: measure.value for measure in runtime.client.runs.measures()}
    assert figures["throttled",] == 2
    assert figures["existing",] == 0


async def test_index_once_after_the_last_edit(runtime: ManualRuntime) -> None:
    job = await make_job(runtime, debounce={"key": "$.order", "wait": "5s"}, expires_after="30s")
    worker = await runtime.worker()
    first = await submit(runtime, job, b'{"order":1,"text":"a"}')
    await runtime.advance(4)
    last = await submit(runtime, job, b'{"order":1,"text":"b"}')
    assert last == Submitted(first.run_id, False, _V.DEBOUNCED)
    await runtime.advance(4)
    assert await worker.work() == 0
    await runtime.advance(1)
    assert await worker.work() == 1
    run = await runtime.client.runs.get(TENANT, first.run_id)
    assert (run.state, run.payload) == (RunState.SUCCEEDED, b'{"order":1,"text":"b"}')
    assert run.due_at - run.created_at == timedelta(seconds=9)


async def test_rejected_run_is_a_conflict_alone_and_a_status_among_many(runtime: ManualRuntime) -> None:
    job = await make_job(runtime, unique={"key": "$.order", "on_conflict": "reject"})
    first = await submit(runtime, job)
    with pytest.raises(Conflict, match=r"^unique: run_\w+ has the same key"):
        await submit(runtime, job)
    one = Submission(job_id=job.id, payload=b'{"order":1}')
    other = Submission(job_id=job.id, payload=b'{"order":2}')
    results = await runtime.client.runs.submit_many(TENANT, [one, other])
    assert [result.status for result in results] == [_V.REJECTED, _V.SUBMITTED]
    assert results[0].run_id == first.run_id


async def test_missing_part_is_told_and_nothing_is_stored(runtime: ManualRuntime) -> None:
    job = await make_job(runtime, unique="$.customer")
    for _ in range(2):  # the second time, the job is known
        with pytest.raises(InvalidInput, match=r"^payload\.customer: is missing; unique\.key needs it$"):
            await submit(runtime, job)
    with pytest.raises(InvalidInput, match=r"^\[1\]\.payload\.customer: is missing"):
        await runtime.client.runs.submit_many(
            TENANT,
            [
                Submission(job_id=job.id, payload=b'{"customer":1}'),
                Submission(job_id=job.id, payload=b'{"order":1}'),
            ],
        )
    assert (await runtime.client.runs.counts(TENANT)).by_state == {}


@pytest.mark.parametrize("given", [{"delay": timedelta(seconds=1)}, {"run_at": True}])
async def test_debounced_run_takes_no_time_of_its_own(runtime: ManualRuntime, given: dict[str, Any]) -> None:
    job = await make_job(runtime, debounce={"wait": "5s"})
    if "run_at" in given:
        given = {"run_at": runtime.client.now()}
    (field,) = given
    with pytest.raises(InvalidInput, match=f"^{field}: does not go with the job's debounce"):
        await submit(runtime, job, **given)


async def test_repeat_under_an_idempotency_key_gets_the_first_answer(runtime: ManualRuntime) -> None:
    job = await make_job(runtime, debounce={"key": "$.order", "wait": "5s"})
    first = await submit(runtime, job, idempotency_key="a")
    put_off = await submit(runtime, job, idempotency_key="b")
    assert put_off == Submitted(first.run_id, False, _V.DEBOUNCED)
    await runtime.advance(1)
    assert await submit(runtime, job, idempotency_key="a") == Submitted(first.run_id, False, _V.SUBMITTED)
    assert await submit(runtime, job, idempotency_key="b") == put_off
    run = await runtime.client.runs.get(TENANT, first.run_id)
    assert run.ready_at - run.created_at == timedelta(seconds=5)


async def test_run_of_an_older_version_gets_the_payload_of_the_newer(runtime: ManualRuntime) -> None:
    rule = {"key": "all", "scope": "queued", "on_conflict": "replace"}
    job = await make_job(runtime, unique=rule, payload="old")
    first = await submit(runtime, job, None)
    assert await payload_of(runtime, first) == b'"old"'
    await runtime.client.jobs.edit(TENANT, job.id, {"payload": "new"})
    assert (await submit(runtime, job, None)).status is _V.REPLACED
    assert await payload_of(runtime, first) == b'"new"'


async def test_edit_of_the_rule_holds_for_the_next_submission(runtime: ManualRuntime) -> None:
    job = await make_job(runtime)
    await submit(runtime, job)  # the job is known from here on
    await runtime.client.jobs.edit(TENANT, job.id, {"unique": "$.order"})
    first = await submit(runtime, job)
    assert (await submit(runtime, job)).run_id == first.run_id
    await runtime.client.jobs.edit(TENANT, job.id, {"unique": None})
    assert (await submit(runtime, job)).is_new


async def test_fires_pass_the_rule_by(runtime: ManualRuntime) -> None:
    job = await make_job(runtime, unique="$.order", payload={"order": 1}, every="10s")
    await submit(runtime, job, None)
    await runtime.advance(35)
    counts = (await runtime.client.runs.counts(TENANT)).by_state
    assert counts == {RunState.PENDING: 4}
    assert (await submit(runtime, job, None)).status is _V.EXISTING


async def test_requests_at_once_with_one_key_make_one_run(runtime: ManualRuntime) -> None:
    job = await make_job(runtime, unique="$.order")
    submitted = await asyncio.gather(*(submit(runtime, job) for _ in range(20)))
    assert sorted(one.is_new for one in submitted) == [False] * 19 + [True]
    assert len({one.run_id for one in submitted}) == 1


async def test_keys_that_are_over_are_removed_while_the_store_is_kept_small(runtime: ManualRuntime) -> None:
    job = await make_job(runtime, unique="$.order")
    worker = await runtime.worker()
    await submit(runtime, job)
    await worker.work()
    waiting = await submit(runtime, job, b'{"order":2}')
    await runtime.tick("janitor")
    assert await runtime.store.prune_unique_keys(now=runtime.client.now(), after=None, limit=9) == (0, None)
    assert (await submit(runtime, job, b'{"order":2}')).run_id == waiting.run_id
