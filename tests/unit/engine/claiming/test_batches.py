"""Batches are given out when they are full or have waited, for one seat, and only to workers that know of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mainspring.core.ids import JobId
from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.executor import Success
from mainspring.ports.gateway import Lease, Report
from mainspring.signals import Call, Done, Failed
from mainspring.testing.manual import ManualRuntime, ManualWorker
from tests.unit.engine.conftest import Bench


async def add_job(runtime: ManualRuntime, **fields: Any) -> JobId:
    body = {"name": f"job {fields}", "function": "work", "batch": {"size": 3, "wait": "2s"}, **fields}
    return (await runtime.client.jobs.create("default", body)).id


async def submit(runtime: ManualRuntime, job_id: JobId, *customers: str) -> None:
    payloads = [b'{"customer":"%s"}' % customer.encode() for customer in customers]
    await runtime.client.runs.submit_many(
        "default", [Submission(job_id=job_id, payload=payload) for payload in payloads]
    )


async def succeed(worker: ManualWorker, leases: list[Lease]) -> None:
    await worker.report(*[Report(run_id=one.run_id, token=one.token, ending=Success()) for one in leases])


def sizes(leases: list[Lease]) -> list[int]:
    assert all(lease.batch is not None for lease in leases)
    return list(Counter(lease.batch for lease in leases).values())


async def test_a_full_batch_goes_at_once_and_the_rest_when_it_has_waited(bench: Bench) -> None:
    runtime, worker = bench.runtime, await bench.runtime.worker()
    await submit(runtime, await add_job(runtime), *"aaaa")
    assert sizes(await worker.claim(5)) == [3]
    assert await worker.claim(5) == []
    runtime.clock.advance(1.9)
    assert await worker.claim(5) == []
    runtime.clock.advance(0.1)
    assert sizes(await worker.claim(5)) == [1]


async def test_a_waiting_claim_is_answered_when_the_wait_is_over(bench: Bench) -> None:
    runtime = bench.runtime
    await submit(runtime, await add_job(runtime), "a")
    assert await (await runtime.worker()).claim(5) == []
    head = min(lane.ready_at for lane in runtime.matcher._lanes.lines._lanes.popitem()[1].values())
    assert (head - runtime.clock.now()).total_seconds() == 2.0


async def test_a_seat_takes_a_batch(bench: Bench) -> None:
    runtime, worker = bench.runtime, await bench.runtime.worker()
    await submit(runtime, await add_job(runtime), *"a" * 30)
    first = await worker.claim(1)
    assert sizes(first) == [3]
    await succeed(worker, first)
    given = [size for _ in range(4) for size in sizes(await worker.claim(3))]
    assert given == [3] * 9


async def test_a_worker_gets_no_more_batches_than_it_has_slots(bench: Bench) -> None:
    """It may claim single runs ahead of its slots, for which its claims have a larger limit."""
    runtime = bench.runtime
    await submit(runtime, await add_job(runtime), *"a" * 60)
    worker = await runtime.worker(slots=2)
    given = [sizes(await worker.claim(50)) for _ in range(3)]
    assert given == [[3, 3]] * 3


async def test_runs_of_one_key_share_a_call(bench: Bench) -> None:
    runtime, worker = bench.runtime, await bench.runtime.worker()
    job_id = await add_job(runtime, batch={"size": 3, "wait": "2s", "key": "$.customer"})
    await submit(runtime, job_id, *"abcabcabab")
    leases = [lease for _ in range(4) for lease in await worker.claim(9)]
    assert sorted(sizes(leases)) == [3, 3]
    runtime.clock.advance(2)
    leases += [lease for _ in range(4) for lease in await worker.claim(9)]
    assert sorted(sizes(leases)) == [1, 1, 2, 3, 3]
    for batch in {lease.batch for lease in leases}:
        assert len({lease.payload for lease in leases if lease.batch == batch}) == 1


async def test_versions_do_not_share_a_call(bench: Bench) -> None:
    runtime, worker = bench.runtime, await bench.runtime.worker()
    job_id = await add_job(runtime)
    await submit(runtime, job_id, "a")
    await runtime.client.jobs.edit("default", job_id, {"timeout": "7s"})
    await submit(runtime, job_id, *"aa")
    leases = await worker.claim(5)
    assert [lease.version for lease in leases] == [1, 2, 2]
    assert sizes(leases) == [1, 2]


async def test_a_repeat_has_the_same_calls(bench: Bench) -> None:
    runtime, worker = bench.runtime, await bench.runtime.worker()
    await submit(runtime, await add_job(runtime), *"a" * 6)
    first = await worker.claim(9)
    again = await worker.claim(9, is_repeat=True)
    assert sorted(again, key=lambda one: one.run_id) == sorted(first, key=lambda one: one.run_id)


async def test_a_worker_that_does_not_know_of_batches_gets_none(bench: Bench) -> None:
    runtime = bench.runtime
    old, new = await runtime.worker(labels=()), await runtime.worker()
    await submit(runtime, await add_job(runtime), *"aaa")
    assert await old.claim(5) == []
    assert sizes(await new.claim(5)) == [3]


async def test_batches_share_a_worker_with_plain_and_with_limited_runs(bench: Bench) -> None:
    runtime, worker = bench.runtime, await bench.runtime.worker()
    plain = (await runtime.client.jobs.create("default", {"name": "plain", "function": "work"})).id
    limits = {"key": "$.customer", "limit": 99}
    limited = await add_job(runtime, batch=None, concurrency=limits)
    batched = await add_job(runtime)
    for job_id in (plain, limited, batched):
        await submit(runtime, job_id, *"a" * 30)
    given: Counter[JobId] = Counter()
    for _ in range(60):
        given.update(lease.job_id for lease in await worker.claim(2))
        if sum(given.values()) < 45:  # none of them waits until the others are through
            continue
        assert min(given[job_id] for job_id in (plain, limited, batched)) > 0
    assert given == {plain: 30, limited: 30, batched: 30}


async def test_a_batch_is_charged_as_one(bench: Bench) -> None:
    runtime, worker = bench.runtime, await bench.runtime.worker()
    body = {"function": "work", "batch": {"size": 10, "wait": "1s"}}
    gathered = (await runtime.client.jobs.create("one", {"name": "many", **body})).id
    single = (await runtime.client.jobs.create("two", {"name": "single", "function": "work"})).id
    await runtime.client.runs.submit_many("one", [Submission(job_id=gathered)] * 300)
    await runtime.client.runs.submit_many("two", [Submission(job_id=single)] * 300)
    calls: Counter[str] = Counter()
    for _ in range(40):
        leases = await worker.claim(1)
        await succeed(worker, leases)
        calls[leases[0].tenant] += 1
    assert 15 <= calls["one"] <= 25


async def test_work_of_a_test_calls_the_function_with_the_batch(bench: Bench) -> None:
    runtime = bench.runtime
    seen: list[list[object]] = []

    async def gather(calls: list[Call]) -> list[Done | Failed]:
        seen.append([call.payload["customer"] for call in calls])
        return [Failed("no", retry=False) if call.payload["customer"] == "b" else Done() for call in calls]

    runtime.registry.add("gather", gather)
    job_id = await add_job(runtime, function="gather")
    worker = await runtime.worker()
    await submit(runtime, job_id, *"abc")
    assert await worker.work() == 3
    assert seen == [["a", "b", "c"]]
    assert [state.value for state in await bench.states(job_id)] == ["SUCCEEDED", "FAILED", "SUCCEEDED"]


async def test_the_sentence_tells_how_many_there_are(bench: Bench) -> None:
    runtime = bench.runtime
    await runtime.worker()
    job_id = await add_job(runtime)
    await submit(runtime, job_id, *"ab")
    [first, _] = await bench.runs(job_id)
    why = await runtime.client.runs.why("default", first.id)
    until = first.ready_at.replace(second=first.ready_at.second + 2)
    shown = until.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert why.sentence == f"It waits for its batch: 2 of 3, until {shown}."
    assert (why.code.value, why.until) == ("batch", until)
    runtime.clock.advance(2)
    assert (await runtime.client.runs.why("default", first.id)).code.value == "ready"
