"""What the whole engine does: no-op jobs per second, bulk submits per second, and start minus due.

Everything a run has in normal use is on: lease, heartbeat, time-out, retry policy, lanes, history, durable commits
(SQLite synchronous=FULL, PostgreSQL fsync and synchronous_commit on).
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import structlog
import uvloop

from benchmarks.operated import ENDPOINT, IS_OPERATED, open_account
from mainspring.config import Settings, StoreLocation
from mainspring.config.table import SETTINGS
from mainspring.engine.assembly import Engine
from mainspring.engine.usecases.submissions import Submission
from mainspring.host.process import settle_memory
from mainspring.ports.gateway import ClaimCall, Registration
from mainspring.registry import FunctionRegistry
from mainspring.runtime import make_worker, open_engine, run_embedded_worker
from mainspring.signals import current_attempt

Row = dict[str, Any]
SUCCEEDED = "SELECT count(*) FROM run_history WHERE state = 'SUCCEEDED'"
CHUNK = 1000
SLOTS: int = SETTINGS["worker.slots"].default
LOG_AHEAD = 24
"""Files of the log, 16 MB each: more than one contestant writes in a round."""


async def noop() -> None:
    """Do nothing, quickly."""


def noop_registry() -> FunctionRegistry:
    registry = FunctionRegistry()
    registry.add("noop", noop)
    return registry


def settings_for(location: str, *, slots: int) -> Settings:
    return Settings(
        store=StoreLocation.parse(location),
        slots=slots,
        drain=timedelta(seconds=1),
        otlp=os.environ.get(ENDPOINT),
    )


async def load(engine: Engine, count: int) -> float:
    """Submit `count` runs of a no-op job in bulk; return submits per second."""
    job = await engine.client.jobs.create("default", {"name": f"noop-{time.time_ns()}", "function": "noop"})
    chunk = [Submission(job_id=job.id)] * CHUNK
    before = time.perf_counter()
    for _ in range(count // CHUNK):
        await engine.client.runs.submit_many("default", chunk)
    return count / (time.perf_counter() - before)


async def throughput_one_process(location: str, count: int) -> tuple[float, float]:
    """Return (submits per second, executed runs per second) with one process doing everything."""
    registry = noop_registry()
    settings = settings_for(location, slots=SLOTS)
    async with open_engine(settings, registry=registry) as engine:
        submits = await load(engine, count)
        worker = make_worker(engine.gateway, settings, registry, telemetry=engine.telemetry)
        before = time.perf_counter()
        await worker.start()
        while worker.counters.succeeded_or_failed < count:
            await asyncio.sleep(0.01)
        taken = time.perf_counter() - before
        await worker.stop(grace=1)
    return submits, count / taken


async def bulk_submit(dsn: str, count: int) -> float:
    """Return submits per second into PostgreSQL."""
    async with open_engine(
        settings_for(dsn, slots=0), registry=noop_registry(), with_scheduler=False
    ) as engine:
        return await load(engine, count)


async def check_succeeded(database: str, count: int) -> None:
    """Make sure that a measurement is one of work done.

    Raises:
        RuntimeError: not so many runs have succeeded.
    """
    connection = await asyncpg.connect(database)
    try:
        done = await connection.fetchval(SUCCEEDED)
    finally:
        await connection.close()
    if done != count:
        raise RuntimeError(f"{done} of {count} runs succeeded")


async def vacuum(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("VACUUM ANALYZE")
    await connection.close()


async def start_lag(location: str, count: int, seconds: float) -> list[float]:
    """Return start minus due in ms, sorted, of `count` one-off jobs due evenly over so many seconds."""
    lags: list[float] = []
    engines: list[Engine] = []

    async def stamp() -> None:
        lags.append((engines[0].clock.now() - current_attempt().due_at).total_seconds() * 1000)

    registry = FunctionRegistry()
    registry.add("stamp", stamp)
    settings = settings_for(location, slots=200)
    async with (
        open_engine(settings, registry=registry) as engine,
        run_embedded_worker(engine, settings, registry),
    ):
        engines.append(engine)
        first_due = engine.clock.now() + timedelta(seconds=2)
        bodies = [
            {
                "name": f"stamp-{index}",
                "function": "stamp",
                "run_at": (first_due + timedelta(seconds=seconds * index / count)).isoformat(),
            }
            for index in range(count)
        ]
        await engine.client.jobs.create_many("default", bodies)
        deadline = time.monotonic() + seconds + 10
        while len(lags) < count and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
    assert len(lags) == count, f"{len(lags)} of {count} ran"
    return sorted(lags)


async def wakeup_lag(dsn: str, count: int) -> list[float]:
    """Return ms, sorted, from a submit on one server to the answer of a long poll that waits at another."""
    settings = settings_for(dsn, slots=0)
    lags = []
    async with (
        open_engine(settings, registry=noop_registry(), with_scheduler=False) as front,
        open_engine(settings, with_scheduler=False) as back,
    ):
        job = await front.client.jobs.create("default", {"name": "noop", "function": "noop"})
        offer = Registration(name="bench", host="here", pid=1, slots=count, functions=("noop",))
        session = await back.gateway.register(offer)
        for number in range(1, count + 1):
            call = ClaimCall(
                session_id=session.id, number=number, limit=1, wait=timedelta(seconds=30), is_idle=False
            )
            waiting = asyncio.create_task(back.gateway.claim(call))
            await asyncio.sleep(0.05)
            before = time.perf_counter()
            await front.client.runs.submit("default", Submission(job_id=job.id))
            assert (await waiting).leases
            lags.append((time.perf_counter() - before) * 1000)
    return sorted(lags)


@asynccontextmanager
async def fresh_database(dsn: str) -> AsyncIterator[str]:
    """Make an empty database on the server and drop it afterwards."""
    name = f"bench_{time.time_ns()}"
    admin = await asyncpg.connect(f"{dsn}/postgres")
    await _make_log_ahead(admin)
    await admin.execute(f"CREATE DATABASE {name}")
    try:
        if IS_OPERATED in os.environ:
            await asyncio.to_thread(open_account, f"{dsn}/{name}")
        yield f"{dsn}/{name}"
    finally:
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await admin.close()


async def _make_log_ahead(admin: asyncpg.Connection[asyncpg.Record]) -> None:
    """See that the next files of the write-ahead log exist, as on a server that has worked for a while.

    A new one has none and makes each when it is needed: 16 MB of zeros and a flush, for which all commits wait. Whoever
    comes first, and whoever writes most, would pay for what no user meets again. A checkpoint makes new files of the
    old ones (`min_wal_size`).
    """
    count = "SELECT count(*) FROM pg_ls_waldir() WHERE name > pg_walfile_name(pg_current_wal_lsn())"
    missing = LOG_AHEAD - await admin.fetchval(count)
    if missing > 0:
        for _ in range(missing):
            await admin.execute("SELECT pg_logical_emit_message(true, 'benchmark', ''), pg_switch_wal()")
        await admin.execute("CHECKPOINT")


async def measure(quick: bool, dsn: str | None) -> list[Row]:
    count = 10_000 if quick else 100_000
    due, seconds = (100, 1.0) if quick else (1000, 10.0)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        submits, executed = await throughput_one_process(f"sqlite://{Path(folder) / 'throughput'}", count)
        rows += [
            submit_row("SQLite, one process", submits),
            {"name": "no-op jobs executed, SQLite, one process", "value": round(executed), "unit": "runs/s"},
        ]
        rows += lag_rows("SQLite", await start_lag(f"sqlite://{Path(folder) / 'lag'}", due, seconds))
    if dsn is not None:
        async with fresh_database(dsn) as database:
            rows.append(submit_row("PostgreSQL", await bulk_submit(database, count)))
        async with fresh_database(dsn) as database:
            rows += lag_rows("PostgreSQL", await start_lag(database, due, seconds))
        async with fresh_database(dsn) as database:
            lags = await wakeup_lag(database, 40 if quick else 400)
            rows += lag_rows("PostgreSQL, other server", lags, what="submit to claim")
    return rows


def submit_row(where: str, submits: float) -> Row:
    return {"name": f"bulk submit, {where}", "value": round(submits), "unit": "runs/s"}


def lag_rows(where: str, lags: list[float], *, what: str = "start minus due") -> list[Row]:
    places = {"p50": len(lags) // 2, "p99": int(len(lags) * 0.99), "max": len(lags) - 1}
    return [
        {"name": f"{what}, {name}, {where}", "value": round(lags[place], 2), "unit": "ms"}
        for name, place in places.items()
    ]


def run(quick: bool, dsn: str | None = None) -> list[Row]:
    """Measure; PostgreSQL only where a server's base DSN (without a database) is given."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    settle_memory()
    return uvloop.run(measure(quick, dsn))


if __name__ == "__main__":
    for row in run("--quick" in sys.argv, os.environ.get("MAINSPRING_TEST_POSTGRES")):
        print(f"{row['name']:<60} {row['value']:>12} {row['unit']}")
