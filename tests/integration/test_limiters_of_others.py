"""What limits of other schedulers are known to have done wrong, tried on every store. Each test names where."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any, cast

import pytest

from mainspring.core.ids import JobId, RunId
from mainspring.core.outcomes import Failure
from mainspring.core.states import RunState
from mainspring.engine.claiming.lines import FULL_PERIOD
from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.executor import Success
from mainspring.ports.gateway import Lease, Report, ReportResult
from mainspring.ports.store import Store
from mainspring.registry import FunctionRegistry
from mainspring.stores.memory import MemoryStore
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.manual import TENANT, ManualRuntime, ManualWorker

ONE_EACH = {"key": "$.customer", "limit": 1}


class CountedStore:
    """A store that counts what it is asked."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self._store, name)


class Cluster:
    """Servers on one store, each with an engine of its own."""

    def __init__(self, store: CountedStore, servers: list[ManualRuntime]) -> None:
        self.store = store
        self.servers = servers

    @property
    def first(self) -> ManualRuntime:
        """The server that takes jobs and submissions."""
        return self.servers[0]

    async def add(self, **fields: Any) -> JobId:
        """Add a job."""
        return (await self.first.client.jobs.create(TENANT, {"name": "job", "function": "work", **fields})).id

    async def submit(self, job_id: JobId, customers: Iterable[object] = (None,)) -> list[RunId]:
        """Submit a run for each customer."""
        payloads = [None if one is None else b'{"customer":"%s"}' % str(one).encode() for one in customers]
        results = await self.first.client.runs.submit_many(
            TENANT, [Submission(job_id=job_id, payload=payload) for payload in payloads]
        )
        return [result.run_id for result in results if result.run_id is not None]

    async def states(self, run_ids: Iterable[RunId]) -> Counter[RunState]:
        """Return how many runs are in each state."""
        return Counter(run.state for run in await self.store.get_runs(list(run_ids)) if run is not None)


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
    counted = CountedStore(stores[request.param]())
    servers = [
        ManualRuntime(registry, store=cast("Store", counted), clock=clock, seed=one) for one in range(2)
    ]
    async with servers[0]:
        yield Cluster(counted, servers)


async def succeed(worker: ManualWorker, leases: Iterable[Lease]) -> list[ReportResult]:
    return await worker.report(
        *[Report(run_id=one.run_id, token=one.token, ending=Success()) for one in leases]
    )


async def fail(worker: ManualWorker, leases: Iterable[Lease]) -> list[ReportResult]:
    ending = Failure(error="no")
    return await worker.report(*[Report(run_id=one.run_id, token=one.token, ending=ending) for one in leases])


async def claim_all(worker: ManualWorker, limit: int = 100) -> list[Lease]:
    """Claim until there is nothing more."""
    leases: list[Lease] = []
    while more := await worker.claim(limit):
        leases += more
    return leases


class Watch:
    """Notes what is under way, and that it is never more than a cap."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.under_way: Counter[bytes | None] = Counter()
        self.ended = 0

    async def work(self, cluster: Cluster, worker: ManualWorker, wanted: int, rng: random.Random) -> None:
        """Claim and end runs until so many have ended. Some attempts fail, and some workers end twice."""
        while self.ended < wanted:
            leases = await worker.claim(rng.randint(1, 3))
            for lease in leases:
                self.under_way[lease.payload] += 1
                assert self.under_way[lease.payload] <= self.most
            await asyncio.sleep(0)
            for lease in leases:
                self.under_way[lease.payload] -= 1
            bad = [lease for lease in leases if rng.random() < 0.2]
            good = [lease for lease in leases if lease not in bad]
            await fail(worker, bad)
            await succeed(worker, good)
            await succeed(worker, good)  # whoever got no answer says it again
            self.ended += len(good)
            if not leases:
                cluster.first.clock.advance(0.5)


async def test_a_late_end_frees_no_second_place(cluster: Cluster) -> None:
    """Solid Queue #761: an end that came late counted down twice, and a cap of 1 let 11 run."""
    runs = await cluster.submit(await cluster.add(concurrency=1), [None] * 12)
    frozen = await cluster.first.worker()
    late = await frozen.claim(1)
    await cluster.first.gateway.leave(frozen.session_id)
    for server in cluster.servers:
        await server.tick("reaper")
    workers = [await server.worker() for server in cluster.servers for _ in range(6)]
    under_way = [lease for worker in workers for lease in await claim_all(worker)]
    assert len(under_way) == 1
    for _ in range(3):
        await succeed(frozen, late)
    cluster.first.clock.advance(FULL_PERIOD.total_seconds())
    assert [lease for worker in workers for lease in await claim_all(worker)] == []
    assert (await cluster.states(runs))[RunState.RUNNING] == 1


async def test_none_is_stuck_that_came_while_another_ended(cluster: Cluster) -> None:
    """Solid Queue #689: the check for room and the wait for it were apart, so who fell in between waited for ever."""
    job_id = await cluster.add(concurrency=ONE_EACH, retry={"max_retries": 50, "delay": "1s"})
    watch, rng = Watch(1), random.Random(3)
    workers = [await server.worker() for server in cluster.servers for _ in range(2)]
    runs: list[RunId] = []

    async def come() -> None:
        for _ in range(10):
            runs.extend(await cluster.submit(job_id, [rng.choice("ab") for _ in range(4)]))
            await asyncio.sleep(0)

    await asyncio.gather(come(), *[watch.work(cluster, worker, 40, rng) for worker in workers])
    assert await cluster.states(runs) == {RunState.SUCCEEDED: 40}


