"""How tenants share the workers: weights 1, 2 and 7, endless backlogs, attempts of unequal length, workers killed.

Three tenants have more to run than the workers can do. Their attempts take 200, 20 and 50 ms, so that shares of the
number of runs and shares of the time of slots are far apart. Worker processes stand straight on the store, and each is
a scheduler node. The one that is oldest is killed (SIGKILL, by its pid) every few seconds, and another one takes its
place. Measured is which share of the slots' time each tenant has got: for how long its runs that succeeded in the
window held their slots. With split workers, one of the three executes only a function of the heaviest tenant, so the
others have to know what that tenant gets there.

With `--starve`, there is an endless backlog of HIGH runs beside one of LOW runs, in a queue whose aging is ten seconds.
Measured is when the k-th LOW run starts, against the bound: the aging, and the time that the workers take for 10 x k
runs.

With `--reserved`, a tenant with ten reserved slots has an endless backlog of LOW runs beside one of HIGH runs of
another tenant. Measured is how many slots it has on average, and at the least.
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
from mainspring.engine.usecases.submissions import Submission
from mainspring.registry import FunctionRegistry
from mainspring.runtime import make_worker, open_engine

WORKERS = 3
SLOTS = 20
BEAT = timedelta(seconds=1)
"""So that the runs of a killed worker are started again within the window."""
SETTLING = 10.0
"""Seconds until shares are measured: workers learn how long attempts take."""
AGING = 10.0
LOW_RUNS = 20_000
HOLD = 0.02
RESERVED = 10
RESERVED_HOLD = 1.0
DATABASE = "MAINSPRING_FAIRNESS_DATABASE"


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant, its weight, what its attempts take, and the functions of its jobs."""

    name: str
    weight: int
    seconds: float
    functions: tuple[str, ...] = ("hold",)


@dataclass(frozen=True, slots=True)
class Part:
    """What is measured, and which functions each worker executes."""

    name: str
    tenants: tuple[Tenant, ...]
    workers: tuple[str, ...] = ("hold,own",) * WORKERS


UNEQUAL = (Tenant("one", 1, 0.2), Tenant("two", 2, 0.02), Tenant("seven", 7, 0.05))
EVEN = tuple(replace(tenant, seconds=0.05) for tenant in UNEQUAL)
SPLIT = (*UNEQUAL[:2], replace(UNEQUAL[2], functions=("hold", "own")))
PARTS = (
    Part("equal attempts", EVEN),
    Part("unequal attempts", UNEQUAL),
    Part("split workers", SPLIT, ("hold", "hold", "own")),
)


async def hold(seconds: float) -> float:
    """Hold the slot, and return for how long: on a busy machine that is longer than it was to be."""
    begun = time.monotonic()
    await asyncio.sleep(seconds)
    return time.monotonic() - begun


def registry_of(names: str) -> FunctionRegistry:
    registry = FunctionRegistry()
    for name in names.split(","):
        registry.add(name, hold)
    return registry


