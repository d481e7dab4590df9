"""Workflows: how many begin and end, how long a hop takes, a long chain, and many steps that end together.

One process has everything: scheduler, the flows' turns, and the worker with no-op steps. On PostgreSQL a second process
is a worker and a scheduler, too, so the flows are spread over two nodes.

- **Offered**: so many workflows a second are submitted for some seconds, five steps each (one, three at once, one). A
  hop is the time from the end of a step to the start of the next one, both as the store has them.
- **Drained**: as many workflows as fit are submitted first, and plain runs of the same number after them.
- **Chain**: 1,000 steps, one after the other, start to end.
- **Join**: 998 steps that end together, and one that waits for them all, beside as many plain runs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.embedded import prepare_process
from benchmarks.engine import fresh_database, noop_registry, settings_for
from benchmarks.report import Row, publish
from mainspring.core.ids import JobId, RunId
from mainspring.core.model import Run
from mainspring.core.states import RunState
from mainspring.engine.assembly import Engine
from mainspring.engine.usecases.submissions import Submission
from mainspring.runtime import make_worker, open_engine, run_embedded_worker

SLOTS = 100
TICK = 0.1
"""Seconds between two batches of what is offered."""
SAMPLE = 400
"""Workflows whose hops are read."""
LOOK = 10
PATIENCE = 120.0
LONGEST = 1000
"""Steps, the most that a workflow has."""
DATABASE = "MAINSPRING_FLOWS_DATABASE"

Steps = list[dict[str, Any]]


def step(name: str, *after: str) -> dict[str, Any]:
    return {"name": name, "function": "noop", "after": list(after)}


FIVE = [
    step("begin"),
    *(step(f"part_{one}", "begin") for one in "abc"),
    step("end", "part_a", "part_b", "part_c"),
]
CHAIN = [step("s0"), *(step(f"s{place}", f"s{place - 1}") for place in range(1, LONGEST))]
_SIBLINGS = [f"part_{place}" for place in range(LONGEST - 2)]
JOIN = [step("begin"), *(step(name, "begin") for name in _SIBLINGS), step("end", *_SIBLINGS)]


@asynccontextmanager
async def running(location: str) -> AsyncIterator[Engine]:
    """Run everything in this process, and on PostgreSQL a second node and worker in another one."""
    registry, settings = noop_registry(), settings_for(location, slots=SLOTS)
    async with open_engine(settings, registry=registry) as engine:
        other = None
        if location.startswith("postgresql"):
            command = [sys.executable, "-m", "benchmarks.flows", "--work"]
            other = subprocess.Popen(command, env=os.environ | {DATABASE: location})
            while len({lease.node_id for lease in await engine.store.read_shards()}) < 2:
                await asyncio.sleep(0.05)
        try:
            async with run_embedded_worker(engine, settings, registry):
                yield engine
        finally:
            if other is not None:
                other.kill()
                other.wait()


async def work(location: str) -> None:
    """Be a worker straight on the store, and a node, until killed."""
    registry, settings = noop_registry(), settings_for(location, slots=SLOTS)
    async with open_engine(settings, registry=registry) as engine:
        await make_worker(engine.gateway, settings, registry, telemetry=engine.telemetry).start()
        await asyncio.Event().wait()


async def add_workflow(engine: Engine, name: str, steps: Steps) -> JobId:
    """Define a workflow."""
    job = await engine.client.jobs.create("default", {"name": name, "workflow": {"steps": steps}})
    return job.id


async def submit(engine: Engine, job: JobId, count: int) -> list[RunId]:
    """Submit runs of a job in one transaction."""
    results = await engine.client.runs.submit_many("default", [Submission(job_id=job)] * count)
    return [result.run_id for result in results if result.run_id is not None]


async def wait_for(engine: Engine, runs: Sequence[RunId]) -> None:
    """Wait until runs have ended. A few are looked at a time, from the last one on: looks cost what is measured.

    Raises:
        RuntimeError: they do not, or one has not succeeded.
    """
    deadline = time.monotonic() + PATIENCE
    waiting = list(runs)
    while waiting:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{len(waiting)} of {len(runs)} workflows have not ended")
        looked_at = waiting[-LOOK:]
        found = await engine.store.get_runs(looked_at)
        for run in found:
            if run is not None and run.state in {RunState.FAILED, RunState.CANCELLED, RunState.SKIPPED}:
                raise RuntimeError(f"a workflow ended {run.state}: {run.error}")
        is_open = [run is None or run.state is not RunState.SUCCEEDED for run in found]
        waiting[-LOOK:] = [one for one, still in zip(looked_at, is_open, strict=True) if still]
        await asyncio.sleep(0.02 if any(is_open) else 0)


async def offer(engine: Engine, job: JobId, rate: int, seconds: float) -> tuple[list[RunId], float]:
    """Submit so many workflows a second, and return them, and how far the submitter fell behind."""
    runs: list[RunId] = []
    begun = time.perf_counter()
    behind = 0.0
    for tick in range(round(seconds / TICK)):
        due = begun + tick * TICK
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        behind = max(behind, time.perf_counter() - due)
        runs += await submit(engine, job, round(rate * TICK))
    return runs, behind


async def read_hops(engine: Engine, flows: Sequence[RunId], steps: Steps) -> list[float]:
    """Return the ms from the end of the last parent to the start of each step, sorted, of some of these flows."""
    places = {one["name"]: place for place, one in enumerate(steps)}
    parents = [[places[name] for name in one["after"]] for one in steps]
    hops: list[float] = []
    for flow in random.Random(1).sample(list(flows), min(SAMPLE, len(flows))):
        found: dict[int, Run] = {}
        after: RunId | None = None
        while page := await engine.store.list_flow_runs(flow, after=after, limit=500):
            found |= {run.place.step: run for run in page if run.place is not None}
            after = page[-1].id
        for place, named in enumerate(parents):
            ends = [found[parent].finished_at for parent in named]
            start = found[place].started_at
            if named and start is not None:
                hops.append((start - max(end for end in ends if end is not None)).total_seconds() * 1000)
    return sorted(hops)


async def measure_offered(location: str, where: str, rate: int, seconds: float) -> list[Row]:
    """Offer workflows at a rate; tell what rate they end at, and how long their hops take."""
    async with running(location) as engine:
        job = await add_workflow(engine, "five", FIVE)
        await wait_for(engine, await submit(engine, job, 10))  # warm-up
        begun = time.perf_counter()
        runs, behind = await offer(engine, job, rate, seconds)
        await wait_for(engine, runs)
        taken = time.perf_counter() - begun
        hops = await read_hops(engine, runs, FIVE)
    name = f"workflows of 5 steps, {rate:,} a second offered"
    return [
        {
            "name": f"{name}, {where}",
            "value": round(len(runs) / max(taken, seconds)),
            "unit": "workflows/s",
            "detail": {
                "workflows": len(runs),
                "submitter behind, ms": round(behind * 1000),
                "ended after the last submit, s": round(max(0.0, taken - seconds), 2),
            },
        },
        {
            "name": f"hop to the next step at that rate, p99, {where}",
            "value": round(hops[int(len(hops) * 0.99)], 1),
            "unit": "ms",
            "detail": {"p50": round(hops[len(hops) // 2], 1), "max": round(hops[-1], 1), "hops": len(hops)},
        },
    ]


async def measure_drained(location: str, where: str, count: int) -> list[Row]:
    """Have workflows come to their ends that were submitted at once; beside them the same number of plain runs."""
    async with running(location) as engine:
        job = await add_workflow(engine, "five", FIVE)
        flows = await _rate_of(engine, job, count)
        plain = await engine.client.jobs.create("default", {"name": "plain", "function": "noop"})
        runs = await _rate_of(engine, plain.id, count * len(FIVE))
    return [
        {
            "name": f"workflows of 5 steps, start to end, {where}",
            "value": round(flows),
            "unit": "workflows/s",
            "detail": {
                "plain runs/s": round(runs),
                "steps/s of plain runs/s": round(flows * len(FIVE) / runs, 2),
            },
        }
    ]


async def _rate_of(engine: Engine, job: JobId, count: int) -> float:
    begun = time.perf_counter()
    runs = [one for _ in range(count // 500) for one in await submit(engine, job, 500)]
    await wait_for(engine, runs)
    return count / (time.perf_counter() - begun)


async def measure_chain(location: str, where: str, length: int) -> list[Row]:
    """Have one workflow of many steps come to its end, one step after the other."""
    async with running(location) as engine:
        job = await add_workflow(engine, "chain", CHAIN[:length])
        begun = time.perf_counter()
        runs = await submit(engine, job, 1)
        await wait_for(engine, runs)
        taken = time.perf_counter() - begun
        hops = await read_hops(engine, runs, CHAIN[:length])
    return [
        {
            "name": f"chain of {length:,} steps, {where}",
            "value": round(taken, 2),
            "unit": "s",
            "detail": {"hop p50, ms": round(hops[len(hops) // 2], 2), "hop max, ms": round(hops[-1], 2)},
        }
    ]


async def measure_joins(location: str, where: str, count: int) -> list[Row]:
    """Have steps end together that one waits for; beside them the same number of plain runs."""
    async with running(location) as engine:
        job = await add_workflow(engine, "join", JOIN)
        plain = await engine.client.jobs.create("default", {"name": "plain", "function": "noop"})
        rates: dict[str, list[float]] = {"joined": [], "plain": []}
        for _ in range(count):
            begun = time.perf_counter()
            await wait_for(engine, await submit(engine, job, 1))
            rates["joined"].append(LONGEST / (time.perf_counter() - begun))
            begun = time.perf_counter()
            await wait_for(engine, await submit(engine, plain.id, LONGEST))
            rates["plain"].append(LONGEST / (time.perf_counter() - begun))
    middle = {name: sorted(found)[len(found) // 2] for name, found in rates.items()}
    return [
        {
            "name": f"steps that one waits for, of plain runs, {where}",
            "value": round(middle["joined"] / middle["plain"], 2),
            "unit": "of plain",
            "detail": {f"{name}, runs/s": [round(rate) for rate in found] for name, found in rates.items()},
        }
    ]


Measure = Callable[[str, str], Awaitable[list[Row]]]


def parts_of(quick: bool, rate: int, seconds: float) -> dict[str, Measure]:
    """Return what is measured, by name."""
    return {
        "offered": lambda location, where: measure_offered(location, where, rate, seconds),
        "drained": lambda location, where: measure_drained(location, where, 1000 if quick else 10_000),
        "chain": lambda location, where: measure_chain(location, where, 200 if quick else LONGEST),
        "joins": lambda location, where: measure_joins(location, where, 1 if quick else 9),
    }


async def measure(parts: Sequence[Measure], dsn: str | None) -> list[Row]:
    rows: list[Row] = []
    for part in parts:
        with tempfile.TemporaryDirectory() as folder:
            rows += await part(f"sqlite://{Path(folder) / 'data'}", "SQLite")
        if dsn is not None:
            async with fresh_database(dsn) as database:
                rows += await part(database, "PostgreSQL, 2 processes")
    return rows


def run(quick: bool, dsn: str | None = None) -> list[Row]:
    """Measure everything; PostgreSQL only where a server's base DSN (without a database) is given."""
    prepare_process()
    parts = parts_of(quick, 100 if quick else 1000, 5.0 if quick else 60.0)
    return uvloop.run(measure(list(parts.values()), dsn))


def main() -> None:
    names = list(parts_of(quick=True, rate=0, seconds=0))
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flows", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*names, []], help="all by default")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rate", type=int, default=1000, help="workflows a second that are offered")
    parser.add_argument("--seconds", type=float, default=60.0, help="for how long")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    prepare_process()
    if options.work:
        uvloop.run(work(os.environ[DATABASE]))
        return
    chosen = parts_of(options.quick, options.rate, options.seconds)
    parts = [chosen[name] for name in options.parts or names]
    rows = uvloop.run(measure(parts, os.environ.get("MAINSPRING_TEST_POSTGRES")))
    publish("flows", rows, is_kept=not options.quick and not options.parts)


if __name__ == "__main__":
    main()
