"""Idle pick-up: ms from the begin of the call that submits a job to the job's first line, by workers that wait.

One producer process submits jobs 20 ms apart, after some for warming up; each carries the instant (the host's clock) at
which its submission began, and its first line writes down how long ago that was. On PostgreSQL two worker processes
wait, each in a process of its own: ours as `mainspring worker --store` starts it, straight on the store as the producer
is. "Embedded" is one process, as `mainspring up` is: ours, on either store; huey's consumer is a process beside the
producer, and polls each 10 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

import uvloop

from benchmarks.engine import fresh_database, settings_for
from benchmarks.peers import Contestant, find_contestants
from benchmarks.peers.contestants import end, huey
from benchmarks.peers.notes import NOTES, STAMPS
from benchmarks.report import Row, publish

WORKERS = 2
WARM_UP = 20
GAP = "0.02"
BOOT = 3.0
PATIENCE = 20.0
SLOW = ("pg-boss", "db-scheduler", "Quartz")
"""They look at intervals, the last once in seconds, and nobody waits for them here."""
HUEY = ("-k", "process", "-w", "2", "-d", "0.01", "-m", "0.01")


async def on_postgres(contestant: Contestant, dsn: str, count: int) -> list[float]:
    """Return the ms of each job, in order of their starts."""
    async with fresh_database(dsn) as database:
        await asyncio.to_thread(contestant.call, database, "prepare")
        with tempfile.TemporaryDirectory() as folder:
            workers = [contestant.start_worker(database, Path(folder), "idle") for _ in range(WORKERS)]
            try:
                await asyncio.sleep(BOOT)
                await asyncio.to_thread(contestant.call, database, "ping", str(WARM_UP + count), GAP)
                return await asyncio.to_thread(read_stamps, Path(folder), count)
            finally:
                for worker in workers:
                    end(worker)


async def ours_on_sqlite(count: int) -> list[float]:
    """Return the same of ours on SQLite, with producer, scheduler and worker in this process."""
    with tempfile.TemporaryDirectory() as folder:
        return await ours_embedded(f"sqlite://{Path(folder) / 'data'}", count)


async def ours_in_one_process(dsn: str, count: int) -> list[float]:
    """Return the same of ours on PostgreSQL, with producer, scheduler and worker in this process."""
    async with fresh_database(dsn) as database:
        return await ours_embedded(database, count)


async def ours_embedded(location: str, count: int) -> list[float]:
    from benchmarks.peers import mainspring_jobs
    from mainspring.runtime import open_engine, run_embedded_worker

    with tempfile.TemporaryDirectory() as folder:
        os.environ[NOTES] = folder
        settings = settings_for(location, slots=10)
        registry = mainspring_jobs.app.registry
        async with (
            open_engine(settings, registry=registry) as engine,
            run_embedded_worker(engine, settings, registry),
        ):
            await mainspring_jobs.ping_from(engine, WARM_UP + count, float(GAP))
            return await asyncio.to_thread(read_stamps, Path(folder), count)


def huey_embedded(count: int) -> list[float]:
    """Return the same of huey on SQLite."""
    with tempfile.TemporaryDirectory() as folder:
        contestant, file = huey(), str(Path(folder) / "huey.db")
        worker = contestant.start_worker(file, Path(folder), *HUEY)
        try:
            time.sleep(BOOT)
            contestant.call(file, "ping", str(WARM_UP + count), GAP)
            return read_stamps(Path(folder), count)
        finally:
            end(worker)


def read_stamps(folder: Path, count: int) -> list[float]:
    """Wait until all jobs have begun; return the ms of those after the warm-up."""
    deadline = time.monotonic() + PATIENCE
    while True:
        path = folder / STAMPS
        stamps = path.read_text().split() if path.exists() else []
        if len(stamps) >= WARM_UP + count:
            return [float(stamp) for stamp in stamps[WARM_UP:]]
        if time.monotonic() > deadline:
            raise RuntimeError(f"{len(stamps)} of {WARM_UP + count} jobs began")
        time.sleep(0.05)


def measure(quick: bool, dsn: str | None, *, rounds: int, with_peers: bool) -> list[Row]:
    count = 50 if quick else 200
    found: dict[tuple[str, str], list[list[float]]] = {}
    for _ in range(rounds):
        if dsn is not None:
            for contestant in find_contestants(with_peers=with_peers):
                if not contestant.name.startswith(SLOW):
                    stamps = uvloop.run(on_postgres(contestant, dsn, count))
                    found.setdefault(("PostgreSQL", contestant.name), []).append(stamps)
            stamps = uvloop.run(ours_in_one_process(dsn, count))
            found.setdefault(("PostgreSQL embedded", "Mainspring"), []).append(stamps)
        found.setdefault(("SQLite embedded", "Mainspring"), []).append(uvloop.run(ours_on_sqlite(count)))
        if with_peers:
            found.setdefault(("SQLite embedded", "huey"), []).append(huey_embedded(count))
    return [row for (where, name), of_rounds in found.items() for row in _rows(where, name, of_rounds)]


def _rows(where: str, name: str, of_rounds: list[list[float]]) -> list[Row]:
    rows = []
    for title, part in (("p50", 0.5), ("p99", 0.99)):
        figures = [sorted(stamps)[int(len(stamps) * part)] for stamps in of_rounds]
        rows.append(
            {
                "name": f"idle pick-up {title}, {where}",
                "contestant": name.partition(",")[0],
                "value": round(statistics.median(figures), 2),
                "unit": "ms",
                "low": round(min(figures), 2),
                "high": round(max(figures), 2),
            }
        )
    return rows


def run(quick: bool, dsn: str | None = None) -> list[Row]:
    """Measure ours alone, once."""
    return measure(quick, dsn, rounds=1, with_peers=False)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pickup", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--alone", action="store_true", help="without the peers")
    options = parser.parse_args()
    dsn = os.environ.get("MAINSPRING_TEST_POSTGRES")
    rows = measure(options.quick, dsn, rounds=options.rounds, with_peers=not options.alone)
    publish("pickup", rows, is_kept=not options.quick)


if __name__ == "__main__":
    main()
