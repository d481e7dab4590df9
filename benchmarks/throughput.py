"""Executed no-op jobs a second on PostgreSQL: two worker processes straight on the store drain what was loaded before.

Ours and, where asked, the peers in turn, so that whatever changes on the machine meets all of them. The clock runs from
the first job's beginning (starting a process is left out) until the store itself has no unfinished job. Ours keeps
each run's history and everything else that a run has in normal use; the peers delete what is done.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import asyncpg

from benchmarks.engine import fresh_database, vacuum
from benchmarks.peers import Contestant, find_contestants

Row = dict[str, Any]
WORKERS = 2
PATIENCE = 180.0


async def drain(contestant: Contestant, dsn: str, count: int) -> float:
    """Return jobs a second."""
    async with fresh_database(dsn) as database:
        await asyncio.to_thread(contestant.call, database, "prepare")
        await asyncio.to_thread(contestant.call, database, "load", str(count))
        await vacuum(database)
        with tempfile.TemporaryDirectory() as folder:
            workers = [contestant.start_worker(database, Path(folder)) for _ in range(WORKERS)]
            try:
                return count / await _time_drain(contestant, database, Path(folder))
            finally:
                for worker in workers:
                    _end(worker)


async def _time_drain(contestant: Contestant, database: str, folder: Path) -> float:
    deadline = time.monotonic() + PATIENCE
    connection = await asyncpg.connect(database)
    try:
        while not any(folder.iterdir()) or await connection.fetchval(contestant.remaining):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{contestant.name} did not come to an end")
            await asyncio.sleep(0.05)  # a look walks what was deleted, at the expense of what is measured
        ended_at = time.time()
    finally:
        await connection.close()
    return ended_at - min(path.stat().st_ctime for path in folder.iterdir())


def _end(worker: subprocess.Popen[bytes]) -> None:
    os.killpg(worker.pid, signal.SIGTERM)
    try:
        worker.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


async def measure(quick: bool, dsn: str, *, rounds: int, with_peers: bool) -> list[Row]:
    count = 20_000 if quick else 100_000
    contestants = find_contestants(with_peers=with_peers)
    found: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    for _ in range(rounds):
        for contestant in contestants:
            found[contestant.name].append(await drain(contestant, dsn, count))
    rows: list[Row] = []
    for name, rates in found.items():
        spread = f"[{min(rates):,.0f}-{max(rates):,.0f}]"
        title = f"no-op jobs executed, {WORKERS} workers on PostgreSQL, {name} {spread}"
        rows.append({"name": title, "value": round(statistics.median(rates)), "unit": "jobs/s"})
    return rows


def run(quick: bool, dsn: str | None = None) -> list[Row]:
    """Measure ours alone, once."""
    return [] if dsn is None else asyncio.run(measure(quick, dsn, rounds=1, with_peers=False))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--alone", action="store_true", help="without the peers")
    options = parser.parse_args()
    dsn = os.environ["MAINSPRING_TEST_POSTGRES"]
    rows = asyncio.run(measure(options.quick, dsn, rounds=options.rounds, with_peers=not options.alone))
    for row in rows:
        print(f"{row['name']:<100} {row['value']:>12,} {row['unit']}")


if __name__ == "__main__":
    main()
