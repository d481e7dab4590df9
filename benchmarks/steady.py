"""No-op jobs a second in steady state: a feeder keeps a backlog while two workers carry out, for minutes.

Ours and the peers that are fast enough, in turn, each on a fresh database. Autovacuum does its work, and a checkpoint
is asked for in the middle; so what a queue leaves behind is cleared at its own expense. What counts is the jobs begun
in the time after a warm-up, as the workers note them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path

import asyncpg

from benchmarks.aims import STEADY
from benchmarks.engine import fresh_database
from benchmarks.peers import Contestant, find_contestants
from benchmarks.peers.contestants import end
from benchmarks.peers.notes import count_jobs
from benchmarks.report import Row, publish

WORKERS = 2
BACKLOG = 20_000
WARM_UP = 5.0
PATIENCE = 60.0
WINDOW = 10.0


async def work_steadily(contestant: Contestant, dsn: str, seconds: float) -> list[float]:
    """Return jobs a second of each window of the time."""
    async with fresh_database(dsn) as database:
        await asyncio.to_thread(contestant.call, database, "prepare")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            told = str(seconds + WARM_UP + PATIENCE)
            processes = [contestant.start(database, folder, "feed", str(BACKLOG), told)]
            processes += [contestant.start_worker(database, folder) for _ in range(WORKERS)]
            try:
                return await _watch(dsn, folder, seconds)
            finally:
                for process in processes:
                    await asyncio.to_thread(end, process)


async def _watch(dsn: str, folder: Path, seconds: float) -> list[float]:
    deadline = time.monotonic() + PATIENCE
    while not count_jobs(folder):
        if time.monotonic() > deadline:
            raise RuntimeError("no worker began")
        await asyncio.sleep(0.05)
    await asyncio.sleep(WARM_UP)
    windows = max(round(seconds / WINDOW), 1)
    rates = []
    checkpoint = asyncio.create_task(_checkpoint(dsn, after=seconds / 2))
    for _ in range(windows):
        before, began = count_jobs(folder), time.monotonic()
        await asyncio.sleep(seconds / windows)
        rates.append((count_jobs(folder) - before) / (time.monotonic() - began))
    await checkpoint
    return rates


async def _checkpoint(dsn: str, *, after: float) -> None:
    await asyncio.sleep(after)
    connection = await asyncpg.connect(f"{dsn}/postgres")
    await connection.execute("CHECKPOINT")
    await connection.close()


async def measure(dsn: str, *, seconds: float, with_peers: bool) -> list[Row]:
    rows = []
    for contestant in find_contestants(with_peers=with_peers):
        if contestant.share < 1:
            continue  # the slow ones have no steady state worth minutes
        rates = await work_steadily(contestant, dsn, seconds)
        row = {
            "name": STEADY,
            "contestant": contestant.name,
            "value": round(sum(rates) / len(rates)),
            "low": round(min(rates)),
            "high": round(max(rates)),
            "unit": "jobs/s",
            "detail": {"seconds, after the warm-up": round(seconds), "windows": len(rates)},
        }
        rows.append(row)
    return rows


def run(quick: bool, dsn: str | None = None) -> list[Row]:
    """Measure ours alone, for a few seconds."""
    return [] if dsn is None else asyncio.run(measure(dsn, seconds=5 if quick else 20, with_peers=False))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steady", description=__doc__)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--alone", action="store_true", help="without the peers")
    options = parser.parse_args()
    dsn = os.environ["MAINSPRING_TEST_POSTGRES"]
    publish("steady", asyncio.run(measure(dsn, seconds=options.seconds, with_peers=not options.alone)))


if __name__ == "__main__":
    main()
