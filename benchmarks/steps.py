"""What a durable function pays for a step that is kept, and for a sleep.

The steps do nothing, so the time is that of keeping them: one after the other, and all at once with `asyncio.gather`.
The worker is within the engine's process, or it goes to `mainspring server` by HTTP on the same machine. A sleep of a
second ends the attempt; what it takes beyond the second is told: keeping it, the snooze, and the next claim.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from benchmarks.engine import fresh_database, settings_for
from benchmarks.idle import run_servers
from benchmarks.report import Row, publish
from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.telemetry import Telemetry
from mainspring.registry import FunctionRegistry
from mainspring.runtime import make_worker, open_engine
from mainspring.sdk.client import AsyncClient
from mainspring.sdk.durable import DurableContext, make_durable
from mainspring.sdk.http_gateway import HttpGateway

ROUNDS = 3
SLEEPS = 10
TENANT = "default"


async def nothing() -> None:
    """Do nothing."""


class Journeys:
    """A durable function that tells how long its steps took, and one that sleeps.

    Attributes:
        took: milliseconds for each step, by round.
        ended: set when a function has come to its end.
    """

    def __init__(self) -> None:
        self.took: list[float] = []
        self.ended = asyncio.Event()
        self.registry = FunctionRegistry()
        self.registry.add("walk", make_durable(self.walk))
        self.registry.add("doze", make_durable(self.doze))
        self.began = 0.0

    async def walk(self, ctx: DurableContext, steps: int, together: bool) -> None:
        """Take steps, one after the other or all at once."""
        begun = time.perf_counter()
        if together:
            await asyncio.gather(*(ctx.step("step", nothing) for _ in range(steps)))
        else:
            for _ in range(steps):
                await ctx.step("step", nothing)
        self.took.append((time.perf_counter() - begun) / steps * 1000)
        self.ended.set()

    async def doze(self, ctx: DurableContext, sleeps: int) -> None:
        """Sleep for a second, so many times."""
        self.began = self.began or time.perf_counter()
        for _ in range(sleeps):
            await ctx.sleep(1.0)
        self.took.append(((time.perf_counter() - self.began) / sleeps - 1) * 1000)
        self.began = 0.0
        self.ended.set()


@asynccontextmanager
async def store_of(kind: str) -> AsyncIterator[str]:
    """Yield the address of an empty store."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{Path(folder) / 'mainspring.db'}"
    else:
        async with fresh_database(os.environ["MAINSPRING_TEST_POSTGRES"]) as dsn:
            yield dsn


Submit = Callable[[str, dict[str, Any]], Awaitable[object]]


async def measure(kind: str, steps: int) -> list[Row]:
    """Measure with a worker within the engine, and with one by HTTP."""
    async with store_of(kind) as address:
        rows = await _measure_near(kind, address, steps)
    async with store_of(kind) as address:
        return rows + await _measure_far(kind, address, steps)


async def _measure_near(kind: str, address: str, steps: int) -> list[Row]:
    journeys, settings = Journeys(), settings_for(address, slots=2)
    async with open_engine(settings, registry=journeys.registry) as engine:
        jobs = {
            name: await engine.client.jobs.create(TENANT, {"name": name, "function": name})
            for name in ("walk", "doze")
        }

        async def submit(name: str, payload: dict[str, Any]) -> object:
            given = msgspec.json.encode(payload)
            one = Submission(job_id=jobs[name].id, payload=given)
            return await engine.client.runs.submit_many(TENANT, [one])

        worker = make_worker(
            engine.gateway, settings, journeys.registry, telemetry=engine.telemetry, name="near"
        )
        await worker.start()
        rows = await _travel(f"{kind}, worker within the engine", journeys, submit, steps)
        await worker.stop()
    return rows


async def _measure_far(kind: str, address: str, steps: int) -> list[Row]:
    journeys, settings = Journeys(), settings_for(address, slots=2)
    async with run_servers(address, 1) as (_, [server]), AsyncClient(server) as client:
        gateway = HttpGateway(server)
        await gateway.start()
        worker = make_worker(gateway, settings, journeys.registry, telemetry=Telemetry(), name="far")
        await worker.start()
        jobs = {
            name: (await client.create_job({"name": name, "function": name})).job_id
            for name in ("walk", "doze")
        }

        async def submit(name: str, payload: dict[str, Any]) -> object:
            return await client.submit_run(jobs[name], {"payload": payload})

        rows = await _travel(f"{kind}, worker by HTTP", journeys, submit, steps)
        await worker.stop()
        await gateway.close()
    return rows


async def _travel(where: str, journeys: Journeys, submit: Submit, steps: int) -> list[Row]:
    rows = []
    for name, job, payload in (
        ("a step, one after the other", "walk", {"steps": steps, "together": False}),
        ("a step, gathered", "walk", {"steps": steps, "together": True}),
        ("a sleep, beyond its time", "doze", {"sleeps": SLEEPS}),
    ):
        journeys.took.clear()
        for _ in range(ROUNDS):
            journeys.ended.clear()
            await submit(job, payload)
            await asyncio.wait_for(journeys.ended.wait(), 300)
        rounds = [round(value, 2) for value in journeys.took]
        value = round(statistics.median(rounds), 2)
        rows.append({"name": f"{where}, {name}", "value": value, "unit": "ms", "detail": {"rounds": rounds}})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps", description=__doc__)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--stores", nargs="+", default=["sqlite", "postgres"], choices=["sqlite", "postgres"])
    parser.add_argument("--look", action="store_true", help="print the figures alone")
    options = parser.parse_args()
    for kind in options.stores:
        publish(f"steps, {kind}", uvloop.run(measure(kind, options.steps)), is_kept=not options.look)


if __name__ == "__main__":
    main()
