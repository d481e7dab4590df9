"""Runs a second of one worker, one by one and in batches, of a function that does nothing and of one that waits 10 ms.

The second stands for a call to another service, which takes as long for a hundred as for one. Engine and worker share a
process. The clock runs from the worker's start until all runs have been reported. Both ways take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.engine import CHUNK, fresh_database, settings_for
from benchmarks.report import Row, publish
from mainspring.engine.usecases.submissions import Submission
from mainspring.registry import FunctionRegistry
from mainspring.runtime import make_worker, open_engine
from mainspring.signals import Call

SIZE = 100
SLOTS = 10
ROUNDS = 3
KINDS = {"nothing": 0.0, "10 ms": 0.01}


class Counted:
    """A function that counts its runs, taken one by one or many at a time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.runs = 0

    async def single(self) -> None:
        if self.seconds:
            await asyncio.sleep(self.seconds)
        self.runs += 1

    async def gather(self, calls: list[Call]) -> None:
        if self.seconds:
            await asyncio.sleep(self.seconds)
        self.runs += len(calls)


@asynccontextmanager
async def store_of(kind: str) -> AsyncIterator[str]:
    """Yield the address of an empty store."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{Path(folder) / 'mainspring.db'}"
    else:
        async with fresh_database(os.environ["MAINSPRING_TEST_POSTGRES"]) as dsn:
            yield dsn


async def drain(kind: str, way: str, seconds: float, count: int) -> float:
    """Return how many runs a second come through."""
    counted, registry = Counted(seconds), FunctionRegistry()
    registry.add("single", counted.single)
    registry.add("gather", counted.gather)
    body: dict[str, Any] = {"name": "job", "function": way}
    if way == "gather":
        body["batch"] = {"size": SIZE, "wait": "1s"}
    async with store_of(kind) as address:
        settings = settings_for(address, slots=SLOTS)
        async with open_engine(settings, registry=registry) as engine:
            job = await engine.client.jobs.create("default", body)
            for start in range(0, count, CHUNK):
                runs = [Submission(job_id=job.id)] * min(CHUNK, count - start)
                await engine.client.runs.submit_many("default", runs)
            worker = make_worker(engine.gateway, settings, registry, telemetry=engine.telemetry, name="w")
            begun = time.monotonic()
            await worker.start()
            while counted.runs < count or worker.held:
                await asyncio.sleep(0.002)
            took = time.monotonic() - begun
            await worker.stop()
    return count / took


async def measure(kind: str, count: int) -> list[Row]:
    rows: list[Row] = []
    for name, seconds in KINDS.items():
        rates: dict[str, list[float]] = {"single": [], "gather": []}
        runs = count if not seconds else count // 5
        for _ in range(ROUNDS):
            for way, found in rates.items():
                found.append(await drain(kind, way, seconds, runs))
        for way, found in rates.items():
            rows.append(
                {
                    "name": f"{kind}, {name}, {'in batches of ' + str(SIZE) if way == 'gather' else 'one by one'}",
                    "value": round(statistics.median(found)),
                    "unit": "runs/s",
                    "detail": {"rounds": [round(rate) for rate in found], "slots": SLOTS},
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.batched", description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--stores", nargs="+", default=["sqlite", "postgres"], choices=["sqlite", "postgres"])
    options = parser.parse_args()
    for kind in options.stores:
        publish(f"batched, {kind}", uvloop.run(measure(kind, options.runs)))


if __name__ == "__main__":
    main()
