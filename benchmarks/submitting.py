"""Jobs submitted a second to PostgreSQL: in bulk, and one at a time by one caller and by 64 at once.

Ours straight on PostgreSQL and the peers in turn. Each figure is a producer process of its own that submits no-op jobs
for some seconds after it has connected: by the queue's bulk call in chunks of 1,000, or by its ordinary call in one
event loop, awaited one after another or with 64 under way. Nobody works meanwhile. Every call returns after its commit.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
from pathlib import Path

import asyncpg

from benchmarks.engine import fresh_database
from benchmarks.peers import Contestant, find_contestants
from benchmarks.report import Row, publish

TICKS = os.sysconf("SC_CLK_TCK")
KINDS = {
    "bulk submit, chunks of 1,000": ("1000", "1"),
    "single submit, one caller": ("1", "1"),
    "single submit, 64 at once": ("1", "64"),
}


async def submit(contestant: Contestant, dsn: str, chunk: str, at_once: str, seconds: float) -> Row:
    """Return jobs a second (`rate`), and of each job: processor time, bytes of WAL, commits."""
    async with fresh_database(dsn) as database:
        await asyncio.to_thread(contestant.call, database, "prepare")
        watcher = await asyncpg.connect(dsn + "/postgres")
        try:
            before = await _use(watcher, database)
            found = await asyncio.to_thread(contestant.ask, database, "submit", chunk, at_once, str(seconds))
            await asyncio.sleep(1.1)  # sessions tell what they did once a second, and at their end
            after = await _use(watcher, database)
        finally:
            await watcher.close()
    used, wal, commits = ((end - begin) / found["count"] for begin, end in zip(before, after, strict=True))
    return {**found, "postgres_us": 1e6 * used, "wal_bytes": wal, "commits": commits}


async def _use(watcher: asyncpg.Connection[asyncpg.Record], database: str) -> tuple[float, int, int]:
    """Return the seconds that PostgreSQL has used, its bytes of WAL, and the database's commits, so far."""
    backend = await watcher.fetchval("SELECT pg_backend_pid()")
    row = await watcher.fetchrow(
        "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint AS wal, xact_commit AS commits"
        " FROM pg_stat_database WHERE datname = $1",
        database.rpartition("/")[2],
    )
    assert row is not None
    return seconds_of_family(int(_stat(backend)[1])), row["wal"], row["commits"]


def seconds_of_family(parent: int) -> float:
    """Return the processor seconds of a process and its children, those that have ended included."""
    total = sum(map(int, _stat(parent)[11:15]))
    for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        try:
            total += sum(map(int, _stat(int(child))[11:13]))
        except FileNotFoundError:
            continue  # it has just ended: the parent's figure of the next time has it
    return total / TICKS


def _stat(pid: int) -> list[str]:
    """Return /proc/PID/stat from the state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


async def measure(
    dsn: str, *, rounds: int, seconds: float, with_peers: bool, kinds: dict[str, tuple[str, str]] = KINDS
) -> list[Row]:
    contestants = find_contestants(with_peers=with_peers)
    found: dict[tuple[str, str], list[Row]] = {}
    for _ in range(rounds):
        for kind, (chunk, at_once) in kinds.items():
            for contestant in contestants:
                one = await submit(contestant, dsn, chunk, at_once, seconds)
                found.setdefault((kind, contestant.name), []).append(one)
    return [_row(kind, name, figures) for (kind, name), figures in found.items()]


def _row(kind: str, name: str, figures: list[Row]) -> Row:
    rates = [one["rate"] for one in figures]
    return {
        "name": f"{kind}, PostgreSQL",
        "contestant": name.partition(",")[0],
        "value": round(statistics.median(rates)),
        "unit": "jobs/s",
        "low": round(min(rates)),
        "high": round(max(rates)),
        "detail": {
            key: round(statistics.median(one[key] for one in figures), 2)
            for key in ("producer_us", "postgres_us", "wal_bytes", "commits")
        },
    }


def run(quick: bool, dsn: str | None = None) -> list[Row]:
    """Measure ours alone, once."""
    if dsn is None:
        return []
    return asyncio.run(measure(dsn, rounds=1, seconds=1.0 if quick else 3.0, with_peers=False))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.submitting", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each producer")
    parser.add_argument("--alone", action="store_true", help="without the peers")
    parser.add_argument("--only", default="", help="kinds whose names begin so")
    options = parser.parse_args()
    dsn = os.environ["MAINSPRING_TEST_POSTGRES"]
    kinds = {kind: how for kind, how in KINDS.items() if kind.startswith(options.only)}
    rows = asyncio.run(
        measure(
            dsn,
            rounds=options.rounds,
            seconds=options.seconds,
            with_peers=not options.alone,
            kinds=kinds,
        )
    )
    publish("submitting", rows)


if __name__ == "__main__":
    main()
