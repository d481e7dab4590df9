"""Workers that are bound to a tenant, on the three stores and two servers: they get its runs, and no others."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.ids import RunId
from mainspring.core.outcomes import Failure
from mainspring.core.queues import QueueOrder
from mainspring.core.states import FINAL_STATES
from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.executor import Success
from mainspring.ports.gateway import Ending, HandedBack, Lease, Report, ReportResult
from mainspring.ports.store import Store
from mainspring.registry import FunctionRegistry
from mainspring.stores.memory import MemoryStore
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.manual import ManualRuntime, ManualWorker

TENANTS = ("shop", "bank")
JOBS: dict[str, dict[str, Any]] = {
    "plain": {},
    "urgent": {"priority": "HIGH"},
    "mail": {"queue": "mail"},
    "oldest": {"queue": "fifo"},
    "one": {"concurrency": {"key": "payload.key", "limit": 1}},
    "batch": {"batch": {"size": 3, "wait": "0s"}},
}
ENDINGS: tuple[Ending, ...] = (
    Success(),
    Failure(error="no", is_retryable=True),
    HandedBack(was_started=False),
)


class Cluster:
    """Two servers on one store, and who works for whom."""

    def __init__(self, servers: list[ManualRuntime]) -> None:
        self.servers = servers
        self.jobs: dict[tuple[str, str], Any] = {}
        self.workers: list[tuple[ManualWorker, str | None]] = []
        self.held: list[tuple[ManualWorker, Lease]] = []
        self.given: Counter[tuple[str | None, str]] = Counter()

    async def prepare(self) -> None:
        """Make the jobs and the workers."""
        client = self.servers[0].client
        await client.queues.put("fifo", {"order": QueueOrder.FIFO.value})
        for tenant in TENANTS:
            for name, body in JOBS.items():
                job = await client.jobs.create(tenant, {"name": name, "function": "work", **body})
                self.jobs[tenant, name] = job.id
        for number, server in enumerate(self.servers):
            await server.tick("policies")
            for bound in (*TENANTS, None):
                queues = ("default", "mail") if number and bound else ()
                self.workers.append((await server.worker(tenant=bound, queues=queues), bound))

    async def submit(self, tenant: str, name: str, count: int) -> None:
        """Submit so many runs of a job."""
        runs = self.servers[0].client.runs
        wanted = Submission(job_id=self.jobs[tenant, name], payload=b'{"key": "k"}')
        await runs.submit_many(tenant, [wanted] * count)

    async def claim(self, worker: ManualWorker, tenant: str | None, limit: int) -> None:
        """Claim, and check whose the runs are."""
        for lease in await worker.claim(limit):
            assert tenant in {None, lease.tenant}
            self.given[tenant, lease.tenant] += 1
            self.held.append((worker, lease))

    async def report(self, worker: ManualWorker, lease: Lease, ending: Ending) -> None:
        """End an attempt."""
        results = await worker.report(Report(run_id=lease.run_id, token=lease.token, ending=ending))
        assert results == [ReportResult.APPLIED]

    def wait(self, seconds: float) -> None:
        """Let time pass on both."""
        self.servers[0].clock.advance(seconds)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    clock = FakeClock()
    stores: dict[str, Callable[[], Store]] = {
        "memory": lambda: MemoryStore(time=clock.now),
        "sqlite": lambda: SqliteStore(tmp_path / "mainspring.db"),
        "postgres": lambda: PostgresStore(
            request.getfixturevalue("migrated_database"), random=random.Random(1)
        ),
    }
    registry = FunctionRegistry()
    registry.add("work", lambda **_: "done")
    store = stores[request.param]()
    servers = [ManualRuntime(registry, store=store, clock=clock, seed=one) for one in range(2)]
    async with servers[0]:
        made = Cluster(servers)
        await made.prepare()
        yield made


@pytest.mark.parametrize("seed", range(3))
async def test_a_bound_worker_gets_its_tenants_runs_and_no_others(cluster: Cluster, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(60):
        step = dice.random()
        if step < 0.35:
            await cluster.submit(dice.choice(TENANTS), dice.choice(list(JOBS)), dice.randint(1, 4))
        elif step < 0.7 or not cluster.held:
            worker, tenant = dice.choice(cluster.workers)
            await cluster.claim(worker, tenant, dice.choice([1, 2, 30]))
        else:
            worker, lease = cluster.held.pop(dice.randrange(len(cluster.held)))
            await cluster.report(worker, lease, dice.choice(ENDINGS))
        if dice.random() < 0.2:
            cluster.wait(2.0)
    for worker, lease in cluster.held:
        await cluster.report(worker, lease, Success())
    cluster.held.clear()
    await drain(cluster)
    assert all(cluster.given[tenant, tenant] for tenant in TENANTS)


async def drain(cluster: Cluster) -> None:
    """Have each tenant's workers alone do all that is left: whatever else waits, each gets its own."""
    bound = [(worker, tenant) for worker, tenant in cluster.workers if tenant is not None]
    for _ in range(200):
        cluster.wait(30.0)
        before = cluster.given.total()
        for worker, tenant in bound:
            await cluster.claim(worker, tenant, 50)
        for worker, lease in cluster.held:
            await cluster.report(worker, lease, Success())
        cluster.held.clear()
        if cluster.given.total() == before:
            break
    store = cluster.servers[0].store
    for tenant in TENANTS:
        left = [run for run in await store.list_runs(tenant, limit=1000) if run.state not in FINAL_STATES]
        assert not left


