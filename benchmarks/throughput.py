"""Executed no-op jobs a second on PostgreSQL: two worker processes straight on the store drain what was loaded before.

Ours and, where asked, the peers in turn, so that whatever changes on the machine meets all of them. The clock runs from
the first job's beginning (starting a process is left out) until the store itself has no unfinished job. Ours keeps
each run's history and everything else that a run has in normal use; graphile-worker, procrastinate, db-scheduler and
Quartz delete what is done, pgqueuer logs each step of a job, River and pg-boss keep it. A bare loop of our own
statements tells what the worker adds.
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
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from benchmarks.aims import DRAIN
from benchmarks.engine import CHUNK, check_succeeded, fresh_database, vacuum
from benchmarks.peers import Contestant, find_contestants
from benchmarks.peers.contestants import BARE, OURS
from benchmarks.report import Row, publish

WORKERS = 2
PATIENCE = 180.0


@dataclass(frozen=True, slots=True)
class Drained:
    """What a drain took.

    Attributes:
        rate: jobs a second.
        wal: bytes of write-ahead log for each job.
        commits: transactions for each thousand jobs, those of the workers' looks included.
    """

    rate: float
    wal: float
    commits: float


async def drain(contestant: Contestant, dsn: str, count: int) -> Drained:
    """Load so many jobs and have them carried out."""
    async with fresh_database(dsn) as database:
        await asyncio.to_thread(contestant.call, database, "prepare")
        await asyncio.to_thread(contestant.call, database, "load", str(count))
        await vacuum(database)
        before = await _read_counters(database)
        with tempfile.TemporaryDirectory() as folder:
            workers = [contestant.start_worker(database, Path(folder)) for _ in range(WORKERS)]
            try:
                seconds, looks = await _time_drain(contestant, database, Path(folder))
            finally:
                for worker in workers:
                    _end(worker)
        after = await _read_counters(database)
        if contestant in (OURS, BARE):
            await check_succeeded(database, count)
        commits = after[1] - before[1] - looks
        return Drained(count / seconds, (after[0] - before[0]) / count, commits / count * 1000)


async def _read_counters(database: str) -> tuple[int, int]:
    """Return bytes of write-ahead log and transactions so far; connections tell when they end."""
    connection = await asyncpg.connect(database)
    wal = await connection.fetchval("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
    commits = await connection.fetchval(
        "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
    )
    await connection.close()
    return int(wal), int(commits)


async def _time_drain(contestant: Contestant, database: str, folder: Path) -> tuple[float, int]:
    """Return the seconds from the first job to the last, and how often this looked."""
    deadline = time.monotonic() + PATIENCE
    connection = await asyncpg.connect(database)
    looks = 0
    try:
        while not any(folder.iterdir()) or await connection.fetchval(contestant.remaining):
            looks += 1
            if time.monotonic() > deadline:
                raise RuntimeError(f"{contestant.name} did not come to an end")
            await asyncio.sleep(0.05)  # a look walks what was deleted, at the expense of what is measured
        ended_at = time.time()
    finally:
        await connection.close()
    return ended_at - min(path.stat().st_ctime for path in folder.iterdir()), looks


def _end(worker: subprocess.Popen[bytes]) -> None:
    os.killpg(worker.pid, signal.SIGTERM)
    try:
        worker.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


@asynccontextmanager
async def slow_commits(dsn: str, milliseconds: float) -> AsyncIterator[None]:
    """Have each flush of the log wait, as a common cloud disk would; those that come meanwhile go with the next one."""
    connection = await asyncpg.connect(f"{dsn}/postgres")

    async def set_up(*statements: str) -> None:
        for statement in (*statements, "SELECT pg_reload_conf()"):
            await connection.execute(statement)

    if milliseconds:
        await set_up(
            f"ALTER SYSTEM SET commit_delay = {round(milliseconds * 1000)}",
            "ALTER SYSTEM SET commit_siblings = 0",
        )
    try:
        yield
    finally:
        if milliseconds:
            await set_up("ALTER SYSTEM RESET commit_delay", "ALTER SYSTEM RESET commit_siblings")
        await connection.close()


async def measure(
    quick: bool, dsn: str, *, rounds: int, with_peers: bool, commit_delay: float = 0
) -> list[Row]:
    count = 20_000 if quick else 100_000
    contestants = find_contestants(with_peers=with_peers)
    if with_peers:
        contestants.insert(1, BARE)
    found: dict[str, list[Drained]] = {contestant.name: [] for contestant in contestants}
    async with slow_commits(dsn, commit_delay):
        for _ in range(rounds):
            for contestant in contestants:
                mine = round(count * contestant.share / CHUNK) * CHUNK
                found[contestant.name].append(await drain(contestant, dsn, mine))
    title = f"{DRAIN}, commits of {commit_delay:g} ms" if commit_delay else DRAIN
    return [make_row(title, name, drains) for name, drains in found.items()]


def make_row(title: str, contestant: str, drains: Sequence[Drained]) -> Row:
    rates = [round(drained.rate) for drained in drains]
    return {
        "name": title,
        "contestant": contestant,
        "value": round(statistics.median(rates)),
        "low": min(rates),
        "high": max(rates),
        "unit": "jobs/s",
        "detail": {
            "write-ahead log, bytes a job": round(statistics.median(drained.wal for drained in drains)),
            "commits per 1,000 jobs": round(statistics.median(drained.commits for drained in drains), 1),
        },
    }


def run(quick: bool, dsn: str | None = None) -> list[Row]:
    """Measure ours alone, once."""
    return [] if dsn is None else asyncio.run(measure(quick, dsn, rounds=1, with_peers=False))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--alone", action="store_true", help="without the peers")
    parser.add_argument(
        "--commit-delay", type=float, default=0, help="milliseconds that each flush of the log waits"
    )
    options = parser.parse_args()
    rows = asyncio.run(
        measure(
            options.quick,
            os.environ["MAINSPRING_TEST_POSTGRES"],
            rounds=options.rounds,
            with_peers=not options.alone,
            commit_delay=options.commit_delay,
        )
    )
    publish(
        "throughput" if not options.commit_delay else "throughput, slow commits",
        rows,
        is_kept=not options.quick,
    )


if __name__ == "__main__":
    main()
