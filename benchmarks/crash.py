"""Seconds from the SIGKILL of a worker until the run that it held starts again.

A job of 30 s is begun; two seconds later all of the worker's processes are killed at once and the worker is started
again. Ours is `mainspring worker --store` beside a `mainspring server --no-api`, which goes on; once with default
settings and once with a fast heartbeat (`--beat-period 0.5`) on both. Most other queues never run such a job again.
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
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.engine import fresh_database
from benchmarks.peers import Contestant, find_contestants
from benchmarks.peers.contestants import OURS, end
from benchmarks.peers.notes import STARTS
from benchmarks.report import Row, publish
from tests.chaos.peers.surroundings import ROOT

INTO_THE_JOB = 2.0
PATIENCE = 95.0
FAST = ("--beat-period", "0.5")


async def trial(contestant: Contestant, dsn: str, *options: str) -> float:
    """Return the seconds of one trial."""
    async with fresh_database(dsn) as database:
        await asyncio.to_thread(contestant.call, database, "prepare")
        with tempfile.TemporaryDirectory() as folder, _scheduler(contestant, database, options):
            notes = Path(folder)
            worker = contestant.start_worker(database, notes, "crash", *options)
            try:
                await asyncio.to_thread(contestant.call, database, "hold")
                (began,) = await asyncio.to_thread(read_starts, notes, 1)
                time.sleep(max(began + INTO_THE_JOB - time.time(), 0))
                os.killpg(worker.pid, signal.SIGKILL)
                killed_at = time.time()
                worker.wait()
                worker = contestant.start_worker(database, notes, "crash", *options)
                _, again = await asyncio.to_thread(read_starts, notes, 2)
                return again - killed_at
            finally:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()


@contextmanager
def _scheduler(contestant: Contestant, database: str, options: tuple[str, ...]) -> Iterator[None]:
    """Run what ours has beside its workers."""
    if contestant is not OURS:
        yield
        return
    command = [sys.executable, "-m", "mainspring", "server", "--no-api", "--store", database, *options]
    server = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield
    finally:
        end(server)


def read_starts(notes: Path, count: int) -> list[float]:
    """Wait for so many starts of the job and return their instants."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        path = notes / STARTS
        starts = path.read_text().split() if path.exists() else []
        if len(starts) >= count:
            return [float(start) for start in starts]
        time.sleep(0.02)
    raise RuntimeError(f"the job had not started {count} times after {PATIENCE:.0f} s")


async def measure(dsn: str, *, rounds: int, with_peers: bool, quick: bool = False) -> list[Row]:
    setups: list[tuple[str, Contestant, tuple[str, ...]]] = [("fast heartbeat", OURS, FAST)]
    if not quick:
        setups.append(("default settings", OURS, ()))
    if with_peers:
        (pgqueuer,) = (one for one in find_contestants(with_peers=True) if one.name.startswith("pgqueuer"))
        setups.append(("default settings", pgqueuer, ()))
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        for how, contestant, options in setups:
            seconds = await trial(contestant, dsn, *options)
            found.setdefault((how, contestant.name.partition(",")[0]), []).append(seconds)
    return [
        {
            "name": f"run of a killed worker starts again, {how}",
            "contestant": name,
            "value": round(statistics.median(figures), 2),
            "unit": "s",
            "low": round(min(figures), 2),
            "high": round(max(figures), 2),
        }
        for (how, name), figures in found.items()
    ]


def run(quick: bool, dsn: str | None = None) -> list[Row]:
    """Measure ours alone, once."""
    return [] if dsn is None else asyncio.run(measure(dsn, rounds=1, with_peers=False, quick=quick))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crash", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="only the fast heartbeat")
    parser.add_argument("--alone", action="store_true", help="without the peers")
    options = parser.parse_args()
    dsn = os.environ["MAINSPRING_TEST_POSTGRES"]
    rows = asyncio.run(measure(dsn, rounds=options.rounds, with_peers=not options.alone, quick=options.quick))
    publish("crash", rows, is_kept=not options.quick)


if __name__ == "__main__":
    main()