async def test_a_run_that_crashed_a_worker_goes_to_one_of_its_tenant(cluster: Cluster) -> None:
    server = cluster.servers[0]
    await cluster.submit("shop", "plain", 1)
    [crashing] = [worker for worker, tenant in cluster.workers[:3] if tenant == "shop"]
    [lease] = await crashing.claim()
    await server.gateway.leave(crashing.session_id)
    await server.tick("reaper")
    cluster.wait(120.0)
    bank, everyone = (
        next(worker for worker, tenant in cluster.workers[:3] if tenant == wanted)
        for wanted in ("bank", None)
    )
    assert await bank.claim() == []
    [again] = await everyone.claim()
    assert (again.run_id, again.is_quarantined) == (lease.run_id, True)


async def test_a_report_for_a_run_of_another_tenant_is_answered_as_one_that_never_was(
    cluster: Cluster,
) -> None:
    await cluster.submit("shop", "plain", 2)
    shops = next(worker for worker, tenant in cluster.workers if tenant == "shop")
    banks = next(worker for worker, tenant in cluster.workers if tenant == "bank")
    ended, running = await shops.claim()
    await cluster.report(shops, ended, Success())
    for server in cluster.servers:  # the one that gave the runs out, and one that has to look them up
        reports = tuple(
            Report(run_id=run_id, token=1, ending=Success())
            for run_id in (ended.run_id, running.run_id, RunId(999_936))
        )
        results = await server.gateway.report(banks.session_id, reports, tenant="bank")
        assert results == (ReportResult.MISSING,) * 3
    # Its own runs are told apart as ever, and come with foreign ones in one call.
    await cluster.submit("bank", "plain", 1)
    [own] = await banks.claim()
    reports = tuple(
        Report(run_id=run_id, token=1, ending=Success())
        for run_id in (running.run_id, own.run_id, ended.run_id)
    )
    results = await cluster.servers[0].gateway.report(banks.session_id, reports, tenant="bank")
    assert results == (ReportResult.MISSING, ReportResult.APPLIED, ReportResult.MISSING)
    await cluster.report(shops, running, Success())


async def test_a_run_submitted_straight_goes_past_a_waiting_worker_of_another_tenant(
    cluster: Cluster,
) -> None:
    """Neither the straight way to a waiting call nor the claim on a hint looks at anything but the lane."""
    server = cluster.servers[0]
    for tenant in TENANTS:  # so that the lanes are known
        await cluster.submit(tenant, "plain", 1)
    for worker, bound in cluster.workers[:2]:
        await cluster.claim(worker, bound, 5)
    assert cluster.given == {("shop", "shop"): 1, ("bank", "bank"): 1}
    await cluster.submit("shop", "plain", 1)
    bank = cluster.workers[1][0]
    assert await bank.claim(5) == []
    await server.client.runs.submit_many("bank", [Submission(job_id=cluster.jobs["bank", "plain"])])
    assert [lease.tenant for lease in await bank.claim(5)] == ["bank"]
