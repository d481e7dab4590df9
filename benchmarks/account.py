"""What an idle pick-up is made of: the median time between each two steps, from the call to the job's first line.

Producer and workers are those of `benchmarks.pickup`, with a note of the host's clock at each step. A bare loop shows
what the two durable commits and the notification between them take by themselves, on the same server.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import asyncpg
import uvloop

from benchmarks.engine import fresh_database
from benchmarks.peers import Contestant
from benchmarks.peers.contestants import OURS, end
from benchmarks.peers.traced_jobs import MARKS
from benchmarks.pickup import BOOT, GAP, WARM_UP, WORKERS, read_stamps
from benchmarks.report import Row, publish

TRACED = Contestant(
    "Mainspring, traced",
    lambda: (*OURS.command()[:2], "benchmarks.peers.traced_jobs"),
    OURS.remaining,
)
STEPS = (
    "call",
    "submit_one sent",
    "submit_one answered",
    "hint wanted",
    "hint sent",
    "hint heard",
    "matcher wakes",
    "try_claim sent",
    "try_claim answered",
    "read_lanes sent",
    "read_lanes answered",
    "claim begins",
    "claim_runs sent",
    "claim_runs answered",
    "claim ends",
    "claim answered",
    "attempt begins",
    "first line",
)
"""In the order in which a pick-up reaches them. One that it does not reach is left out."""

Marks = list[tuple[str, float]]


async def trace(dsn: str, count: int, workers: int) -> list[Marks]:
    """Return the steps of each pick-up, in order, by the processes that took part in it."""
    async with fresh_database(dsn) as database:
        await asyncio.to_thread(OURS.call, database, "prepare")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            running = [TRACED.start_worker(database, folder, "idle") for _ in range(workers)]
            try:
                await asyncio.sleep(BOOT)
                producer = TRACED.start(database, folder, "ping", str(WARM_UP + count), GAP)
                await asyncio.to_thread(producer.wait)
                await asyncio.to_thread(read_stamps, folder, count)
            finally:
                for worker in running:
                    end(worker)
            kept = {
                path.name: [(step, at) for step, at in json.loads(path.read_text())]
                for path in folder.glob(f"*{MARKS}")
            }
    submitting = kept.pop(f"{producer.pid}{MARKS}")
    calls = [at for step, at in submitting if step == "call"][WARM_UP:]
    return [pick_up(submitting, list(kept.values()), at) for at in calls]


def pick_up(submitting: Marks, workers: list[Marks], called_at: float) -> Marks:
    """Return when each step of one pick-up was reached, by the producer and by the worker that got the run."""
    reached: dict[str, float] = {}
    for step, at in submitting:
        if called_at <= at < called_at + float(GAP):
            reached.setdefault(step, at)
    starts = [(at, marks) for marks in workers for step, at in marks if step == STEPS[-1] and at >= called_at]
    bound, marks = min(starts)
    # Backwards, because a worker also wakes for what it does not get.
    for step in reversed(STEPS[STEPS.index("hint heard") :]):
        found = [at for name, at in marks if name == step and called_at <= at <= bound]
        if found:
            reached[step] = bound = found[-1]
    return [(step, reached[step]) for step in STEPS if step in reached]


async def bare(dsn: str, count: int) -> list[float]:
    """Return the ms from a durable insert, by a notification after it, to the end of a durable update elsewhere."""
    async with fresh_database(dsn) as database:
        producer, hints, listener, worker = [await asyncpg.connect(database) for _ in range(4)]
        await producer.execute("CREATE TABLE job (id bigint PRIMARY KEY, state text NOT NULL)")
        await hints.execute("SET synchronous_commit = off")
        heard: asyncio.Queue[int] = asyncio.Queue()
        await listener.add_listener("bare", lambda *news: heard.put_nowait(int(news[-1])))
        insert = await producer.prepare("INSERT INTO job VALUES ($1, 'PENDING')")
        claim = await worker.prepare("UPDATE job SET state = 'RUNNING' WHERE id = $1 RETURNING id")
        found = []
        for number in range(WARM_UP + count):
            began = time.perf_counter()
            await insert.fetch(number)
            await hints.execute(f"NOTIFY bare, '{number}'")
            await claim.fetch(await heard.get())
            found.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(float(GAP))
        for connection in (producer, hints, listener, worker):
            await connection.close()
    return found[WARM_UP:]


def rows_of(traced: list[Marks], bare_ms: list[float], workers: int) -> list[Row]:
    """Return a row for each step: the median of what it took, since the step before."""
    steps: dict[str, list[float]] = {}
    whole = [(marks[-1][1] - marks[0][1]) * 1000 for marks in traced]
    for marks in traced:
        for (_, before), (step, at) in itertools.pairwise(marks):
            steps.setdefault(step, []).append((at - before) * 1000)
    title = f"idle pick-up, {workers} workers"
    rows: list[Row] = [
        {
            "name": f"{title}, until: {step}",
            "value": round(statistics.median(took), 3),
            "unit": "ms",
            "detail": {"pick-ups": len(took), "mean": round(statistics.fmean(took), 3)},
        }
        for step, took in sorted(steps.items(), key=lambda one: STEPS.index(one[0]))
    ]
    for name, values in (("the whole", whole), ("a bare loop", bare_ms)):
        rows.append({"name": f"{title}, {name}", "value": round(statistics.median(values), 3), "unit": "ms"})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.account", description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--workers", type=int, default=WORKERS)
    options = parser.parse_args()
    dsn = os.environ["MAINSPRING_TEST_POSTGRES"]
    bare_ms = uvloop.run(bare(dsn, options.count))
    publish(
        "account", rows_of(uvloop.run(trace(dsn, options.count, options.workers)), bare_ms, options.workers)
    )


if __name__ == "__main__":
    main()
