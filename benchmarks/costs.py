"""Where the processor time of a run goes: a drain like `throughput`'s, each process and role of connection by itself.

Processor time is read from /proc between the first job and the last; the names of connections tell what they are for.
With `--flame FILE` py-spy (`pip install py-spy`) draws where one worker spends it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import subprocess
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import asyncpg

from benchmarks.engine import SUCCEEDED, fresh_database, vacuum
from benchmarks.idle import cpu_seconds
from benchmarks.peers.contestants import OURS, end
from benchmarks.report import Row, publish

WORKERS = 2
LOOK_EVERY = 0.1
_BACKENDS = (
    "SELECT pid, application_name AS name FROM pg_stat_activity WHERE application_name LIKE 'mainspring%'"
)
_OWN_TITLE = re.compile(r">py-spy record [^<]*<")
"""py-spy's: its command, which tells where the file lies."""
Spent = dict[tuple[str, int], float]


async def measure(dsn: str, count: int, flame: Path | None) -> list[Row]:
    async with fresh_database(dsn) as database:
        await asyncio.to_thread(OURS.call, database, "prepare")
        await asyncio.to_thread(OURS.call, database, "load", str(count))
        await vacuum(database)
        looker = await asyncpg.connect(database)
        with tempfile.TemporaryDirectory() as folder:
            workers = [OURS.start_worker(database, Path(folder)) for _ in range(WORKERS)]
            try:
                return await _watch(looker, [worker.pid for worker in workers], Path(folder), count, flame)
            finally:
                for worker in workers:
                    await asyncio.to_thread(end, worker)
                await looker.close()


async def _watch(
    looker: asyncpg.Connection[asyncpg.Record], pids: list[int], folder: Path, count: int, flame: Path | None
) -> list[Row]:
    while sum(path.suffix == "" for path in folder.iterdir()) < WORKERS:
        await asyncio.sleep(0.01)
    drawing = None if flame is None else _draw(pids[0], flame)
    left = await _count(looker)
    began, wal = time.monotonic(), await _wal(looker)
    first: Spent = {}
    last: Spent = {}
    while await looker.fetchval(OURS.remaining):
        now = await _spent(looker, pids)
        first = {**now, **first}
        last |= now
        await asyncio.sleep(LOOK_EVERY)
    taken = time.monotonic() - began
    if drawing is not None and flame is not None:
        await asyncio.to_thread(drawing.wait)
        flame.write_text(_OWN_TITLE.sub(r">A worker in a drain: samples of its threads<", flame.read_text()))
    used: defaultdict[str, float] = defaultdict(float)
    for key, seconds in last.items():
        used[key[0]] += seconds - first[key]
    done = await looker.fetchval(SUCCEEDED)
    if done != count:
        raise RuntimeError(f"{done} of {count} runs succeeded")
    claims = await looker.fetchval("SELECT sum(claim_number) FROM session")
    applies = await looker.fetchval("SELECT count(DISTINCT finished_at) FROM run_history")
    rows: list[Row] = [
        {"name": f"processor time of a run, {name}", "value": round(1e6 * seconds / left, 1), "unit": "µs"}
        for name, seconds in sorted(used.items(), key=lambda item: -item[1])
    ]
    detail = {
        "seconds": round(taken, 1),
        "runs a claim": round(count / int(claims)),
        "runs an apply": round(count / applies),
        "write-ahead log, bytes a run": round((await _wal(looker) - wal) / left),
    }
    total = round(1e6 * sum(used.values()) / left, 1)
    return [{"name": "processor time of a run", "value": total, "unit": "µs", "detail": detail}, *rows]


async def _count(looker: asyncpg.Connection[asyncpg.Record]) -> int:
    return int(await looker.fetchval("SELECT count(*) FROM run"))


async def _wal(looker: asyncpg.Connection[asyncpg.Record]) -> int:
    return int(await looker.fetchval("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"))


async def _spent(looker: asyncpg.Connection[asyncpg.Record], pids: list[int]) -> Spent:
    """Return the processor seconds so far of workers and of PostgreSQL's connections, by what they are for."""
    spent = {("workers", pid): cpu_seconds(pid) for pid in pids}
    for row in await looker.fetch(_BACKENDS):
        with suppress(FileNotFoundError):  # it has just ended
            spent[f"PostgreSQL, {row['name']}", row["pid"]] = cpu_seconds(row["pid"])
    return spent


def _draw(pid: int, file: Path) -> subprocess.Popen[bytes]:
    command = ["py-spy", "record", "--format", "flamegraph", "--rate", "300", "--duration", "3"]
    return subprocess.Popen([*command, "--output", str(file), "--pid", str(pid)], stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs", description=__doc__)
    parser.add_argument("--count", type=int, default=150_000)
    parser.add_argument("--flame", type=Path, help="an SVG to write")
    options = parser.parse_args()
    dsn = os.environ["MAINSPRING_TEST_POSTGRES"]
    publish("costs", asyncio.run(measure(dsn, options.count, options.flame)))


if __name__ == "__main__":
    main()
