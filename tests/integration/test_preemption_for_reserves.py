"""A tenant that is short of reserved slots need not wait behind the long work of others: two servers, three stores."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.ids import RunId
from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.gateway import HandedBack, Lease, Report
from mainspring.ports.store import Store
from mainspring.registry import FunctionRegistry
from mainspring.stores.memory import MemoryStore
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.manual import ManualRuntime, ManualWorker

SERVICES = ("policies", "restrictions", "preemptor")


class Cluster:
    """Two servers on one store, each with a worker of four slots."""

    def __init__(self, servers: Sequence[ManualRuntime]) -> None:
        self.servers = servers
        self.workers: list[ManualWorker] = []

    async def submit(self, tenant: str, count: int, **job: Any) -> None:
        """Make a job, and submit so many runs of it."""
        client = self.servers[0].client
        body = {"name": f"job of {tenant}", "function": "work", "priority": "LOW"} | job
        job_id = (await client.jobs.create(tenant, body)).id
        await client.runs.submit_many(tenant, [Submission(job_id=job_id)] * count)

    async def set_up(self, **reserved: int) -> None:
        """Reserve slots, and let the queue's work wait no longer than ten seconds."""
        client = self.servers[0].client
        await client.queues.put("default", {"preempt_after": "10s"})
        for tenant, slots in reserved.items():
            await client.tenants.put(tenant, {"reserved": slots})
        for server in self.servers:
            await server.tick(*SERVICES)

    async def fill(self) -> list[Lease]:
        """Have both workers claim until their slots are taken, one run a second."""
        leases: list[Lease] = []
        for _ in range(4):
            for worker in self.workers:
                leases += await worker.claim(1)
                self.servers[0].clock.advance(1)
        return leases

    async def advance(self, seconds: int) -> None:
        """Let time pass for both servers."""
        for _ in range(seconds):
            self.servers[0].clock.advance(1)
            for server in self.servers:
                await server.tick(*SERVICES)

    async def asked(self) -> set[RunId]:
        """The runs that workers are asked to stop with their next heartbeats."""
        found: set[RunId] = set()
        for server, worker in zip(self.servers, self.workers, strict=True):
            held = tuple((lease.run_id, lease.token) for lease in worker.held)
            reply = await server.gateway.beat(worker.session_id, held)
            found |= {run_id for run_id, _ in reply.preempt}
        return found

    async def give_way(self, runs: set[RunId]) -> list[Lease]:
        """Have the workers stop these runs, and claim for the slots that become free. Return what they get."""
        got: list[Lease] = []
        for worker in self.workers:
            mine = [lease for lease in worker.held if lease.run_id in runs]
            ending = HandedBack(was_started=True, is_preempted=True)
            await worker.report(*[Report(run_id=one.run_id, token=one.token, ending=ending) for one in mine])
            self.servers[0].clock.advance(1)  # by then, each server counts anew
            while mine and (leases := await worker.claim(4 - len(worker.held))):
                got += leases
        return got


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
        found.workers = [await server.worker(slots=4) for server in servers]
        yield found


def tenants(leases: Sequence[Lease]) -> Counter[str]:
    return Counter(lease.tenant for lease in leases)


async def test_as_many_of_the_youngest_give_way_as_are_missing(cluster: Cluster) -> None:
    await cluster.set_up(acme=3)
    await cluster.submit("flood", 20, preemptible=True)
    leases = await cluster.fill()
    assert tenants(leases) == {"flood": 8}
    await cluster.submit("acme", 20)
    await cluster.submit("rush", 9, priority="HIGH", queue="rush")
    await cluster.advance(10)
    assert await cluster.asked() == set()
    await cluster.advance(1)
    asked = await cluster.asked()
    assert asked == {lease.run_id for lease in leases[-3:]}
    await cluster.advance(15)
    assert await cluster.asked() == asked, "no more than are missing"
    assert tenants(await cluster.give_way(asked)) == {"acme": 3}
    await cluster.advance(60)
    assert await cluster.asked() == set(), "the reserve is met"
    run = await cluster.servers[1].client.runs.get("flood", leases[-1].run_id)
    attempts = await cluster.servers[1].client.runs.attempts("flood", run.id)
    assert [one.error for one in attempts] == ["preempted by LOW work of queue default with reserved slots"]


async def test_only_what_is_missing_now_is_taken(cluster: Cluster) -> None:
    await cluster.set_up(acme=3)
    await cluster.submit("acme", 2, name="first")
    await cluster.submit("flood", 20, preemptible=True)
    leases = await cluster.fill()
    assert tenants(leases) == {"acme": 2, "flood": 6}
    await cluster.submit("acme", 20, preemptible=True)
    await cluster.advance(12)
    assert await cluster.asked() == {leases[-1].run_id}


@pytest.mark.parametrize(
    ("flood", "acme"),
    [
        ({"preemptible": False}, {}),
        ({"priority": "MEDIUM"}, {}),
        ({}, {"queue": "calm"}),
        ({}, {"labels": ["gpu"]}),
        ({}, {"concurrency": 1}),
    ],
)
async def test_nobody_gives_way(cluster: Cluster, flood: dict[str, Any], acme: dict[str, Any]) -> None:
    await cluster.set_up(acme=3)
    await cluster.submit("flood", 20, **{"preemptible": True} | flood)
    await cluster.fill()
    await cluster.submit("acme", 20, **acme)
    await cluster.advance(30)
    assert await cluster.asked() == set()


async def test_what_is_reserved_for_others_stays_theirs(cluster: Cluster) -> None:
    """Otherwise two tenants would take turns, and the slot of a stopped run would go back to its tenant."""
    await cluster.set_up(acme=5, mill=7)
    await cluster.submit("mill", 20, preemptible=True)
    leases = await cluster.fill()
    await cluster.submit("acme", 20)
    await cluster.submit("rush", 9, priority="HIGH")
    await cluster.advance(12)
    asked = await cluster.asked()
    assert asked == {leases[-1].run_id}
    assert tenants(await cluster.give_way(asked)) == {"acme": 1}
    await cluster.advance(60)
    assert await cluster.asked() == set()


async def test_work_waits_from_when_its_tenant_became_short(cluster: Cluster) -> None:
    await cluster.set_up(acme=1)
    await cluster.submit("acme", 1, name="first")
    await cluster.submit("flood", 20, preemptible=True)
    assert tenants(await cluster.fill()) == {"acme": 1, "flood": 7}
    await cluster.submit("acme", 20)
    await cluster.advance(25)
    assert await cluster.asked() == set()
    await cluster.set_up(acme=2)
    await cluster.advance(9)
    assert await cluster.asked() == set()
    await cluster.advance(1)
    assert len(await cluster.asked()) == 1


@pytest.mark.parametrize("most", [1, 2])
async def test_a_cap_bounds_what_a_reserve_takes(cluster: Cluster, most: int) -> None:
    await cluster.set_up(acme=3)
    await cluster.submit("acme", 1, name="first")
    await cluster.submit("flood", 20, preemptible=True)
    assert tenants(await cluster.fill()) == {"acme": 1, "flood": 7}
    await cluster.servers[0].client.tenants.put("acme", {"reserved": 3, "max_running": most})
    await cluster.submit("acme", 20)
    await cluster.advance(30)
    assert len(await cluster.asked()) == most - 1