async def test_what_a_killed_worker_held_is_neither_lost_nor_passed_by(cluster: Cluster) -> None:
    """Solid Queue #735: when a worker was killed, others started past the limit."""
    runs = await cluster.submit(await cluster.add(concurrency=2), [None] * 6)
    killed, other = [await server.worker() for server in cluster.servers]
    assert len(await claim_all(killed)) == 2
    assert await claim_all(other) == []  # nobody knows yet
    await cluster.first.gateway.leave(killed.session_id)
    await cluster.first.tick("reaper")
    cluster.first.clock.advance(FULL_PERIOD.total_seconds())
    ended = 0
    for _ in range(12):  # those that the worker may have died of go one by one
        leases = await claim_all(other)
        assert len(leases) <= 2
        await succeed(other, leases)
        ended += len(leases)
        cluster.first.clock.advance(FULL_PERIOD.total_seconds())
    assert ended == 6
    assert await cluster.states(runs) == {RunState.SUCCEEDED: 6}


async def test_a_second_limit_costs_no_further_calls(cluster: Cluster) -> None:
    """Hatchet #2866: a job with two rules took seconds to start what one with one rule started at once."""
    await cluster.first.client.limits.put(TENANT, "crm", {"max_running": 100})
    worker = await cluster.first.worker()
    costs = []
    for name, limits in {"one": [ONE_EACH], "three": [ONE_EACH, {"use": "crm"}, {"limit": 100}]}.items():
        job_id = await cluster.add(name=name, concurrency=limits)
        await cluster.submit(job_id, range(60))
        cluster.store.calls.clear()
        leases = await claim_all(worker)
        assert len(leases) == 60
        costs.append(
            sum(cluster.store.calls[verb] for verb in ("claim_lined_up", "read_lines", "read_lanes"))
        )
        await succeed(worker, leases)
    assert costs[1] <= costs[0] + 1


async def test_no_limit_is_exceeded_by_many_servers(cluster: Cluster) -> None:
    """Hatchet #4806: more runs of a group were under way than its limit allowed."""
    await cluster.first.client.limits.put(TENANT, "crm", {"max_running": 2, "hold": "run"})
    limits = [{"key": "$.customer", "use": "crm"}, {"limit": 5}]
    job_id = await cluster.add(concurrency=limits, retry={"max_retries": 50, "delay": "1s"})
    runs = await cluster.submit(job_id, [number % 4 for number in range(60)])
    watch, rng = Watch(2), random.Random(4)
    workers = [await server.worker() for server in cluster.servers for _ in range(3)]
    await asyncio.gather(*[watch.work(cluster, worker, 60, rng) for worker in workers])
    assert await cluster.states(runs) == {RunState.SUCCEEDED: 60}


async def test_many_keys_do_not_stop_the_work(cluster: Cluster) -> None:
    """Hatchet #1622: with many distinct keys, nothing was started any more."""
    runs = await cluster.submit(await cluster.add(concurrency=ONE_EACH), range(1500))
    worker, started = await cluster.first.worker(), 0
    for _ in range(200):
        leases = await worker.claim(100)
        await succeed(worker, leases)
        started += len(leases)
        if started == len(runs):
            break
        await cluster.first.advance(0.1)
    assert await cluster.states(runs) == {RunState.SUCCEEDED: 1500}


async def test_a_full_key_is_not_asked_for_again_and_again(cluster: Cluster) -> None:
    """GoodJob #838: runs without room were claimed, put back and claimed again, which drowned the database."""
    job_id = await cluster.add(concurrency=1)
    await cluster.submit(job_id, [None] * 300)
    workers = [await cluster.first.worker() for _ in range(5)]
    assert len([lease for worker in workers for lease in await claim_all(worker)]) == 1
    cluster.store.calls.clear()
    for _ in range(20):
        assert [lease for worker in workers for lease in await worker.claim(10)] == []
        cluster.first.clock.advance(FULL_PERIOD.total_seconds() / 25)
    assert cluster.store.calls["claim_lined_up"] <= 1
    assert cluster.store.calls["claim_runs"] + cluster.store.calls["apply"] == 0
    cluster.first.clock.advance(FULL_PERIOD.total_seconds())
    assert await claim_all(workers[0]) == []
    assert cluster.store.calls["claim_lined_up"] <= 2


async def test_one_full_key_does_not_starve_its_queue(cluster: Cluster) -> None:
    """pg-boss #871: what had no room stood at the head of the queue, and nothing behind it was reached."""
    job_id, plain = await cluster.add(concurrency=ONE_EACH), await cluster.add(name="plain")
    await cluster.submit(job_id, ["full"] * 500)
    worker = await cluster.first.worker()
    assert len(await claim_all(worker)) == 1
    others = [*await cluster.submit(job_id, ["a", "b", "c"]), *await cluster.submit(plain)]
    assert {lease.run_id for lease in await claim_all(worker)} == set(others)
