"""`python -m tests.chaos.cluster.storm`: a cluster under a heavy, steady load, of which every few seconds a server or
a worker is killed, while the owner of most shards is stopped now and then; judged as always."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import asyncpg

from tests.chaos.campaign import read_count, read_rate
from tests.chaos.cluster.bulk import JOB, BulkLoad
from tests.chaos.cluster.scene import Cluster, Size, Unsettled, open_cluster
from tests.chaos.cluster.server import ClusterServer
from tests.chaos.cluster.store_faults import take_store_away
from tests.chaos.operator import Operator
from tests.chaos.report import is_good, recovery, stories, sum_up
from tests.chaos.ruled import RuledLoad, missing
from tests.chaos.trials import Outcome, Stage, conclude, under_load

# As shipped, but for the slots: what is killed here is meant to run with the defaults.
SIZE = Size(slots=100, beat_period=10.0, node_period=1.4)
_DURABLE = {"fsync": "on", "shared_buffers": "512MB", "max_wal_size": "4GB"}
_CALM = 5.0
_LONG_ENOUGH = 60.0
"""In so many seconds a storm reaches everything."""
_STORIES = 20
_LOOK = 1.0
_LEASES = 3.0
"""For so many the owner of most shards is stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """What is done.

    Attributes:
        seconds: how long it lasts.
        rate: runs a second that are submitted in batches; another 20 come one by one.
        kill_every: seconds between two kills; 0 is no kill.
        pauses: how often the owner of most shards is stopped, for three leases.
        outage: seconds without PostgreSQL, once, in the middle.
    """

    seed: int
    seconds: float
    rate: float
    kill_every: float
    pauses: int
    outage: float


@dataclass(slots=True)
class Gauge:
    """Looks once a second at how much waits.

    Attributes:
        backlog: how many runs were due and waited; -1 where PostgreSQL did not answer.
    """

    backlog: list[int] = field(default_factory=list)

    async def watch(self, cluster: Cluster) -> None:
        """Look until cancelled."""
        while True:
            try:
                [row] = await cluster.ask(
                    "SELECT count(*) AS n FROM run WHERE session_id IS NULL AND ready_at <= now()"
                )
                self.backlog.append(row["n"])
            except (OSError, asyncpg.PostgresError):
                self.backlog.append(-1)
            await asyncio.sleep(_LOOK)


