"""Executed no-op runs a second with two server nodes against one, four workers, everything on the same machine.

In two ways, as a cluster's user may have it: workers over HTTP that know all servers, and workers straight on
PostgreSQL while the servers schedule beside them. Whether one node or two, in turn, so that whatever changes on the
machine meets both. The runs fall due at one instant, when all workers have long been up; the clock runs from there
until the store has none of them left. What the second node costs by being there is in the straight figures; over HTTP
a second server is a second process that reads and writes JSON, too.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg
import structlog
import uvloop

from benchmarks.engine import SLOTS, fresh_database, settings_for
from benchmarks.growth import Cost, end_all, run_workers, time_round
from benchmarks.idle import run_servers
from benchmarks.report import OURS, Row, publish
from mainspring import App
from mainspring.runtime import open_engine

WORKERS = 4
WARM_UP = 4_000
app = App()


@app.job("noop")
async def noop() -> None:
    """Do nothing, quickly."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What is measured: runs in each round, rounds, and ways (`http`, `straight`)."""

    runs: int = 20_000
    rounds: int = 3
    ways: tuple[str, ...] = ("http", "straight")


@asynccontextmanager
async def run_remote_workers(addresses: list[str], count: int) -> AsyncIterator[list[int]]:
    """Run workers over HTTP until the block ends; yields their process ids."""
    command = [sys.executable, "-m", "mainspring", "worker", "benchmarks.nodes:app", "--slots", str(SLOTS)]
    for address in addresses:
        command += ["--server", address]
    workers = [
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(count)
    ]
    try:
        yield [worker.pid for worker in workers]
    finally:
        await asyncio.to_thread(end_all, workers)


async def time_nodes(server: str, nodes: int, way: str, count: int) -> Cost:
    """Return what each run took with so many nodes."""
    async with fresh_database(server) as dsn, run_servers(dsn, nodes) as (pids, addresses):
        looker = await asyncpg.connect(dsn, server_settings={"application_name": "bench"})
        workers = run_remote_workers(addresses, WORKERS) if way == "http" else run_workers(dsn, WORKERS)
        try:
            async with (
                workers as worker_pids,
                open_engine(settings_for(dsn, slots=0), with_scheduler=False) as engine,
            ):
                while await looker.fetchval("SELECT count(*) FROM session WHERE state = 'live'") < WORKERS:
                    await asyncio.sleep(0.05)
                job, _ = await engine.client.jobs.upsert("default", {"name": "noop", "function": "noop"})
                everybody = [*worker_pids, *pids]
                await time_round(engine, looker, everybody, [job.id], WARM_UP)
                return await time_round(engine, looker, everybody, [job.id], count)
        finally:
            await looker.close()


async def measure(server: str, setup: Setup) -> list[Row]:
    rows: list[Row] = []
    for way in setup.ways:
        found: dict[int, list[Cost]] = {1: [], 2: []}
        for number in range(setup.rounds):
            for nodes in (1, 2) if number % 2 == 0 else (2, 1):
                found[nodes].append(await time_nodes(server, nodes, way, setup.runs))
        one = statistics.median(1e6 / cost.wall for cost in found[1])
        for nodes, costs in found.items():
            rates = [1e6 / cost.wall for cost in costs]
            rows.append(
                {
                    "name": f"runs executed, {WORKERS} workers {'over HTTP' if way == 'http' else 'on PostgreSQL'},"
                    " 2 server nodes",
                    "contestant": OURS if nodes > 1 else "1 server node",
                    "value": round(statistics.median(rates)),
                    "unit": "runs/s",
                    "low": round(min(rates)),
                    "high": round(max(rates)),
                    "detail": {
                        "of one node, %": round(100 * statistics.median(rates) / one, 1),
                        "workers and servers, µs a run": round(
                            statistics.median(c.workers for c in costs), 1
                        ),
                        "PostgreSQL's backends, µs a run": round(
                            statistics.median(c.backends for c in costs), 1
                        ),
                    },
                }
            )
    return rows


def run(quick: bool, dsn: str | None = None) -> list[Row]:
    """Measure for `make bench`; nothing without PostgreSQL."""
    if dsn is None:
        return []
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    return uvloop.run(measure(dsn, Setup(3_000, 1, ("http",)) if quick else Setup()))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nodes", description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000, help="in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", nargs="+", choices=["http", "straight"], default=["http", "straight"])
    options = parser.parse_args()
    server = os.environ.get("MAINSPRING_TEST_POSTGRES")
    if not server:
        raise SystemExit("no PostgreSQL; run this by scripts/services run --durable -- …")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    setup = Setup(options.runs, options.rounds, tuple(options.ways))
    publish("nodes", uvloop.run(measure(server, setup)))


if __name__ == "__main__":
    main()
