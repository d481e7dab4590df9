"""Jobs that are all due at one instant, ours and the peers in turn: seconds until all of them have begun.

Part of `benchmarks.schedules`. A peer's two workers wait while the jobs are loaded. Each job is stamped with the
instant and notes how long after it its first line came. A round fails unless every job has begun, once, and the store
has none left. A slow peer gets a part of the jobs, and its line says how many.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import asyncpg

from benchmarks.engine import CHUNK, fresh_database
from benchmarks.peers import Contestant, find_contestants
from benchmarks.peers.contestants import end
from benchmarks.peers.notes import STAMPS
from benchmarks.report import OURS, Row

WORKERS = 2
PATIENCE = 180.0
AHEAD = 20.0
LEAST_LOADED = 5000
"""A peer has so many seconds, and one more for so many jobs, to load what it is given."""
READY = 3.0
"""Seconds before the instant at which all must be loaded."""


def title_of(count: int) -> str:
    return f"{count:,} one-off jobs due at one instant: all begun after"


async def trial(contestant: Contestant, dsn: str, count: int) -> list[float]:
    """Return how many seconds after the instant each job began, in order."""
    async with fresh_database(dsn) as database:
        await asyncio.to_thread(contestant.call, database, "prepare")
        with tempfile.TemporaryDirectory() as name:
            workers = [contestant.start_worker(database, Path(name)) for _ in range(WORKERS)]
            try:
                due = float(int(time.time() + AHEAD + READY + count / LEAST_LOADED))
                await asyncio.to_thread(contestant.call, database, "schedule", str(count), str(due))
                await _watch(contestant, database, due)
            finally:
                for worker in workers:
                    await asyncio.to_thread(end, worker)
            return read_starts(contestant, Path(name), count)


async def _watch(contestant: Contestant, database: str, due: float) -> None:
    """Wait until the store has no job left."""
    connection = await asyncpg.connect(database)
    try:
        await connection.execute("VACUUM ANALYZE", timeout=600)
        if time.time() > due - READY:
            raise RuntimeError(f"{contestant.name}: the jobs were not loaded in time")
        await asyncio.sleep(due - time.time())
        while await connection.fetchval(contestant.remaining):
            if time.time() > due + PATIENCE:
                raise RuntimeError(f"{contestant.name}: the jobs did not come to an end")
            await asyncio.sleep(0.25)
    finally:
        await connection.close()


def read_starts(contestant: Contestant, folder: Path, count: int) -> list[float]:
    """Return the seconds that the jobs noted, in order.

    Raises:
        RuntimeError: a job was lost, or began twice.
    """
    stamps = (folder / STAMPS).read_text().split()
    if len(stamps) != count:
        raise RuntimeError(f"{contestant.name}: {len(stamps)} starts of {count} jobs")
    return sorted(float(stamp) / 1000 for stamp in stamps)


async def measure_in_turn(
    dsn: str, count: int, ours: Callable[[], Awaitable[Row]], *, rounds: int, with_peers: bool
) -> list[Row]:
    """Measure ours, by what is given, and where asked each peer that can, as often as told."""
    peers = [peer for peer in find_contestants(with_peers=with_peers) if peer.can_schedule]
    found: dict[str, list[Row]] = {}
    for _ in range(rounds):
        found.setdefault(OURS, []).append(await ours())
        for peer in peers:
            mine = max(round(count * peer.share / CHUNK), 1) * CHUNK
            name = peer.name if mine >= count else f"{peer.name}, {mine:,} of them"
            found.setdefault(name, []).append(make_row(count, await trial(peer, dsn, min(mine, count))))
    return [sum_up(name, rows) for name, rows in found.items()]


def make_row(count: int, starts: Sequence[float]) -> Row:
    """Return the row of one round, of starts in order."""
    detail = {"first, s": round(starts[0], 3), "half, s": round(starts[len(starts) // 2], 2)}
    return {"name": title_of(count), "value": round(starts[-1], 2), "unit": "s", "detail": detail}


def sum_up(contestant: str, rows: Sequence[Row]) -> Row:
    """Return the row of the median round, with the least and the most of all."""
    ordered = sorted(rows, key=lambda row: float(row["value"]))
    ends = {"low": ordered[0]["value"], "high": ordered[-1]["value"]}
    return {**ordered[len(ordered) // 2], "contestant": contestant, **ends}
