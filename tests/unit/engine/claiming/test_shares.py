"""Tenants and queues share a worker: by portions within a claim, and by weight over many claims."""

from __future__ import annotations

from collections import Counter

import pytest

from mainspring.core.ids import JobId
from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.executor import Success
from mainspring.ports.gateway import Report
from mainspring.testing.manual import ManualRuntime, ManualWorker
from tests.unit.engine.conftest import Bench


async def add_job(runtime: ManualRuntime, tenant: str, queue: str = "default") -> JobId:
    body = {"name": f"job of {queue}", "function": "work", "queue": queue}
    return (await runtime.client.jobs.create(tenant, body)).id


async def submit(runtime: ManualRuntime, tenant: str, job_id: JobId, count: int) -> None:
    await runtime.client.runs.submit_many(tenant, [Submission(job_id=job_id)] * count)


async def shares(worker: ManualWorker, *, claims: int, limit: int) -> Counter[str]:
    return Counter([lease.tenant for _ in range(claims) for lease in await worker.claim(limit)])


async def test_three_runs_do_not_wait_behind_two_hundred_of_another_tenant(bench: Bench) -> None:
    runtime = bench.runtime
    await submit(runtime, "flood", await add_job(runtime, "flood"), 200)
    await submit(runtime, "shop", await add_job(runtime, "shop"), 3)
    worker = await runtime.worker()
    assert (await shares(worker, claims=1, limit=20))["shop"] == 3


async def test_weights_are_followed_within_a_second(bench: Bench) -> None:
    runtime = bench.runtime
    for tenant in ("one", "two", "seven"):
        await submit(runtime, tenant, await add_job(runtime, tenant), 2000)
    worker = await runtime.worker()
    assert await shares(worker, claims=3, limit=30) == {"one": 30, "two": 30, "seven": 30}
    await runtime.client.tenants.put("two", {"weight": 2})
    await runtime.client.tenants.put("seven", {"weight": 7})
    await runtime.tick("policies")
    got = await shares(worker, claims=20, limit=50)
    for tenant, weight in {"one": 1, "two": 2, "seven": 7}.items():
        assert got[tenant] / 1000 == pytest.approx(weight / 10, abs=0.01)


async def test_queues_of_one_tenant_do_not_starve_each_other(bench: Bench) -> None:
    runtime = bench.runtime
    await submit(runtime, "default", await add_job(runtime, "default", "bulk"), 500)
    await submit(runtime, "default", await add_job(runtime, "default", "mail"), 100)
    worker = await runtime.worker()
    leases = [lease for _ in range(10) for lease in await worker.claim(10)]
    assert Counter(lease.spec.queue for lease in leases) == {"bulk": 50, "mail": 50}


async def test_calls_that_wait_share_what_one_claim_gives_them(bench: Bench) -> None:
    """Many workers of one slot each ask at once: their slots together are dealt among the tenants."""
    runtime = bench.runtime
    workers = [await runtime.worker() for _ in range(8)]
    for tenant in ("flood", "shop"):
        await submit(runtime, tenant, await add_job(runtime, tenant), 50)
    got: Counter[str] = Counter()
    for _ in range(4):  # each time, as many get something as did before, and then twice as many
        for worker in workers:
            got.update(lease.tenant for lease in await worker.claim(1))
    assert got == {"flood": 16, "shop": 16}


async def test_a_claim_that_portions_cut_short_is_followed_by_another(bench: Bench) -> None:
    """The portions of two lanes were smaller than what they have: the next claim need not wait for news."""
    runtime = bench.runtime
    await submit(runtime, "a", await add_job(runtime, "a"), 100)
    await submit(runtime, "b", await add_job(runtime, "b"), 1)
    worker = await runtime.worker()
    first = await worker.claim(40)
    second = await worker.claim(101 - len(first))
    assert len(first) + len(second) == 101


async def test_shares_are_of_the_time_of_slots(bench: Bench) -> None:
    """Runs of one tenant take ten times as long as those of the other, which gets ten times as many."""
    runtime = bench.runtime
    took = {"slow": 0.5, "fast": 0.05}
    for tenant in took:
        await submit(runtime, tenant, await add_job(runtime, tenant), 3000)
    worker = await runtime.worker()
    got: Counter[str] = Counter()
    for _ in range(60):
        leases = await worker.claim(40)
        runtime.clock.advance(1)
        reports = [
            Report(run_id=lease.run_id, token=lease.token, ending=Success(), took=took[lease.tenant])
            for lease in leases
        ]
        await worker.report(*reports)
        got.update(lease.tenant for lease in leases)
    spent = {tenant: took[tenant] * got[tenant] for tenant in took}
    assert spent["slow"] / sum(spent.values()) == pytest.approx(0.5, abs=0.03)


async def test_a_worker_cannot_say_that_it_took_longer_than_it_can_have(bench: Bench) -> None:
    runtime = bench.runtime
    for tenant in ("honest", "slandered"):
        await submit(runtime, tenant, await add_job(runtime, tenant), 1000)
    worker = await runtime.worker()
    got: Counter[str] = Counter()
    for _ in range(30):
        leases = await worker.claim(20)
        runtime.clock.advance(0.1)
        said = {"honest": 0.1, "slandered": 1e6}
        await worker.report(
            *(
                Report(run_id=lease.run_id, token=lease.token, ending=Success(), took=said[lease.tenant])
                for lease in leases
            )
        )
        got.update(lease.tenant for lease in leases)
    assert got["slandered"] == pytest.approx(got["honest"], rel=0.05)


async def test_a_fifo_queue_serves_the_oldest_run_whoever_it_belongs_to(bench: Bench) -> None:
    runtime = bench.runtime
    await runtime.client.queues.put("default", {"order": "fifo"})
    await runtime.tick("policies")
    wanted = ["a", "a", "b", "a", "c", "c", "c", "b", "a", "b", "c"]
    jobs = {tenant: await add_job(runtime, tenant) for tenant in "abc"}
    for tenant in wanted:
        await submit(runtime, tenant, jobs[tenant], 1)
        runtime.clock.advance(1)
    worker = await runtime.worker()
    got = [sorted(lease.tenant for lease in await worker.claim(2)) for _ in range(6)]
    assert got == [sorted(wanted[place : place + 2]) for place in range(0, 12, 2)]


async def test_a_queue_in_turn_gives_each_tenant_as_many_runs_whatever_it_weighs(bench: Bench) -> None:
    runtime = bench.runtime
    await runtime.client.queues.put("default", {"order": "round_robin"})
    await runtime.client.tenants.put("seven", {"weight": 7})
    await runtime.tick("policies")
    for tenant in ("one", "seven"):
        await submit(runtime, tenant, await add_job(runtime, tenant), 500)
    for _ in range(100):
        runtime.matcher.learn("seven", 5.0)
    worker = await runtime.worker()
    assert await shares(worker, claims=20, limit=10) == {"one": 100, "seven": 100}
