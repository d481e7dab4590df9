"""Limits on PostgreSQL: how fast runs come through under caps while workers are killed, and what plain work pays.

There are 200 keys with a cap of two. Worker processes stand straight on the store, and each is a scheduler node. The
one that is oldest is killed (SIGKILL, by its pid) every few seconds, and another one takes its place. Each run says
when it began and ended, by the machine's monotonic clock. So the runs of a key that overlapped are counted from what
was really done.

With `--queue N`, the runs have no limits, but their queue has a cap of N.

With `--beside`, plain runs are carried out in turn alone, beside 500,000 runs that wait under a rate, and beside as
many that have no limit and wait for their time. So one sees what limits cost, and what a large table does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import asyncpg
import uvloop

from benchmarks.engine import CHUNK, fresh_database, settings_for
from benchmarks.report import Row, publish
from mainspring.core.ids import JobId
from mainspring.engine.usecases.client import Client
from mainspring.engine.usecases.submissions import Submission
from mainspring.registry import FunctionRegistry
from mainspring.runtime import make_worker, open_engine

KEYS = 200
CAP = 2
SLOTS = 50
BEAT = timedelta(seconds=1)
"""So that the runs of a killed worker are started again soon."""
WAITING = 500_000
PLAIN = 100_000
ROUNDS = 3
LIMITED = f"under {KEYS} rates"
DELAYED = "for their time"
DATABASE = "MAINSPRING_CAPS_DATABASE"


async def work(customer: int = 0) -> tuple[int, float, float]:
    """Do next to nothing, and say when."""
    begun = time.monotonic()
    await asyncio.sleep(0)
    return customer, begun, time.monotonic()


def registry_of(*names: str) -> FunctionRegistry:
    registry = FunctionRegistry()
    for name in names:
        registry.add(name, work)
    return registry


async def submit(
    client: Client, job_id: JobId, count: int, *, keys: int = 0, delay: timedelta | None = None
) -> None:
    """Submit runs, those with keys one key after the other."""
    for start in range(0, count, CHUNK):
        places = range(start, min(start + CHUNK, count))
        payloads = [b'{"customer":%d}' % (place % keys) if keys else None for place in places]
        runs = [Submission(job_id=job_id, payload=one, delay=delay) for one in payloads]
        await client.runs.submit_many("default", runs)


def start_worker(dsn: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.caps", "--work"], env=os.environ | {DATABASE: dsn}
    )


async def serve(dsn: str) -> None:
    """Be a worker straight on the store, and a scheduler, until killed."""
    settings = replace(settings_for(dsn, slots=SLOTS), beat_period=BEAT)
    registry = registry_of("limited", "plain")
    async with open_engine(settings, registry=registry) as engine:
        worker = make_worker(
            engine.gateway, settings, registry, telemetry=engine.telemetry, name=f"w-{os.getpid()}"
        )
        await worker.start()
        await asyncio.Event().wait()


async def _until(connection: asyncpg.Connection[asyncpg.Record], job_id: JobId, count: int) -> None:
    while True:
        done = await connection.fetchval("SELECT count(*) FROM run_history WHERE job_id = $1", job_id)
        if done >= count:
            return
        await asyncio.sleep(0.1)


async def drain_under_caps(
    server: str, *, runs: int, workers: int, kill_every: float, queue: int | None = None
) -> list[Row]:
    """Return how fast runs come through under caps, and how many of a key, or of the queue, overlapped at most."""
    async with fresh_database(server) as dsn:
        registry = registry_of("limited")
        async with open_engine(settings_for(dsn, slots=0), registry=registry, with_scheduler=False) as engine:
            limit = {"key": "$.customer", "limit": CAP}
            limits = {"concurrency": limit} if queue is None else {}
            body = {"name": "limited", "function": "limited", **limits}
            job = await engine.client.jobs.create("default", body)
            await submit(engine.client, job.id, runs, keys=KEYS if queue is None else 1)
            if queue is not None:
                await engine.client.queues.put("default", {"max_running": queue})
        connection = await asyncpg.connect(dsn)
        await connection.execute("VACUUM ANALYZE")
        started = [start_worker(dsn) for _ in range(workers)]
        kills, begun = 0, time.monotonic()
        try:
            waiting = asyncio.ensure_future(_until(connection, job.id, runs))
            while not waiting.done():
                await asyncio.wait((waiting,), timeout=kill_every or None)
                if kill_every and not waiting.done():
                    started.append(start_worker(dsn))
                    oldest = started.pop(0)
                    oldest.send_signal(signal.SIGKILL)
                    oldest.wait()
                    kills += 1
            took = time.monotonic() - begun
            await waiting
        finally:
            for process in started:
                process.kill()
                process.wait()
        rows = await connection.fetch("SELECT convert_from(result, 'UTF8') AS result FROM run_history")
        void = await connection.fetchval("SELECT count(*) FROM key_hold")
        await connection.close()
    spans = [json.loads(row["result"]) for row in rows]
    first, last = min(one[1] for one in spans), max(one[2] for one in spans)
    return [
        {
            "name": f"runs under {KEYS} caps of {CAP}"
            if queue is None
            else f"runs of a queue with a cap of {queue}",
            "value": round(len(spans) / (last - first)),
            "unit": "runs/s",
            "detail": {
                "workers": workers,
                "killed": kills,
                "of a key, or the queue, at a time, at most": overlap(spans),
                "seconds with the start of the workers": round(took, 1),
                "places that do not count, at the end": void,
            },
        }
    ]


def overlap(spans: Sequence[tuple[int, float, float]]) -> int:
    """Return how many runs of one key were carried out at the same time, at most."""
    steps: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for key, begun, ended in spans:
        steps[key] += [(begun, 1), (ended, -1)]
    most = 0
    for found in steps.values():
        running = 0
        for _, step in sorted(found):
            running += step
            most = max(most, running)
    return most


async def plain_beside(server: str, *, waiting: int) -> list[Row]:
    """Return how fast plain runs come through beside many that wait, against how fast they do alone."""
    rates: dict[str, list[float]] = defaultdict(list)
    for _ in range(ROUNDS):
        for name, count in (("alone", 0), (LIMITED, waiting), (DELAYED, waiting)):
            rates[name].append(await _drain_plain(server, count, is_limited=name == LIMITED))
    middle = {name: statistics.median(found) for name, found in rates.items()}
    return [
        {
            "name": f"plain runs beside {waiting:,} that wait {name}",
            "value": round(middle[name] / middle["alone"], 3),
            "unit": "of alone",
            "detail": {f"{one}, runs/s": [round(rate) for rate in rates[one]] for one in ("alone", name)},
        }
        for name in (LIMITED, DELAYED)
    ]


async def _drain_plain(server: str, waiting: int, *, is_limited: bool) -> float:
    registry = registry_of("limited", "plain")
    async with fresh_database(server) as dsn:
        settings = settings_for(dsn, slots=SLOTS)
        async with open_engine(settings, registry=registry) as engine:
            limits = {"concurrency": {"key": "$.customer", "rate": "1/h"}} if is_limited else {}
            body = {"name": "limited", "function": "limited", **limits}
            job = await engine.client.jobs.create("default", body)
            delay = None if is_limited else timedelta(hours=1)
            await submit(engine.client, job.id, waiting, keys=KEYS, delay=delay)
            plain = await engine.client.jobs.create("default", {"name": "plain", "function": "plain"})
            await submit(engine.client, plain.id, PLAIN)
            connection = await asyncpg.connect(dsn)
            await connection.execute("VACUUM ANALYZE")
            worker = make_worker(engine.gateway, settings, registry, telemetry=engine.telemetry, name="w")
            begun = time.monotonic()
            await worker.start()
            await _until(connection, plain.id, PLAIN)
            took = time.monotonic() - begun
            await worker.stop()
            await connection.close()
    return PLAIN / took


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.caps", description=__doc__)
    parser.add_argument("--runs", type=int, default=50_000)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--kill-every", type=float, default=2.0, help="seconds; 0: none is killed")
    parser.add_argument("--queue", type=int, help="a cap of the queue, in place of limits")
    parser.add_argument("--beside", action="store_true", help="plain runs beside many that wait")
    parser.add_argument("--waiting", type=int, default=WAITING, help="with --beside: how many wait")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        uvloop.run(serve(os.environ[DATABASE]))
        return
    server = os.environ["MAINSPRING_TEST_POSTGRES"]
    if options.beside:
        publish("caps, beside", asyncio.run(plain_beside(server, waiting=options.waiting)))
        return
    rows = asyncio.run(
        drain_under_caps(
            server,
            runs=options.runs,
            workers=options.workers,
            kill_every=options.kill_every,
            queue=options.queue,
        )
    )
    publish("caps", rows)


if __name__ == "__main__":
    main()
