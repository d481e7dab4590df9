"""Three customers share a worker: one submits 100,000 runs, and the others' runs start all the same.

Real processes, as a user starts them: `mainspring server`, on SQLite or PostgreSQL, and `mainspring worker --server`
with four slots; a run takes 20 ms. Once the flood of the first customer is being carried out, the two others submit a
run each, some times. What counts is how long theirs wait, by the store's clock.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.engine import fresh_database
from benchmarks.idle import run_servers
from benchmarks.report import Row, publish
from mainspring import App
from mainspring.sdk.client import AsyncClient
from mainspring.wire.run_detail import RunDetail

FLOOD = 100_000
CHUNK = 1000
SLOTS = 4
TAKES = 0.02
TRIALS = 20
PATIENCE = 60.0
OTHERS = ("books", "flowers")

app = App()


@app.job()
async def pack() -> None:
    await asyncio.sleep(TAKES)


@asynccontextmanager
async def worker(address: str) -> AsyncIterator[None]:
    """Run a worker until the block ends."""
    command = [sys.executable, "-m", "mainspring", "worker", "benchmarks.shop:app", "--server", address]
    process = subprocess.Popen([*command, "--slots", str(SLOTS)], stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.wait, 40)


async def _until_a_worker_is_there(client: AsyncClient) -> None:
    async with asyncio.timeout(PATIENCE):
        while not (await client.list_workers()).items:
            await asyncio.sleep(0.1)


async def make_job(client: AsyncClient) -> str:
    job = await client.create_job({"name": "pack", "function": "pack"})
    return job.job_id


async def _ended(client: AsyncClient, run_id: str) -> RunDetail:
    """Return a run once it has ended."""
    async with asyncio.timeout(PATIENCE):
        while True:
            run = await client.get_run(run_id)
            if run.finished_at is not None:
                return run
            await asyncio.sleep(0.02)


async def trial(dsn: str, flood: int) -> tuple[list[float], int, str]:
    """Return the waits of the others in ms, how much of the flood was left then, and what `why` says of it."""
    async with (
        run_servers(dsn, 1) as (_, [address]),
        worker(address),
        AsyncClient(address, tenant="toys") as flooding,
        AsyncClient(address, tenant=OTHERS[0]) as first,
        AsyncClient(address, tenant=OTHERS[1]) as second,
    ):
        await _until_a_worker_is_there(flooding)
        job_id = await make_job(flooding)
        run_ids: list[str] = []
        for _ in range(flood // CHUNK):
            found = await flooding.submit_runs([{"job_id": job_id}] * CHUNK)
            run_ids += [one.run_id for one in found if one.run_id is not None]
        others = [(client, await make_job(client)) for client in (first, second)]
        waits: list[float] = []
        await _ended(flooding, run_ids[0])
        for _ in range(TRIALS):
            submitted = [(client, (await client.submit_run(job)).run_id) for client, job in others]
            for client, run_id in submitted:
                lag = (await _ended(client, run_id)).lag_ms
                assert lag is not None
                waits.append(lag)
        why = await flooding.get_run_why(run_ids[-1])
        left = (await flooding.count_runs()).PENDING
        return waits, left, why.sentence


async def measure(flood: int) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        async with fresh_database(os.environ["MAINSPRING_TEST_POSTGRES"]) as postgres:
            for store, dsn in (("SQLite", f"sqlite:///{folder}/data"), ("PostgreSQL", postgres)):
                waits, left, sentence = await trial(dsn, flood)
                rows.append(
                    {
                        "name": f"{store}: a run beside {flood:,} of another customer starts after",
                        "value": round(max(waits), 1),
                        "unit": "ms, the longest wait",
                        "detail": {
                            "runs": len(waits),
                            "median, ms": round(statistics.median(waits), 1),
                            "of the flood still waiting": left,
                            "why of its last run": sentence,
                        },
                    }
                )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shop", description=__doc__)
    parser.add_argument("--flood", type=int, default=FLOOD, help="runs of the first customer")
    publish("shop", asyncio.run(measure(parser.parse_args().flood)))


if __name__ == "__main__":
    main()
