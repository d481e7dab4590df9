"""F1 to F7 and F21: processes that are killed, stopped for a while, or told the wrong time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from random import Random

from tests.chaos.cluster.scene import Cluster
from tests.chaos.failpoints import CLUSTER_VERBS, COUNTS, MOMENTS, Failpoint
from tests.chaos.processes import Ended, Process, Worker, must_be_asked
from tests.support.faketime import shifted

_MOMENT = 1.0
_LONGEST_ABSENCE = 5.0
_PATIENCE = 4.0
"""Seconds for which a process is waited for to come to a point."""
_LOOK = 0.02
_EDGE = (0.8, 1.2)
_EDGES = 3
_TRIES = 40
_SHIFTS = (-86_400.0, -3_600.0, -1.0, 1.0, 3_600.0, 86_400.0)
_SHIFTED_FOR = 5.0
_POINTS = ("", "claim", "report")
"""Where a worker over HTTP is met: at any moment, once it was given leases, or before it reports."""
_OTHER_DIES = frozenset({"expire_nodes", "take_shards", "release_shards"})
"""Verbs that a server calls only when another one goes or comes."""


async def kill_owner(cluster: Cluster, random: Random) -> None:
    """F1: kill the server that owns most shards; it comes back at once or some seconds later."""
    server = await cluster.find_owner()
    await asyncio.sleep(random.uniform(0, _MOMENT))
    at = await cluster.kill(server)
    await asyncio.sleep(random.choice([0.0, random.uniform(0, _LONGEST_ABSENCE)]))
    await cluster.revive(server, "kill", at)


async def kill_at_commit(cluster: Cluster, random: Random) -> None:
    """F2: a server ends itself before or after the commit of a writing verb's n-th call."""
    server = random.choice(cluster.servers)
    verb = random.choice(CLUSTER_VERBS)
    failpoint = Failpoint(random.choice(MOMENTS), verb, random.randint(1, COUNTS.get(verb, 1)))
    asked = time.time()
    await asyncio.to_thread(server.stop)
    is_up = True
    try:
        await cluster.revive(server, "stop", asked, failpoint=failpoint)
    except Ended:
        is_up = False
    if is_up:
        await _provoke(cluster, random, server, failpoint)
        if not await asyncio.to_thread(server.ends_within, _PATIENCE):
            cluster.missed_failpoints.append(str(failpoint))
            await cluster.kill(server)
        else:
            await asyncio.to_thread(server.reap)
    at = server.reached()
    if at is not None:
        cluster.reached[f"{failpoint.moment}:{failpoint.verb}"] += 1
    await cluster.revive(server, "kill", at or asked)


async def _provoke(cluster: Cluster, random: Random, server: Process, failpoint: Failpoint) -> None:
    """Have something happen that makes a server call the failpoint's verb."""
    if must_be_asked(failpoint):
        server.terminate()
    elif failpoint.verb in _OTHER_DIES:
        other = random.choice([each for each in cluster.servers if each is not server])
        at = await cluster.kill(other)
        await asyncio.sleep(cluster.size.node_lease + _MOMENT)
        await cluster.revive(other, "kill", at)
    elif failpoint.verb == "expire_sessions":
        worker = random.choice(cluster.workers)
        await cluster.revive(worker, "kill", await cluster.kill(worker))


async def kill_worker(cluster: Cluster, random: Random) -> None:
    """F3: kill a worker at any moment, before its jobs begin, or when their work is done and not reported."""
    worker = random.choice(cluster.workers)
    at = await _halt(cluster, random, worker)
    await cluster.kill(worker)
    await asyncio.sleep(random.choice([0.0, random.uniform(0, cluster.size.worker_lease)]))
    await cluster.revive(worker, "kill", at)


async def kill_all(cluster: Cluster, random: Random) -> None:
    """F4: kill everything at once, PostgreSQL included, and start it again."""
    await asyncio.sleep(random.uniform(0, _MOMENT))
    at = time.time()
    await asyncio.to_thread(cluster.database.kill)
    killed = [(process, await cluster.kill(process)) for process in (*cluster.servers, *cluster.workers)]
    await asyncio.sleep(random.uniform(0, _MOMENT))
    await cluster.start_database()
    cluster.blame("outage", "store", at, time.time())
    await asyncio.gather(*(cluster.revive(process, "kill", ended) for process, ended in killed))


async def pause_owner(cluster: Cluster, random: Random) -> None:
    """F5: stop the owner of most shards for longer than its lease; then it goes on as if nothing had happened."""
    server = await cluster.find_owner()
    await asyncio.sleep(random.uniform(0, _MOMENT))
    at = server.pause()
    await asyncio.sleep(random.uniform(1.5, 5.0) * cluster.size.node_lease)
    cluster.blame("zombie", server.name, at, server.resume())


async def pause_worker(cluster: Cluster, random: Random) -> None:
    """F6: stop a worker that carries something out for longer than its lease, at any moment or before it reports."""
    worker = random.choice(cluster.workers)
    at = await _halt_at_work(cluster, random, worker)
    await asyncio.sleep(cluster.size.worker_lease + random.uniform(0.6, 2.0))
    cluster.blame("zombie", worker.name, at, worker.resume())


async def pause_at_the_edge(cluster: Cluster, random: Random) -> None:
    """F7: stop a process about as long as its lease, several times."""
    process: Process = random.choice([*cluster.servers, *cluster.workers])
    for _ in range(_EDGES):
        at = process.pause()
        await asyncio.sleep(random.uniform(*_EDGE) * cluster.size.worker_lease)
        cluster.blame("zombie", process.name, at, process.resume())
        await asyncio.sleep(random.uniform(0.1, _MOMENT))


async def shift_clock(cluster: Cluster, random: Random) -> None:
    """F21: a server's host has the wrong time for a while."""
    server = random.choice(cluster.servers)
    seconds = random.choice(_SHIFTS)
    at = time.time()
    await asyncio.to_thread(server.stop)
    await cluster.revive(server, "stop", at, environment=shifted(seconds))
    await asyncio.sleep(_SHIFTED_FOR)
    at = time.time()
    await asyncio.to_thread(server.stop)
    await cluster.revive(server, "stop", at)


async def _halt_at_work(cluster: Cluster, random: Random, worker: Worker) -> float:
    """Stop a worker that holds a lease; say when."""
    if worker.speaks_http and random.random() < 0.5:
        return await _halt(cluster, random, worker, points=("report",))
    for _ in range(_TRIES):
        at = worker.pause()
        if await cluster.count_leases(worker):
            return at
        worker.resume()
        await asyncio.sleep(random.uniform(0, _MOMENT) / 5)
    cluster.missed_failpoints.append(f"{worker.name} at work")
    return worker.pause()


async def _halt(
    cluster: Cluster, random: Random, worker: Worker, *, points: Sequence[str] = _POINTS
) -> float:
    """Stop a worker, or have it stop itself at a point; say when."""
    point = random.choice(points) if worker.speaks_http else ""
    if not point:
        await asyncio.sleep(random.uniform(0.1, _MOMENT))
        return worker.pause()
    asked = time.time()
    worker.order_halt(point)
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        at = worker.halted(asked)
        if at is not None:
            cluster.reached[f"worker at {point}"] += 1
            return at
        await asyncio.sleep(_LOOK)
    worker.halt.unlink(missing_ok=True)
    at = worker.halted(asked)  # it may have come there in this very moment
    if at is None:
        cluster.missed_failpoints.append(f"{worker.name} at {point}")
        at = worker.pause()
    return at