async def run_storm(storm: Storm, folder: Path) -> tuple[Outcome, dict[str, Any]]:
    """Carry a storm out and judge it; return what came of it, and figures that the judge has not."""
    gauge = Gauge()
    async with open_cluster(folder, SIZE, has_lines=False, settings=_DURABLE) as (cluster, receiver):
        await cluster.start()
        async with under_load(cluster, receiver, rate=20.0, seed=storm.seed) as stage:
            job = next(job for job in stage.known if job.name == JOB)
            load = BulkLoad(stage.client, cluster.log, job.id, storm.rate, Random(f"bulk:{storm.seed}"))
            ruled, operator = await _make_rules(cluster, stage, storm)
            watch = asyncio.create_task(gauge.watch(cluster))
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(load.run())
                    group.create_task(ruled.run())
                    group.create_task(operator.run())
                    await asyncio.sleep(_CALM)
                    await _rage(cluster, storm)
                    load.is_stopping = ruled.is_stopping = operator.is_stopping = True
                await cluster.settle()
                await ruled.finish()
            finally:
                watch.cancel()
        dead = await cluster.count_false_deaths()
        outcome = await conclude(
            cluster,
            stage,
            folder,
            slots=SIZE.all_slots,
            beat_period=SIZE.beat_period,
            operator=operator,
        )
    return outcome, {
        "submitted_in_bulk": load.acknowledged,
        "bulk_per_s": round(load.acknowledged / (storm.seconds + _CALM)),
        "load_behind_s": round(load.latest, 2),
        "largest_backlog": max(gauge.backlog, default=0),
        "backlog": gauge.backlog[:: max(len(gauge.backlog) // 60, 1)],
        "alive_but_declared_dead": dead,
        "late_starts_until_s_after_the_last_fault": round(recovery(outcome.history), 2),
    }


async def _make_rules(cluster: Cluster, stage: Stage, storm: Storm) -> tuple[RuledLoad, Operator]:
    """Set limits and a calendar, and create the jobs that go by them."""
    ruled = RuledLoad(stage.client, cluster.log, Random(f"ruled:{storm.seed}"), cluster.reached)
    random = Random(f"operator:{storm.seed}")
    operator = Operator(
        stage.client, stage.jobs, cluster.log, random, ruled.jobs, cluster.ask, cluster.reached
    )
    await operator.prepare()
    stage.scheduled += await ruled.create(stage.jobs)
    return ruled, operator


async def _rage(cluster: Cluster, storm: Storm) -> None:
    """Do the harm, and let it last as long as it is to."""
    random = Random(f"storm:{storm.seed}")
    async with asyncio.TaskGroup() as group:
        if storm.kill_every:
            group.create_task(_kill_on_and_on(cluster, storm, random))
        for number in range(storm.pauses):
            after = storm.seconds * (number + 1) / (storm.pauses + 1)
            group.create_task(_pause_owner(cluster, after))
        if storm.outage:
            group.create_task(_take_away(cluster, (storm.seconds - storm.outage) / 3, storm.outage))
        group.create_task(asyncio.sleep(storm.seconds))


async def _kill_on_and_on(cluster: Cluster, storm: Storm, random: Random) -> None:
    starting: dict[str, asyncio.Task[None]] = {}
    async with asyncio.TaskGroup() as group:
        for _ in range(int(storm.seconds / storm.kill_every)):
            alive = [
                process
                for process in (*cluster.servers, *cluster.workers)
                if not process.is_paused and (process.name not in starting or starting[process.name].done())
            ]
            victim = random.choice(alive)
            at = await cluster.kill(victim)
            kind = "servers" if victim in cluster.servers else "workers"
            cluster.reached[f"killed {kind}"] += 1
            starting[victim.name] = group.create_task(cluster.revive(victim, "kill", at))
            await asyncio.sleep(storm.kill_every)


async def _pause_owner(cluster: Cluster, after: float) -> None:
    await asyncio.sleep(after)
    while (owner := await _find_owner(cluster)) is None:  # noqa: ASYNC110 - other processes decide it
        await asyncio.sleep(_LOOK)
    at = owner.pause()
    await asyncio.sleep(_LEASES * SIZE.node_lease)
    cluster.blame("zombie", owner.name, at, owner.resume())
    cluster.reached["paused owners"] += 1


async def _find_owner(cluster: Cluster) -> ClusterServer | None:
    """Return the owner of most shards; None while PostgreSQL is away, or nobody that runs owns any."""
    try:
        return await cluster.find_owner()
    except (OSError, asyncpg.PostgresError, Unsettled):
        return None


async def _take_away(cluster: Cluster, after: float, seconds: float) -> None:
    await asyncio.sleep(after)
    await take_store_away(cluster, seconds)


def main() -> None:
    """Run a storm from the command line; exit status 0 only if nothing was violated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=read_rate, default=300.0)
    parser.add_argument("--rate", type=read_rate, default=2000.0, help="submissions a second")
    parser.add_argument("--kill-every", type=float, default=10.0, metavar="SECONDS", help="0 is never")
    parser.add_argument("--pauses", type=read_count, default=2, metavar="N")
    parser.add_argument(
        "--outage", type=float, default=0.0, metavar="SECONDS", help="without PostgreSQL, once"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder to work in and keep")
    options = parser.parse_args()
    storm = Storm(
        seed=options.seed,
        seconds=options.seconds,
        rate=options.rate,
        kill_every=options.kill_every,
        pauses=options.pauses,
        outage=options.outage,
    )
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mainspring-chaos-") as temporary:
        outcome, figures = asyncio.run(run_storm(storm, options.keep or Path(temporary)))
    for story in stories([outcome])[:_STORIES]:
        print(story)
    left = missing(outcome)
    figures["not_reached"] = left
    print(json.dumps(vars(options) | figures | sum_up([outcome], time.monotonic() - began), default=str))
    is_void = bool(storm.pauses) and not outcome.stale
    if is_void:
        print("void: no stale write was refused")
    if left and storm.seconds >= _LONG_ENOUGH:
        is_void = True
        print(f"void: not reached: {', '.join(left)}")
    sys.exit(0 if is_good([outcome]) and not is_void else 1)


if __name__ == "__main__":
    main()