async def load(dsn: str, tenants: Sequence[Tenant], seconds: float) -> None:
    """Give each tenant so much to run that the workers alone could not do it in the time."""
    registry = registry_of("hold,own")
    async with open_engine(settings_for(dsn, slots=0), registry=registry, with_scheduler=False) as engine:
        for tenant in tenants:
            await engine.client.tenants.put(tenant.name, {"weight": tenant.weight})
            for function in tenant.functions:
                body = {"name": function, "function": function, "payload": {"seconds": tenant.seconds}}
                job = await engine.client.jobs.create(tenant.name, body)
                count = round(WORKERS * SLOTS * (seconds + 2 * SETTLING) / tenant.seconds)
                for _ in range(-(-count // CHUNK)):
                    await engine.client.runs.submit_many(tenant.name, [Submission(job_id=job.id)] * CHUNK)


def start_worker(dsn: str, functions: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.fairness", "--work", functions],
        env=os.environ | {DATABASE: dsn},
    )


async def work(dsn: str, functions: str) -> None:
    """Be a worker straight on the store, and a scheduler, until killed."""
    settings, registry = replace(settings_for(dsn, slots=SLOTS), beat_period=BEAT), registry_of(functions)
    async with open_engine(settings, registry=registry) as engine:
        worker = make_worker(
            engine.gateway, settings, registry, telemetry=engine.telemetry, name=f"w-{os.getpid()}"
        )
        await worker.start()
        await asyncio.Event().wait()


async def measure(server: str, part: Part, seconds: float, kill_every: float) -> list[Row]:
    """Return the share of each tenant, beside that of its weight."""
    async with fresh_database(server) as dsn:
        await load(dsn, part.tenants, seconds)
        workers = [(functions, start_worker(dsn, functions)) for functions in part.workers]
        connection = await asyncpg.connect(dsn)
        try:
            await connection.execute("VACUUM ANALYZE")
            kills = await _run(workers, dsn, SETTLING, kill_every)
            before = await _spent(connection, part.tenants)
            kills += await _run(workers, dsn, seconds, kill_every)
            after = await _spent(connection, part.tenants)
        finally:
            _stop(workers)
            await connection.close()
    spent = {one.name: after[one.name] - before[one.name] for one in part.tenants}
    whole, weights = sum(spent.values()), sum(tenant.weight for tenant in part.tenants)
    shares = {one.name: spent[one.name] / whole / (one.weight / weights) for one in part.tenants}
    return [
        {
            "name": f"deviation from the shares 1, 2, 7, {part.name}",
            "value": round(max(abs(share - 1) for share in shares.values()) * 100, 1),
            "unit": "%",
            "detail": {
                **{f"{name}, of its share": round(share, 3) for name, share in shares.items()},
                "workers killed": kills,
                "slots used": round(whole / seconds / (WORKERS * SLOTS), 2),
            },
        }
    ]


async def starve(server: str, seconds: float) -> list[Row]:
    """Return how much later than its bound any LOW run started beside endless HIGH ones."""
    async with fresh_database(server) as dsn:
        registry = registry_of("hold")
        async with open_engine(settings_for(dsn, slots=0), registry=registry, with_scheduler=False) as engine:
            await engine.client.queues.put("default", {"aging": AGING})
            for name, count in (("HIGH", WORKERS * SLOTS * (seconds + 30) / HOLD), ("LOW", LOW_RUNS)):
                body = {"name": name, "function": "hold", "priority": name, "payload": {"seconds": HOLD}}
                job = await engine.client.jobs.create("default", body)
                for _ in range(-(-round(count) // CHUNK)):
                    await engine.client.runs.submit_many("default", [Submission(job_id=job.id)] * CHUNK)
        connection = await asyncpg.connect(dsn)
        await connection.execute("VACUUM ANALYZE")
        workers = [("hold", start_worker(dsn, "hold")) for _ in range(WORKERS)]
        try:
            await _run(workers, dsn, seconds, 0)
            rows = await connection.fetch(
                "SELECT extract(epoch FROM started_at) AS at, priority FROM run_history ORDER BY started_at"
            )
        finally:
            _stop(workers)
            await connection.close()
    first, last = float(rows[0]["at"]), float(rows[-1]["at"])
    pace = len(rows) / (last - first)
    # What had waited for longer than the aging before the workers came could not have started before them.
    low = [float(row["at"]) - first for row in rows if row["priority"] == 2]
    late = [at - (AGING + 10 * number / pace) for number, at in enumerate(low, start=1)]
    return [
        {
            "name": "LOW beside endless HIGH: latest start after the bound",
            "value": round(max(late), 2),
            "unit": "s",
            "detail": {
                "LOW runs started": len(low),
                "share": round(len(low) / len(rows), 3),
                "starts a second": round(pace),
                "first after, s": round(low[0], 2),
            },
        }
    ]


async def reserve(server: str, seconds: float, kill_every: float) -> list[Row]:
    """Return how many slots a tenant with a reserve has beside endless HIGH runs of another one."""
    async with fresh_database(server) as dsn:
        registry = registry_of("hold")
        async with open_engine(settings_for(dsn, slots=0), registry=registry, with_scheduler=False) as engine:
            await engine.client.tenants.put("acme", {"reserved": RESERVED})
            for tenant, name, slots in (("flood", "HIGH", WORKERS * SLOTS), ("acme", "LOW", WORKERS * SLOTS)):
                payload = {"seconds": RESERVED_HOLD}
                body = {"name": name, "function": "hold", "priority": name, "payload": payload}
                job = await engine.client.jobs.create(tenant, body)
                for _ in range(-(-round(slots * (seconds + 40) / RESERVED_HOLD) // CHUNK)):
                    await engine.client.runs.submit_many(tenant, [Submission(job_id=job.id)] * CHUNK)
        connection = await asyncpg.connect(dsn)
        await connection.execute("VACUUM ANALYZE")
        workers = [("hold", start_worker(dsn, "hold")) for _ in range(WORKERS)]
        try:
            await _run(workers, dsn, SETTLING, 0)
            counting = asyncio.ensure_future(_count_slots(dsn, seconds))
            kills = await _run(workers, dsn, seconds, kill_every)
            counts = [own for own, _ in await counting]
            used = [number for _, number in await counting]
        finally:
            _stop(workers)
            await connection.close()
    return [
        {
            "name": f"slots of a tenant with {RESERVED} reserved, beside endless HIGH runs of another",
            "value": round(sum(counts) / len(counts), 2),
            "unit": "slots",
            "detail": {
                "least": min(counts),
                "most": max(counts),
                "counts below the reserve": round(sum(count < RESERVED for count in counts) / len(counts), 3),
                "slots used": round(sum(used) / len(used) / (WORKERS * SLOTS), 2),
                "workers killed": kills,
            },
        }
    ]


async def _count_slots(dsn: str, seconds: float) -> list[tuple[int, int]]:
    """Count the slots of the tenant with the reserve, and those of all, ten times a second."""
    connection = await asyncpg.connect(dsn)
    end, counts = time.monotonic() + seconds, []
    try:
        while time.monotonic() < end:
            row = await connection.fetchrow(
                "SELECT count(*) FILTER (WHERE lane.tenant = 'acme') AS own, count(*) AS used"
                " FROM run JOIN lane ON lane.id = run.lane_id"
                " WHERE run.claim_number IS NOT NULL AND run.state = 'RUNNING'"
            )
            assert row is not None
            counts.append((row["own"], row["used"]))
            await asyncio.sleep(0.1)
    finally:
        await connection.close()
    return counts


def _stop(workers: Sequence[tuple[str, subprocess.Popen[bytes]]]) -> None:
    for _, worker in workers:
        worker.kill()
        worker.wait()


async def _run(
    workers: list[tuple[str, subprocess.Popen[bytes]]], dsn: str, seconds: float, kill_every: float
) -> int:
    """Let time pass; kill the oldest worker each time, and start another."""
    end, kills = time.monotonic() + seconds, 0
    while (rest := end - time.monotonic()) > 0:
        await asyncio.sleep(min(rest, kill_every or rest))
        if kill_every and time.monotonic() < end:
            functions, oldest = workers.pop(0)
            oldest.send_signal(signal.SIGKILL)
            oldest.wait()
            workers.append((functions, start_worker(dsn, functions)))
            kills += 1
    return kills


async def _spent(
    connection: asyncpg.Connection[asyncpg.Record], tenants: Sequence[Tenant]
) -> dict[str, float]:
    """Return for how many seconds each tenant's attempts have held their slots so far."""
    rows = await connection.fetch(
        "SELECT tenant, sum(convert_from(result, 'UTF8')::double precision) AS spent"
        " FROM run_history GROUP BY tenant"
    )
    return {tenant.name: 0.0 for tenant in tenants} | {row["tenant"]: row["spent"] for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fairness", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--kill-every", type=float, default=5.0, help="seconds; 0: none is killed")
    parser.add_argument("--starve", action="store_true", help="endless HIGH runs beside LOW ones")
    parser.add_argument("--reserved", action="store_true", help="endless HIGH runs beside a reserve")
    parser.add_argument("--work", metavar="FUNCTIONS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        uvloop.run(work(os.environ[DATABASE], options.work))
        return
    server = os.environ["MAINSPRING_TEST_POSTGRES"]
    if options.starve:
        publish("fairness, starve", asyncio.run(starve(server, options.seconds)))
        return
    if options.reserved:
        rows = asyncio.run(reserve(server, options.seconds, options.kill_every))
        publish("fairness, reserved", rows)
        return
    for part in PARTS:
        rows = asyncio.run(measure(server, part, options.seconds, options.kill_every))
        publish(f"fairness, {part.name}", rows)


if __name__ == "__main__":
    main()
