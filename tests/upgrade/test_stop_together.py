"""A worker and the only server that it knows are asked to end in the same moment, and both come back."""

import asyncio
from pathlib import Path

import pytest

from tests.upgrade.cluster import Layout, check, running_cluster, under_load
from tests.upgrade.test_drain import LATEST, RATE

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("cluster"),
]
ROUNDS = 3
# The second server keeps the schedule, and declares dead who is silent for three heartbeats; the workers cannot turn to
# it. Their own is back well before that.
LAYOUT = Layout(
    servers=2,
    remote=(("--server={first}",), ("--server={first}", "--processes=2")),
    direct=(),
    beat_period=10.0,
)


async def test_workers_that_stop_with_their_only_server_lose_nothing(
    tmp_path: Path, postgres_database: str
) -> None:
    async with running_cluster(tmp_path, postgres_database, layout=LAYOUT) as (cluster, receiver):
        async with under_load(cluster, receiver, rate=RATE) as stage:
            for _ in range(ROUNDS):
                await asyncio.sleep(1)  # so that there is work under way
                server, _ = cluster.servers
                await asyncio.gather(*(cluster.restart(member) for member in (server, *cluster.workers)))
        check(stage.concluded(), latest=LATEST)


async def test_worker_lives_through_restarts_of_its_only_server(
    tmp_path: Path, postgres_database: str
) -> None:
    async with running_cluster(tmp_path, postgres_database, layout=LAYOUT) as (cluster, receiver):
        async with under_load(cluster, receiver, rate=RATE) as stage:
            started = [worker.pid for worker in cluster.workers]
            for _ in range(ROUNDS):
                await asyncio.sleep(1)
                await cluster.restart(cluster.servers[0])
            assert [worker.pid for worker in cluster.workers if worker.is_running] == started
        check(stage.concluded(), latest=LATEST)
