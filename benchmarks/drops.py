"""How long ends of runs wait while a day of the history is dropped on PostgreSQL.

A day that is over is filled with ended runs and failed attempts, a hundredth of which belong to dead runs. Then runs
are submitted, claimed and ended without a pause, in batches, while `prune_history` drops the day. What counts is the
longest time that one batch of ends took, beside that of the three seconds before.

Run it on a private server: `scripts/services run --durable -- python -m benchmarks.drops --rows 2000000`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import asyncpg
import uvloop

from benchmarks.engine import fresh_database
from benchmarks.report import Row, print_rows
from mainspring.core.ids import RunId
from mainspring.core.outcomes import succeeded
from mainspring.ports.store.claims import ClaimRequest
from mainspring.ports.store.runs import NewRun
from mainspring.ports.store.sessions import NewSession
from mainspring.stores.postgres import PostgresStore
from mainspring.testing.factories import make_new_job, make_new_run

DAY = datetime(2026, 1, 5, tzinfo=UTC)
BATCH = 100
QUIET = 3.0
"""Seconds of ends before the day is dropped."""
FILL = """
WITH job AS (SELECT '01900000-0000-7000-8000-000000000001'::uuid AS id)
INSERT INTO run_history (
    id, job_id, version, queue, route, tenant, priority, kind, state, due_at, created_at, started_at, finished_at,
    attempt, token, crashes, result
)
SELECT
    number * 256, job.id, 1, 'default', 'function', 'default', 1, 'manual', 'SUCCEEDED', at, at, at, at, 1, 1, 0, 'null'
FROM job, generate_series(1, $1::bigint) AS number,
    LATERAL (SELECT $2::timestamptz + number * interval '1 ms' AS at) AS ended
"""
_FAIL = """
INSERT INTO attempt (run_id, token, number, outcome, worker, started_at, finished_at, error)
SELECT
    number * 256 + 1, 1, 1, 'failed', 'bench', $2, $2::timestamptz + number * interval '1 ms',
    'ValueError: no such order'
FROM generate_series(1, $1::bigint) AS number
"""
_BURY = """
INSERT INTO dead_run (
    id, job_id, version, queue, route, tenant, priority, kind, state, due_at, created_at, finished_at, attempt, token,
    crashes, error
)
SELECT
    number * 256 + 1, '01900000-0000-7000-8000-000000000001'::uuid, 1, 'default', 'function', 'default', 1, 'manual',
    'FAILED', $2, $2, $2, 1, 1, 0, 'ValueError: no such order'
FROM generate_series(1, $1::bigint, 100) AS number
"""


class Ends:
    """Runs that end without a pause."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self.took: list[float] = []
        self.is_over = False

    async def go_on(self) -> None:
        """Submit, claim and end batches until told to stop."""
        store, now = self._store, datetime.now(UTC)
        job = make_new_job()
        await store.add_jobs([job], now=now)
        [session] = await store.add_sessions(
            [NewSession(worker="bench", host="here", pid=1, slots=BATCH)], now=now
        )
        run: NewRun = make_new_run(job, due_at=now)
        number = 0
        while not self.is_over:
            now, number = datetime.now(UTC), number + 1
            await store.submit_runs([run] * BATCH, now=now)
            [lane] = await store.read_lanes([])
            request = ClaimRequest(session_id=session, number=number, lanes=(lane.id,), limit=BATCH, lows={})
            [claimed] = await store.claim_runs([request], now=now)
            ends = [succeeded(one.run_id, one.token, session) for one in claimed.runs]
            begun = time.perf_counter()
            await store.apply(ends, now=now)
            self.took.append(time.perf_counter() - begun)


async def measure(server: str, rows: int) -> list[Row]:
    """Drop a day of so many ended runs."""
    async with fresh_database(server) as dsn:
        store = PostgresStore(dsn, random=random.Random(1))
        await store.open()
        await store.prepare_history(now=DAY)
        await store.prepare_history(now=datetime.now(UTC))
        connection = await asyncpg.connect(dsn)
        for statement, count in ((FILL, rows), (_FAIL, rows // 10), (_BURY, rows // 10)):
            await connection.execute(statement, count, DAY)
        await connection.execute("VACUUM ANALYZE")
        await connection.close()
        ends = Ends(store)
        task = asyncio.create_task(ends.go_on())
        await asyncio.sleep(QUIET)
        before = list(ends.took)
        ends.took.clear()
        begun = time.perf_counter()
        while await store.prune_history(before=DAY + timedelta(days=2), limit=1000):
            pass
        dropping = time.perf_counter() - begun
        during = list(ends.took)
        ends.is_over = True
        await task
        dead = [RunId(number * 256 + 1) for number in range(1, rows // 10 + 1, 100)]
        assert all([await store.list_attempts(run_id) for run_id in dead[:100]]), (
            "dead runs keep their attempts"
        )
        await store.close()
    return _rows(rows, before, during, dropping)


def _rows(rows: int, before: Sequence[float], during: Sequence[float], dropping: float) -> list[Row]:
    where = f"a day of {rows:,} runs is dropped"
    return [
        {
            "name": f"longest batch of ends before {where}",
            "value": round(max(before) * 1000, 1),
            "unit": "ms",
        },
        {"name": f"longest batch of ends while {where}", "value": round(max(during) * 1000, 1), "unit": "ms"},
        {"name": f"time in which {where}", "value": round(dropping * 1000), "unit": "ms"},
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2_000_000)
    options = parser.parse_args()
    print_rows(uvloop.run(measure(os.environ["MAINSPRING_TEST_POSTGRES"], options.rows)))


if __name__ == "__main__":
    main()
