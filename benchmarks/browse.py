"""How long lists and counts take over very many finished runs, each call by itself, through the engine's use cases.

By default ten million finished runs, 300,000 live ones and a million jobs on PostgreSQL, and a tenth of that on SQLite.
The rows are made by SQL, a scheduler runs on them, and the first census is waited for. Nothing else is going on, except
where a row says so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import uvloop

from benchmarks.engine import fresh_database, settings_for
from benchmarks.report import print_rows
from mainspring.config.settings import DATABASE_NAME
from mainspring.core.ids import JobId, RunId
from mainspring.core.model import JobSpec, RunKind, Target
from mainspring.core.states import RunState
from mainspring.engine.assembly import Engine
from mainspring.engine.usecases.browsing import RunFilter
from mainspring.ports.codec import encode_spec
from mainspring.runtime import open_engine
from mainspring.stores.sqlite import SqliteStore

Row = dict[str, Any]
TENANT, OTHER = "default", "other"
DAYS = 10
"""Over which the finished runs are spread, up to now."""
RUNNING = 1_000
PAGE = 50
ANY = RunFilter()


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is of what. A hundredth of the finished runs is cancelled, skipped and failed each."""

    finished: int
    live: int
    jobs: int


FULL = {"postgresql": Size(10_000_000, 300_000, 1_000_000), "sqlite": Size(1_000_000, 30_000, 100_000)}
SPEC = encode_spec(JobSpec(name="job", target=Target("function", {"function": "noop"})))

# Of every hundred runs one failed, one was cancelled and one skipped. One in 100,000 is of another tenant, and one in
# 250,000 of a queue of its own. {0} is the run's number.
_STATE = (
    "CASE {0} % 100 WHEN 1 THEN 'CANCELLED' WHEN 2 THEN 'SKIPPED' WHEN 3 THEN 'FAILED' ELSE 'SUCCEEDED' END"
)
_QUEUE = "CASE WHEN {0} % 250000 = 7 THEN 'rare' WHEN {0} % 2 = 0 THEN 'mail' ELSE 'default' END"
_TENANT = "CASE WHEN {0} % 100000 = 9 THEN 'other' ELSE 'default' END"
_ENDED = (
    "id, job_id, version, queue, route, tenant, priority, kind, state, due_at, created_at, started_at, finished_at,"
    " attempt, token, crashes, payload, result"
)


