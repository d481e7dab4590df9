"""How tenants share the workers: weights 1, 2 and 7, endless backlogs, attempts of unequal length, workers killed.

Three tenants have more to run than the workers can do. Their attempts take 200, 20 and 50 ms, so that shares of the
number of runs and shares of the time of slots are far apart. Worker processes stand straight on the store; the one that
is oldest is killed (SIGKILL) every few seconds, and another one takes its place. Measured is which share of the slots'
time each tenant has got: its runs that succeeded in the window, times what they take.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import asyncpg
import uvloop

from benchmarks.engine import CHUNK, fresh_database, settings_for
from benchmarks.report import Row, publish
from mainspring import App
from mainspring.engine.usecases.runs import Submission
from mainspring.runtime import make_worker, open_engine

WORKERS = 3
SLOTS = 20
BEAT = timedelta(seconds=1)
"""So that the runs of a killed worker are started again within the window."""
SETTLING = 10.0
"""Seconds until shares are measured: workers learn how long attempts take."""
DATABASE = "MAINSPRING_FAIRNESS_DATABASE"


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant, its weight, and what its attempts take."""

    name: str
    weight: int
    seconds: float


TENANTS = (Tenant("one", 1, 0.2), Tenant("two", 2, 0.02), Tenant("seven", 7, 0.05))
EVEN = tuple(Tenant(tenant.name, tenant.weight, 0.05) for tenant in TENANTS)

app = App()


@app.job(name="hold")
async def hold(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def load(dsn: str, tenants: Sequence[Tenant], seconds: float) -> None:
    """Give each tenant so much to run that the workers alone could not do it in the time."""
    async with open_engine(settings_for(dsn, slots=0), registry=app.registry, with_scheduler=False) as engine:
        for tenant in tenants:
            await engine.client.tenants.put(tenant.name, {"weight": tenant.weight})
            body = {"name": "hold", "function": "hold", "payload": {"seconds": tenant.seconds}}
            job = await engine.client.jobs.create(tenant.name, body)
            count = round(WORKERS * SLOTS * (seconds + 2 * SETTLING) / tenant.seconds)
            for _ in range(-(-count // CHUNK)):
                await engine.client.runs.submit_many(tenant.name, [Submission(job_id=job.id)] * CHUNK)


def start_worker(dsn: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.fairness", "--work"], env=os.environ | {DATABASE: dsn}
    )


async def work(dsn: str) -> None:
    """Be a worker straight on the store, and a scheduler, until killed."""
    settings = replace(settings_for(dsn, slots=SLOTS), beat_period=BEAT)
    async with open_engine(settings, registry=app.registry) as engine:
        worker = make_worker(
            engine.gateway, settings, app.registry, telemetry=engine.telemetry, name=f"w-{os.getpid()}"
        )
        await worker.start()
        await asyncio.Event().wait()


async def measure(server: str, tenants: Sequence[Tenant], seconds: float, kill_every: float) -> list[Row]:
    """Return the share of each tenant, beside that of its weight."""
    async with fresh_database(server) as dsn:
        await load(dsn, tenants, seconds)
        workers = [start_worker(dsn) for _ in range(WORKERS)]
        connection = await asyncpg.connect(dsn)
        try:
            await connection.execute("VACUUM ANALYZE")
            kills = await _run(workers, dsn, SETTLING, kill_every)
            before = await _count(connection)
            kills += await _run(workers, dsn, seconds, kill_every)
            after = await _count(connection)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
            await connection.close()
    spent = {tenant.name: (after[tenant.name] - before[tenant.name]) * tenant.seconds for tenant in tenants}
    whole, weights = sum(spent.values()), sum(tenant.weight for tenant in tenants)
    kind = "equal" if len({tenant.seconds for tenant in tenants}) == 1 else "unequal"
    return [
        {
            "name": f"share of tenant {tenant.name} (weight {tenant.weight}), {kind} attempts",
            "value": round(spent[tenant.name] / whole, 4),
            "unit": "",
            "detail": {
                "of its weight": round(spent[tenant.name] / whole / (tenant.weight / weights), 3),
                "runs": after[tenant.name] - before[tenant.name],
                "workers killed": kills,
                "slots used": round(whole / seconds / (WORKERS * SLOTS), 2),
            },
        }
        for tenant in tenants
    ]


async def _run(workers: list[subprocess.Popen[bytes]], dsn: str, seconds: float, kill_every: float) -> int:
    """Let time pass; kill the oldest worker each time, and start another."""
    end, kills = time.monotonic() + seconds, 0
    while (rest := end - time.monotonic()) > 0:
        await asyncio.sleep(min(rest, kill_every or rest))
        if kill_every and time.monotonic() < end:
            oldest = workers.pop(0)
            oldest.send_signal(signal.SIGKILL)
            oldest.wait()
            workers.append(start_worker(dsn))
            kills += 1
    return kills


async def _count(connection: asyncpg.Connection[asyncpg.Record]) -> dict[str, int]:
    rows = await connection.fetch("SELECT tenant, count(*) AS runs FROM run_history GROUP BY tenant")
    return {tenant.name: 0 for tenant in TENANTS} | {row["tenant"]: row["runs"] for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fairness", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--kill-every", type=float, default=5.0, help="seconds; 0: none is killed")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        uvloop.run(work(os.environ[DATABASE]))
        return
    server = os.environ["MAINSPRING_TEST_POSTGRES"]
    for name, tenants in (("equal", EVEN), ("unequal", TENANTS)):
        rows = asyncio.run(measure(server, tenants, options.seconds, options.kill_every))
        publish(f"fairness, {name}", rows)


if __name__ == "__main__":
    main()
