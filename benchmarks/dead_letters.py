"""What it takes to go through a million dead letters on PostgreSQL: pages, groups, counts, and a redrive at its rate.

The letters are of a thousand jobs and twenty kinds of errors; a tenth is settled. Every list is asked for several
times, and the median counts. Then an engine redrives, at two rates, and nobody takes what it makes: what counts is how
many runs a second there were.

Run it on a private server: `scripts/services run --durable -- python -m benchmarks.dead_letters --letters 1000000`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import asyncpg
import uvloop

from benchmarks.engine import fresh_database, noop_registry, settings_for
from benchmarks.report import Row, print_rows
from mainspring.core.dead_letters import DeadFilter
from mainspring.core.ids import JobId, RunId
from mainspring.core.redrives import RedriveChange
from mainspring.engine.assembly import Engine
from mainspring.engine.usecases.dead_letters import DeadLetters
from mainspring.runtime import open_engine

JOBS = 1000
TIMES = 5
RATES = (100, 1000)
SECONDS = 10.0
"""How long a redrive goes on at each rate."""
_FILL = """
INSERT INTO dead_run (
    id, job_id, version, queue, route, tenant, priority, kind, state, reason, due_at, created_at, finished_at, attempt,
    token, crashes, error, error_group, settled_at, settlement, settle_reason
)
SELECT
    number * 256 + 1, ($3::uuid[])[number % $2::bigint + 1], 1, 'default', 'function:work', 'default', 1, 'manual',
    'FAILED', 'retries_exhausted', $4, $4, $4::timestamptz + number * interval '1 ms', 1, 1, 0,
    'ValueError: order ' || number || ' has no part ' || chr(97 + (number % 20)::int),
    'ValueError: order # has no part ' || chr(97 + (number % 20)::int),
    CASE WHEN number % 10 = 0 THEN $4::timestamptz END, CASE WHEN number % 10 = 0 THEN 'discarded' END,
    CASE WHEN number % 10 = 0 THEN 'gone' END
FROM generate_series(1, $1::bigint) AS number
"""


async def measure(server: str, letters: int) -> list[Row]:
    """Fill a database with dead letters, and go through them."""
    async with (
        fresh_database(server) as dsn,
        open_engine(settings_for(dsn, slots=0), registry=noop_registry()) as engine,
    ):
        jobs = [
            (await engine.client.jobs.create("default", {"name": f"job-{n}", "function": "noop"})).id
            for n in range(JOBS)
        ]
        failed_at = datetime.now(UTC) - timedelta(hours=12)
        connection = await asyncpg.connect(dsn)
        await connection.execute(_FILL, letters, JOBS, jobs, failed_at)
        await connection.execute("SELECT setval('run_sequence', $1::bigint + 10)", letters)
        await connection.execute("VACUUM ANALYZE")
        await connection.close()
        rows = await _read(engine.client.dead_letters, jobs[7], letters)
        for rate in RATES:
            rows.append(await _redrive(engine, rate))
        return rows


async def _read(client: DeadLetters, job_id: JobId, letters: int) -> list[Row]:
    middle = RunId(letters // 2 * 256)
    group = DeadFilter(error_group="ValueError: order # has no part c")
    asked: dict[str, Callable[[], Awaitable[object]]] = {
        "first page": lambda: client.list_page("default", DeadFilter()),
        "page from the middle": lambda: client.list_page("default", DeadFilter(), before=middle),
        "page of a job": lambda: client.list_page("default", DeadFilter(job_id=job_id)),
        "page of an error's group": lambda: client.list_page("default", group),
        "page of those with a text in the error": lambda: client.list_page(
            "default", DeadFilter(error="no part d")
        ),
        "page of the settled ones": lambda: client.list_page("default", DeadFilter(is_settled=True)),
        "groups of all": lambda: client.groups("default", DeadFilter()),
        "groups of a job": lambda: client.groups("default", DeadFilter(job_id=job_id)),
        "count of all, and twenty": lambda: client.count("default", DeadFilter()),
    }
    rows: list[Row] = []
    for name, ask in asked.items():
        took = []
        for _ in range(TIMES):
            begun = time.perf_counter()
            await ask()
            took.append(time.perf_counter() - begun)
        value = round(statistics.median(took) * 1000, 1)
        rows.append({"name": f"{letters:,} dead letters: {name}", "value": value, "unit": "ms"})
    return rows


async def _redrive(engine: Engine, rate: int) -> Row:
    client = engine.client.redrives
    planned = await client.create("default", DeadFilter(error="no part"), rate=rate)
    redrive = planned.redrive
    assert redrive is not None
    begun = time.perf_counter()
    await asyncio.sleep(SECONDS)
    redrive = await client.get("default", redrive.id)
    took = time.perf_counter() - begun
    await client.change("default", redrive.id, RedriveChange.CANCEL)
    return {"name": f"redrive at {rate:,} a second", "value": round(redrive.done / took, 1), "unit": "runs/s"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--letters", type=int, default=1_000_000)
    options = parser.parse_args()
    print_rows(uvloop.run(measure(os.environ["MAINSPRING_TEST_POSTGRES"], options.letters)))


if __name__ == "__main__":
    main()