async def fill_postgres(dsn: str, size: Size) -> None:
    """Make the rows, with fresh statistics."""
    job_id = "('01900000-0000-7000-8000-' || lpad(to_hex({0}), 12, '0'))::uuid"
    connection = await asyncpg.connect(dsn, command_timeout=3600)
    try:
        now = await connection.fetchval("SELECT clock_timestamp()")
        step = timedelta(days=DAYS) / size.finished
        await connection.execute(
            "SELECT prepare_history($1::timestamptz, $2)", now - timedelta(days=DAYS), DAYS
        )
        await connection.execute(
            f"INSERT INTO job (id, shard, tenant, name, version, created_at, updated_at)"
            f" SELECT {job_id.format('n')}, n % 256, 'default', 'job-' || n, 1, $1::timestamptz, $1::timestamptz"
            f" FROM generate_series(1::bigint, {size.jobs}) AS n",
            now,
        )
        await connection.execute(
            "INSERT INTO job_version (job_id, version, spec, created_at) SELECT id, 1, $1, created_at FROM job",
            SPEC,
        )
        await connection.execute(
            "INSERT INTO job_clock (job_id, shard, revision, priority) SELECT id, shard, 1, 1 FROM job"
        )
        ended = (
            f"SELECT n * 256 + n % 256, {job_id.format(f'n % {size.jobs} + 1')}, 1, {_QUEUE.format('n')},"
            f" 'function:noop', {_TENANT.format('n')}, 1, 'manual', {_STATE.format('n')}, at, at, at, at,"
            " 1, 1, 0, '{}'::bytea, NULL"
            f" FROM (SELECT n, $1::timestamptz + n * $2::interval AS at"
            f" FROM generate_series(1::bigint, {size.finished}) AS n) AS made"
        )
        begun = now - timedelta(days=DAYS)
        await connection.execute(
            f"INSERT INTO run_history ({_ENDED}) {ended} WHERE n % 100 <> 3", begun, step
        )
        await connection.execute(f"INSERT INTO dead_run ({_ENDED}) {ended} WHERE n % 100 = 3", begun, step)
        await connection.execute(
            "INSERT INTO lane (queue, route, tenant, priority) VALUES ('mail', 'function:noop', 'default', 1)"
        )
        session = await connection.fetchval(
            "INSERT INTO session (worker, host, pid, slots, queues, types, functions, labels, started_at, last_beat_at,"
            " beat_period, claim_number) VALUES ('w', 'h', 1, 1000, '{}', '{}', '{}', '{}', $1, $1, '1 day', 1)"
            " RETURNING id",
            now,
        )
        await connection.execute(
            f"INSERT INTO run (id, job_id, version, lane_id, kind, state, due_at, ready_at, created_at, timeout_ms,"
            f" session_id, claim_number, token, started_at, deadline_at)"
            f" SELECT ({size.finished} + n) * 256, {job_id.format(f'n % {size.jobs} + 1')}, 1, 1, 'manual', state, $1,"
            f" $1, $1, 86400000, held, claim, iif, started, deadline"
            f" FROM (SELECT n, CASE WHEN n <= {RUNNING} THEN 'RUNNING' WHEN n % 1000 = 0 THEN 'RETRYING'"
            f" ELSE 'PENDING' END AS state, CASE WHEN n <= {RUNNING} THEN $2::bigint END AS held,"
            f" CASE WHEN n <= {RUNNING} THEN 1 END AS claim, CASE WHEN n <= {RUNNING} THEN 1 ELSE 0 END AS iif,"
            f" CASE WHEN n <= {RUNNING} THEN $1::timestamptz END AS started,"
            f" CASE WHEN n <= {RUNNING} THEN $1::timestamptz + interval '1 day' END AS deadline"
            f" FROM generate_series(1::bigint, {size.live}) AS n) AS made",
            now,
            session,
        )
        await connection.execute(f"SELECT setval('run_sequence', {size.finished + size.live + 1})")
        await connection.execute("VACUUM (ANALYZE)")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()


def fill_sqlite(path: Path, size: Size) -> None:
    """Make the rows in a migrated database."""
    job_id = "CAST(printf('%016d', {0}) AS BLOB)"
    now = int(datetime.now(UTC).timestamp() * 1_000_000)
    span = DAYS * 86_400_000_000
    numbers = "WITH RECURSIVE series (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < {0})"
    db = apsw.Connection(str(path))
    with db:
        db.execute(
            f"{numbers.format(size.jobs)} INSERT INTO job (id, shard, tenant, name, version, created_at, updated_at)"
            f" SELECT {job_id.format('n')}, n % 256, 'default', 'job-' || n, 1, ?, ? FROM series",
            (now, now),
        )
        db.execute("INSERT INTO job_version SELECT id, 1, ?, created_at FROM job", (SPEC,))
        db.execute(
            "INSERT INTO job_clock (job_id, shard, revision, priority) SELECT id, shard, 1, 1 FROM job"
        )
        for table, condition in (("run_history", "<> 3"), ("dead_run", "= 3")):
            db.execute(
                f"{numbers.format(size.finished)} INSERT INTO {table} ({_ENDED})"
                f" SELECT n * 256 + n % 256, {job_id.format(f'n % {size.jobs} + 1')}, 1, {_QUEUE.format('n')},"
                f" 'function:noop', {_TENANT.format('n')}, 1, 'manual', {_STATE.format('n')}, at, at, at, at, 1, 1, 0,"
                f" CAST('{{}}' AS BLOB), NULL FROM (SELECT n, ? + n * ? / ? AS at FROM series)"
                f" WHERE n % 100 {condition}",
                (now - span, span, size.finished),
            )
        db.execute(
            "INSERT INTO lane (queue, route, tenant, priority) VALUES ('mail', 'function:noop', 'default', 1)"
        )
        db.execute(
            "INSERT INTO session (worker, host, pid, slots, queues, types, functions, labels, started_at, last_beat_at,"
            " beat_period) VALUES ('w', 'h', 1, 1000, '[]', '[]', '[]', '[]', ?, ?, 86400000000)",
            (now, now),
        )
        db.execute(
            f"{numbers.format(size.live)} INSERT INTO run (id, job_id, version, lane_id, kind, state, due_at, ready_at,"
            f" created_at, timeout_ms, session_id, claim_number, token, started_at, deadline_at)"
            f" SELECT ({size.finished} + n) * 256, {job_id.format(f'n % {size.jobs} + 1')}, 1, 1, 'manual',"
            f" iif(n <= {RUNNING}, 'RUNNING', iif(n % 1000 = 0, 'RETRYING', 'PENDING')), ?1, ?1, ?1, 86400000,"
            f" iif(n <= {RUNNING}, 1, NULL), iif(n <= {RUNNING}, 1, NULL), iif(n <= {RUNNING}, 1, 0),"
            f" iif(n <= {RUNNING}, ?1, NULL), iif(n <= {RUNNING}, ?1 + 86400000000, NULL) FROM series",
            (now,),
        )
        db.execute("UPDATE run_sequence SET value = ?", (size.finished + size.live + 1,))
    db.close()


