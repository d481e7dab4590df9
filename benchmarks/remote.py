"""Executed no-op jobs a second through the HTTP worker protocol: two remote workers drain what was loaded before.

Real processes: `mainspring server` (one, then two) on PostgreSQL, and two `mainspring worker --server`, which know
nothing of the database. pgqueuer, whose workers go straight to the database, is measured in turn with them. The clock
runs from the first job's beginning (starting a process is left out) until the store itself has no unfinished job.
Processor time is read from /proc over the same stretch, for each kind of process by itself.
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
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from benchmarks.aims import REMOTE
from benchmarks.engine import SLOTS, check_succeeded, fresh_database, vacuum
from benchmarks.idle import cpu_seconds, run_servers
from benchmarks.peers import Contestant, find_contestants
from benchmarks.peers.notes import NOTES
from benchmarks.report import OURS, Row, publish
from benchmarks.throughput import drain

WORKERS = 2
PATIENCE = 180.0
APP = "benchmarks.peers.mainspring_jobs:app"


@dataclass(frozen=True, slots=True)
class Drain:
    """One drain: jobs a second, and processor time for each run (µs) by kind of process."""

    rate: float
    spent: dict[str, float]


async def drain_remotely(ours: Contestant, dsn: str, count: int, *, servers: int, slots: int) -> Drain:
    """Load jobs, start the servers and then the workers, and watch them."""
    async with fresh_database(dsn) as database:
        await asyncio.to_thread(ours.call, database, "prepare")
        await asyncio.to_thread(ours.call, database, "load", str(count))
        await vacuum(database)
        with tempfile.TemporaryDirectory() as folder:
            async with run_servers(database, servers) as (pids, addresses):
                workers = [_start_worker(addresses, place, slots, folder) for place in range(WORKERS)]
                kinds = {"servers": pids, "workers": [worker.pid for worker in workers]}
                try:
                    return await _watch(ours, database, Path(folder), kinds, count)
                finally:
                    for worker in workers:
                        worker.send_signal(signal.SIGTERM)
                    for worker in workers:
                        await asyncio.to_thread(worker.wait, 40)


def _start_worker(addresses: list[str], place: int, slots: int, folder: str) -> subprocess.Popen[bytes]:
    """Start a worker; each has a server of its own, as far as there are so many."""
    server = addresses[place % len(addresses)]
    command = [sys.executable, "-m", "mainspring", "worker", APP, "--server", server, "--slots", str(slots)]
    environment = {**os.environ, NOTES: folder}
    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


async def _watch(
    ours: Contestant, database: str, folder: Path, kinds: dict[str, list[int]], count: int
) -> Drain:
    deadline = time.monotonic() + PATIENCE
    connection = await asyncpg.connect(database)
    before: dict[str, float] = {}
    try:
        while not before or await connection.fetchval(ours.remaining):
            if time.monotonic() > deadline:
                raise RuntimeError("the drain did not come to an end")
            if not before and any(folder.iterdir()):
                before = await _spent(connection, kinds)
            await asyncio.sleep(0.02)
        ended_at = time.time()
        after = await _spent(connection, kinds)
    finally:
        await connection.close()
    await check_succeeded(database, count)
    taken = ended_at - min(path.stat().st_ctime for path in folder.iterdir())
    return Drain(count / taken, {kind: 1e6 * (after[kind] - before[kind]) / count for kind in after})


async def _spent(
    connection: asyncpg.Connection[asyncpg.Record], kinds: dict[str, list[int]]
) -> dict[str, float]:
    """Return the processor seconds that each kind of process has used."""
    backends = await connection.fetch(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'mainspring%'"
    )
    everybody = {**kinds, "PostgreSQL's backends": [row["pid"] for row in backends]}
    return {kind: sum(map(cpu_seconds, pids)) for kind, pids in everybody.items()}


async def measure(quick: bool, dsn: str, *, rounds: int, slots: int, with_peer: bool) -> list[Row]:
    """Measure one server, two servers and, where asked, pgqueuer, in turn."""
    count = 20_000 if quick else 100_000
    ours, *peers = find_contestants(with_peers=with_peer)
    peer = next((one for one in peers if one.name.startswith("pgqueuer")), None)
    drains: dict[int, list[Drain]] = {1: [], 2: []}
    rates: list[float] = []
    for _ in range(rounds):
        for servers, found in drains.items():
            found.append(await drain_remotely(ours, dsn, count, servers=servers, slots=slots))
        if peer is not None:
            rates.append((await drain(peer, dsn, count)).rate)
    rows = [_row(servers, found) for servers, found in drains.items()]
    if peer is not None:
        rows.append(_rate_row(f"{peer.name}, straight on the database", rates))
    return rows


def _row(servers: int, found: list[Drain]) -> Row:
    row = _rate_row(OURS if servers == 1 else f"{OURS}, {servers} servers", [one.rate for one in found])
    row["detail"] = {
        f"processor time of the {kind} for each run, µs": round(
            statistics.median(one.spent[kind] for one in found), 1
        )
        for kind in found[0].spent
    }
    return row


def _rate_row(contestant: str, rates: list[float]) -> Row:
    return {
        "name": REMOTE,
        "contestant": contestant,
        "value": round(statistics.median(rates)),
        "low": round(min(rates)),
        "high": round(max(rates)),
        "unit": "jobs/s",
    }


def run(quick: bool, dsn: str | None = None) -> list[Row]:
    """Measure ours alone, once."""
    if dsn is None:
        return []
    return asyncio.run(measure(quick, dsn, rounds=1, slots=SLOTS, with_peer=False))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.remote", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--slots", type=int, default=SLOTS, help="of each worker")
    parser.add_argument("--alone", action="store_true", help="without pgqueuer")
    options = parser.parse_args()
    dsn = os.environ["MAINSPRING_TEST_POSTGRES"]
    work = measure(
        options.quick, dsn, rounds=options.rounds, slots=options.slots, with_peer=not options.alone
    )
    publish("remote", asyncio.run(work), is_kept=not options.quick)


if __name__ == "__main__":
    main()
