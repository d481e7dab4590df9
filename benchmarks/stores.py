"""What the stores themselves do: rows per second of submit, claim and apply in batches of 500, fully durable.

SQLite runs with synchronous=FULL, PostgreSQL with its server's fsync and synchronous_commit. Every run of the
count goes through all three verbs; `calls in flight` of them wait at a time, as the engine's collectors do.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.engine import fresh_database
from mainspring.core.ids import SessionId
from mainspring.core.outcomes import succeeded
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ClaimedRun, ClaimRequest
from mainspring.ports.store.sessions import NewSession
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.factories import make_new_job, make_new_run

Row = dict[str, Any]
BATCH = 500
IN_FLIGHT = 4


async def in_flight(calls: Sequence[Callable[[], Awaitable[None]]]) -> float:
    """Carry out all calls, a few at a time; return the seconds taken."""
    waiting = iter(calls)

    async def carry_out() -> None:
        for call in waiting:
            await call()

    before = time.perf_counter()
    await asyncio.gather(*(carry_out() for _ in range(IN_FLIGHT)))
    return time.perf_counter() - before


async def measure_store(store: Store, where: str, count: int) -> list[Row]:
    """Take so many runs through submit, claim and apply."""
    now = datetime.now(UTC)
    job = make_new_job()
    await store.add_jobs([job], now=now)
    sessions = await store.add_sessions(
        [NewSession(worker=f"bench-{index}", host="here", pid=1, slots=BATCH) for index in range(IN_FLIGHT)],
        now=now,
    )
    run = make_new_run(job, due_at=now, payload=b'{"number": 1}')
    batch = [run] * BATCH
    calls = count // BATCH

    async def submit() -> None:
        await store.submit_runs(batch, now=now)

    submitting = await in_flight([submit] * calls)
    (lane,) = await store.read_lanes([])
    claimed: list[tuple[SessionId, tuple[ClaimedRun, ...]]] = []

    def claim(session_id: SessionId, number: int) -> Callable[[], Awaitable[None]]:
        request = ClaimRequest(
            session_id=session_id, number=number, lanes=(lane.id,), limit=BATCH, lows={lane.id: now}
        )

        async def call() -> None:
            (result,) = await store.claim_runs([request], now=now)
            claimed.append((session_id, result.runs))

        return call

    claiming = await in_flight(
        [claim(sessions[number % IN_FLIGHT], number // IN_FLIGHT + 1) for number in range(calls)]
    )
    assert sum(len(runs) for _, runs in claimed) == calls * BATCH

    def apply(session_id: SessionId, runs: Sequence[ClaimedRun]) -> Callable[[], Awaitable[None]]:
        ends = [succeeded(run.run_id, run.token, session_id, b"null") for run in runs]

        async def call() -> None:
            await store.apply(ends, now=now)

        return call

    applying = await in_flight([apply(*given) for given in claimed])
    rows = calls * BATCH
    total = submitting + claiming + applying
    return [
        {"name": f"submit, {where}", "value": round(rows / submitting), "unit": "rows/s"},
        {"name": f"claim, {where}", "value": round(rows / claiming), "unit": "rows/s"},
        {"name": f"apply (successes), {where}", "value": round(rows / applying), "unit": "rows/s"},
        {"name": f"submit + claim + apply, {where}", "value": round(rows / total), "unit": "runs/s"},
    ]


async def measure(quick: bool, dsn: str | None) -> list[Row]:
    count = 20_000 if quick else 100_000
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        sqlite = SqliteStore(Path(folder) / "mainspring.db")
        await sqlite.open()
        found += await measure_store(sqlite, "SQLite", count)
        await sqlite.close()
    if dsn is not None:
        async with fresh_database(dsn) as database:
            postgres = PostgresStore(database, random=random.Random(1))
            await postgres.open()
            found += await measure_store(postgres, "PostgreSQL", count)
            await postgres.close()
    return found


def run(quick: bool, dsn: str | None = None) -> list[Row]:
    """Measure; PostgreSQL only where a server's base DSN (without a database) is given."""
    return asyncio.run(measure(quick, dsn))


if __name__ == "__main__":
    for row in run("--quick" in sys.argv, os.environ.get("MAINSPRING_TEST_POSTGRES")):
        print(f"{row['name']:<60} {row['value']:>12,} {row['unit']}")