Call = Callable[[], Awaitable[object]]


def calls_of(engine: Engine, job_id: JobId, size: Size, now: datetime) -> dict[str, Call]:
    """Return what is measured, by name."""
    runs, jobs = engine.client.runs, engine.client.jobs

    def listing(wanted: RunFilter = ANY, *, tenant: str = TENANT, **more: Any) -> Call:
        return lambda: runs.list_page(tenant, wanted, limit=PAGE, **more)

    middle = RunId(size.finished // 2 * 256)
    past = now - timedelta(days=DAYS / 2)
    hour = RunFilter(since=past, until=past + timedelta(hours=1))
    unlike = RunFilter(state=RunState.FAILED, error="no error is like this")
    calls = {"runs, newest": listing(), "runs, from the middle": listing(before=middle)}
    calls["runs, newest, brief"] = listing(is_brief=True)
    calls |= {f"runs, {state.value}": listing(RunFilter(state=state)) for state in RunState}
    calls |= {
        "runs of a job": listing(RunFilter(job_id=job_id)),
        "runs of a job, FAILED": listing(RunFilter(job_id=job_id, state=RunState.FAILED)),
        "runs of a queue": listing(RunFilter(queue="mail")),
        "runs of a kind that there is not (budget)": listing(RunFilter(kind=RunKind.BACKFILL)),
        "runs, FAILED, with an error that none has (budget)": listing(unlike),
        "runs of an hour": listing(hour),
        "runs of an hour, FAILED": listing(replace(hour, state=RunState.FAILED)),
        "runs of a queue with 1 in 250,000 (budget)": listing(RunFilter(queue="rare")),
        "runs of a tenant with 1 in 100,000 (budget)": listing(tenant=OTHER),
        "jobs, first page": lambda: jobs.list_page(TENANT, after=None, limit=PAGE),
        "jobs, from the middle": lambda: jobs.list_page(TENANT, after=job_id, limit=PAGE),
        "status of a job": lambda: jobs.status(TENANT, job_id),
        "workers": engine.client.workers,
        "counts": lambda: runs.counts(TENANT),
        "counts, counted now": lambda: engine.store.count_runs(TENANT),
    }
    return calls


async def measure(call: Call, *, seconds: float, most: int) -> list[float]:
    """Return how long each of many calls took, in milliseconds, in ascending order."""
    await call()
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while len(taken) < most and (time.perf_counter() < end or len(taken) < 5):
        before = time.perf_counter()
        await call()
        taken.append((time.perf_counter() - before) * 1000)
    return sorted(taken)


def row_of(name: str, taken: list[float]) -> Row:
    """Return the row of a call: its median, and the 99th percentile beside it."""
    p99 = taken[min(len(taken) - 1, round(len(taken) * 0.99))]
    detail = {"p99 ms": round(p99, 2), "calls": len(taken)}
    return {"name": name, "value": round(statistics.median(taken), 2), "unit": "ms (p50)", "detail": detail}


async def measure_planner(engine: Engine, *, most: int) -> list[float]:
    """Return how long reads of due clocks took while somebody counts all the time."""
    store = engine.store
    is_over = asyncio.Event()

    async def count() -> None:
        while not is_over.is_set():
            await store.count_runs(TENANT)

    counting = asyncio.create_task(count())
    try:
        read = lambda: store.read_due(range(256), until=engine.clock.now(), limit=1000)  # noqa: E731
        return await measure(read, seconds=20, most=most)
    finally:
        is_over.set()
        await counting


async def measure_all(location: str, size: Size, *, seconds: float) -> list[Row]:
    """Start an engine on a filled store, wait for its first census, and measure each call."""
    kind = location.partition(":")[0]
    title = f"{kind}, {size.finished:,} finished"
    begun = time.perf_counter()
    async with open_engine(settings_for(location, slots=0)) as engine:
        while (census := await engine.store.read_census()) is None:
            await asyncio.sleep(0.1)
        rows: list[Row] = [
            {
                "name": f"{title}: first census",
                "value": round(time.perf_counter() - begun, 1),
                "unit": "s",
                "detail": {"its count of all runs, ms": round(census.took.total_seconds() * 1000, 1)},
            }
        ]
        [job, *_] = (await engine.client.jobs.list_page(TENANT, after=None, limit=1000))[-1:]
        for name, call in calls_of(engine, job.id, size, engine.clock.now()).items():
            rows.append(row_of(f"{title}: {name}", await measure(call, seconds=seconds, most=1000)))
        taken = await measure_planner(engine, most=1000)
        rows.append(row_of(f"{title}: the planner's read of due clocks, while counting", taken))
        return rows


@asynccontextmanager
async def filled(kind: str, dsn: str | None, size: Size, folder: Path) -> AsyncIterator[str]:
    """Make a filled store, and yield its address."""
    if kind == "sqlite":
        store = SqliteStore(folder / DATABASE_NAME)
        await store.open()
        await store.close()
        await asyncio.to_thread(fill_sqlite, folder / DATABASE_NAME, size)
        yield f"sqlite://{folder}"
        return
    assert dsn is not None
    async with fresh_database(dsn) as address:
        async with open_engine(settings_for(address, slots=0), with_scheduler=False):
            pass
        await fill_postgres(address, size)
        yield address


async def measure_kind(kind: str, dsn: str | None, size: Size, *, seconds: float) -> list[Row]:
    """Fill a store and measure it."""
    with tempfile.TemporaryDirectory() as folder:
        async with filled(kind, dsn, size, Path(folder)) as location:
            return await measure_all(location, size, seconds=seconds)


def run(quick: bool, dsn: str | None, *, share: float | None = None) -> list[Row]:
    """Measure SQLite, and PostgreSQL if there is one.

    Args:
        share: of the full size.
    """
    part = share or (0.01 if quick else 1.0)
    rows: list[Row] = []
    for kind in ("sqlite", *(["postgresql"] if dsn else [])):
        full = FULL[kind]
        size = Size(
            *(max(int(count * part), 10 * RUNNING) for count in (full.finished, full.live, full.jobs))
        )
        rows += uvloop.run(measure_kind(kind, dsn, size, seconds=1 if quick else 5))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the full size")
    parser.add_argument("--quick", action="store_true", help="one second for each call instead of five")
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    options = parser.parse_args()
    dsn = os.environ.get("MAINSPRING_TEST_POSTGRES")
    print(json.dumps({"share": options.share}))
    print_rows(run(options.quick, dsn, share=options.share), as_json=options.json)


if __name__ == "__main__":
    main()
