"""Reserved slots on the three stores, with two servers that each see only a part."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from mainspring.engine.claiming.reserved import COUNT_PERIOD
from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.executor import Success
from mainspring.ports.gateway import Lease, Report
from mainspring.ports.store import Store
from mainspring.registry import FunctionRegistry
from mainspring.stores.memory import MemoryStore
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.manual import ManualRuntime, ManualWorker


class Cluster:
    """Two servers on one store, each with a worker of its own."""

    def __init__(self, servers: Sequence[ManualRuntime]) -> None:
        self.servers = servers
        self.workers: list[ManualWorker] = []

    async def submit(self, tenant: str, count: int, **job: Any) -> None:
        """Make a job, and submit so many runs of it."""
        client = self.servers[0].client
        body = {"name": f"{tenant}-{len(job)}", "function": "work"} | job
        job_id = (await client.jobs.create(tenant, body)).id
        await client.runs.submit_many(tenant, [Submission(job_id=job_id)] * count)

    async def reserve(self, tenant: str, slots: int) -> None:
        """Reserve slots, and have both servers follow."""
        await self.servers[0].client.tenants.put(tenant, {"reserved": slots})
        for server in self.servers:
            await server.tick("policies")

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
    registry.add("work", lambda: None)
    store = stores[request.param]()
    servers = [ManualRuntime(registry, store=store, clock=clock, seed=one) for one in range(2)]
    async with servers[0]:
        found = Cluster(servers)
        found.workers = [await server.worker() for server in servers]
        yield found


def tenants(leases: list[Lease]) -> Counter[str]:
    return Counter(lease.tenant for lease in leases)


async def test_slots_on_another_server_count(cluster: Cluster) -> None:
    await cluster.submit("acme", 100, priority="LOW")
    await cluster.submit("flood", 100, priority="HIGH")
    await cluster.reserve("acme", 4)
    first, second = cluster.workers
    assert tenants(await first.claim(6)) == {"acme": 4, "flood": 2}
    assert tenants(await second.claim(6)) == {"flood": 6}


async def test_an_end_reported_to_another_server_is_known_after_a_count(cluster: Cluster) -> None:
    await cluster.submit("acme", 100, priority="LOW")
    await cluster.submit("flood", 100, priority="HIGH")
    await cluster.reserve("acme", 4)
    first, second = cluster.workers
    leases = [lease for lease in await first.claim(6) if lease.tenant == "acme"]
    assert tenants(await second.claim(2)) == {"flood": 2}
    ends = [Report(run_id=one.run_id, token=one.token, ending=Success()) for one in leases[:3]]
    await first.report(*ends)
    cluster.wait(COUNT_PERIOD)
    assert tenants(await second.claim(5)) == {"acme": 3, "flood": 2}


async def test_runs_in_lines_come_first_too_as_far_as_their_limit_allows(cluster: Cluster) -> None:
    await cluster.submit("acme", 100, priority="LOW", concurrency=[{"limit": 3}])
    await cluster.submit("flood", 100, priority="HIGH")
    await cluster.reserve("acme", 5)
    worker = cluster.workers[0]
    leases: list[Lease] = []
    for _ in range(6):
        leases += await worker.claim(3)
    assert tenants(leases[:3]) == {"acme": 3}
    assert tenants(leases)["acme"] == 3
    assert tenants(leases)["flood"] >= 9


async def test_several_queues_and_tiers_of_a_tenant_count_together(cluster: Cluster) -> None:
    await cluster.submit("acme", 2, queue="a", priority="LOW", name="a")
    await cluster.submit("acme", 9, queue="b", priority="MEDIUM", name="b")
    await cluster.submit("flood", 100, priority="HIGH")
    await cluster.reserve("acme", 10)
    leases: list[Lease] = []
    while len(leases) < 12:
        leases += await cluster.workers[0].claim(12 - len(leases))
    assert tenants(leases) == {"acme": 10, "flood": 2}
    assert Counter(lease.spec.queue for lease in leases[:9]) == {"b": 9}
