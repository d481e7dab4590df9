"""What a run costs over 1,000, 100,000 and 10,000,000 stored jobs, and, where asked, over as many runs that wait.

Two worker processes straight on PostgreSQL carry out no-op runs; everything that a run has in normal use is on. The
runs belong to jobs spread evenly over all that are stored, as many at every size, and fall due at one instant, when the
workers have long been up: from there until the store has none of them left, the processor time of the workers and of
PostgreSQL's backends is read from /proc. The jobs (definition, version and clock, one in an hour) are added by SQL to
the tables that the product itself fills; those that wait are runs of them, due in some hours.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import asyncpg
import structlog
import uvloop

from benchmarks.engine import CHUNK, SUCCEEDED, fresh_database, settings_for
from benchmarks.idle import cpu_seconds
from benchmarks.peers import find_contestants
from benchmarks.report import OURS, Row, publish
from mainspring.core.ids import JobId
from mainspring.core.model import JobSpec, Target
from mainspring.core.triggers import Interval
from mainspring.engine.assembly import Engine
from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.codec import encode_spec
from mainspring.runtime import open_engine

SIZES = (1_000, 100_000, 10_000_000)
SPREAD = 1_000
"""Jobs among which the runs are spread, at every size: each definition is read, and kept, once by each worker."""
WORKERS = 2
HEADSTART = 1.5
"""Seconds between the end of submitting and the instant at which the runs fall due."""
SUBMITS = 5_000
"""Runs that are submitted in a second at the least."""
START = datetime(2026, 1, 1, tzinfo=UTC)
PATIENCE = 60.0
_JOB_ID = "('01900000-0000-7000-8000-' || lpad(to_hex({0}), 12, '0'))::uuid"


@dataclass(frozen=True, slots=True)
class Setup:
    """What is measured.

    Attributes:
        sizes: stored jobs, growing.
        waiting: for each stored job one run that waits, too.
        runs: in each round.
    """

    sizes: tuple[int, ...] = SIZES
    waiting: bool = False
    runs: int = 30_000
    rounds: int = 3


@dataclass(slots=True)
class Cost:
    """What the runs of one round took: microseconds of processor time, or of wall time, each."""

    workers: float
    backends: float
    wall: float

    @property
    def spent(self) -> float:
        """Processor time of workers and backends."""
        return self.workers + self.backends


@dataclass(slots=True)
class Found:
    """What was measured at one size."""

    size: int
    costs: list[Cost] = field(default_factory=list)
    stored: str = ""


async def add_jobs(dsn: str, first: int, last: int) -> None:
    """Store the jobs from one number to another, on two connections."""
    middle = (first + last) // 2
    await asyncio.gather(_add_jobs(dsn, first, middle), _add_jobs(dsn, middle + 1, last))


async def _add_jobs(dsn: str, first: int, last: int) -> None:
    spec = JobSpec(
        name="stored",
        target=Target("function", {"function": "noop"}),
        trigger=Interval(timedelta(hours=1), START),
    )
    numbers = f"FROM generate_series({first}::bigint, {last}::bigint) AS n"
    job_id = _JOB_ID.format("n")
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(
            "INSERT INTO job (id, shard, tenant, name, version, created_at, updated_at)"
            f" SELECT {job_id}, n % 256, 'default', 'job-' || lpad(n::text, 9, '0'), 1, now(), now() {numbers}"
        )
        await connection.execute(
            "INSERT INTO job_version (job_id, version, spec, created_at)"
            f" SELECT {job_id}, 1, $1, now() {numbers}",
            encode_spec(spec),
        )
        await connection.execute(
            "INSERT INTO job_clock (job_id, shard, priority, revision, next_fire_at, due_at, fired_through)"
            f" SELECT {job_id}, n % 256, 1, 1, now() + interval '1 hour', now() + interval '1 hour', now() {numbers}"
        )
    finally:
        await connection.close()


async def add_waiting(dsn: str, first: int, last: int) -> None:
    """Give each of these jobs a run that waits for some hours."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(
            f"""
            INSERT INTO run (
                id, job_id, version, lane_id, kind, state, due_at, ready_at, created_at, timeout_ms, token
            )
            SELECT nextval('run_sequence') * 256 + n % 256, {_JOB_ID.format("n")}, 1,
                (SELECT id FROM lane WHERE route = 'function:noop' AND priority = 1), 'manual', 'PENDING',
                at, at, now(), 3600000, 0
            FROM generate_series({first}::bigint, {last}::bigint) AS n
            CROSS JOIN LATERAL (SELECT now() + interval '4 hours' + n * interval '1 millisecond' AS at) AS due
            """
        )
    finally:
        await connection.close()


async def settle(dsn: str) -> str:
    """Make the statistics fresh and everything visible to all; return the database's size."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("VACUUM (ANALYZE)")
        await connection.execute("CHECKPOINT")
        size: str = await connection.fetchval("SELECT pg_size_pretty(pg_database_size(current_database()))")
    finally:
        await connection.close()
    return size


@asynccontextmanager
async def run_workers(dsn: str, count: int) -> AsyncIterator[list[int]]:
    """Run workers straight on the store until the block ends; yields their process ids."""
    (ours,) = find_contestants(with_peers=False)
    with tempfile.TemporaryDirectory() as folder:
        workers = [ours.start_worker(dsn, Path(folder)) for _ in range(count)]
        try:
            yield [worker.pid for worker in workers]
        finally:
            end_all(workers)


def end_all(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes, together."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def backend_seconds(looker: asyncpg.Connection[asyncpg.Record]) -> float:
    rows = await looker.fetch(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'mainspring%'"
    )
    return sum(cpu_seconds(row["pid"]) for row in rows)


async def submit(engine: Engine, jobs: Sequence[JobId], count: int, seconds: float) -> None:
    """Submit runs of these jobs in turn, all due at one instant."""
    due_at = engine.clock.now() + timedelta(seconds=seconds)
    for first in range(0, count, CHUNK):
        submissions = [
            Submission(job_id=jobs[number % len(jobs)], run_at=due_at)
            for number in range(first, min(first + CHUNK, count))
        ]
        await engine.client.runs.submit_many("default", submissions)


async def time_round(
    engine: Engine,
    looker: asyncpg.Connection[asyncpg.Record],
    workers: Sequence[int],
    jobs: Sequence[JobId],
    count: int,
) -> Cost:
    """Submit runs, let them be carried out, and return what each took."""
    before_all = await looker.fetchval("SELECT last_value * 256 FROM run_sequence")
    done_before = await looker.fetchval(SUCCEEDED)
    ahead = count / SUBMITS + HEADSTART
    due_at = time.monotonic() + ahead
    await submit(engine, jobs, count, ahead)
    assert time.monotonic() < due_at, "submitting took longer than was allowed for"
    await asyncio.sleep(max(due_at - time.monotonic() - 0.02, 0))
    spent, busy = sum(map(cpu_seconds, workers)), await backend_seconds(looker)
    await asyncio.sleep(max(due_at - time.monotonic(), 0))
    while await looker.fetchval("SELECT EXISTS (SELECT FROM run WHERE id > $1 + 255)", before_all):
        assert time.monotonic() - due_at < PATIENCE, "the runs did not come to an end"
        await asyncio.sleep(0.02)
    wall = time.monotonic() - due_at
    spent, busy = sum(map(cpu_seconds, workers)) - spent, await backend_seconds(looker) - busy
    done = await looker.fetchval(SUCCEEDED) - done_before
    assert done == count, f"{done} of {count} runs succeeded"
    return Cost(*(1e6 * seconds / count for seconds in (spent, busy, wall)))


async def measure_size(dsn: str, size: int, setup: Setup) -> list[Cost]:
    """Measure with what is stored by now; the first round only warms everything up."""
    count = min(SPREAD, size)
    jobs = [
        JobId(UUID(f"01900000-0000-7000-8000-{1 + number * size // count:012x}")) for number in range(count)
    ]
    looker = await asyncpg.connect(dsn, server_settings={"application_name": "bench"})
    try:
        async with (
            run_workers(dsn, WORKERS) as workers,
            open_engine(settings_for(dsn, slots=0), with_scheduler=False) as engine,
        ):
            while await looker.fetchval("SELECT count(*) FROM session WHERE state = 'live'") < WORKERS:
                await asyncio.sleep(0.05)
            costs = [
                await time_round(engine, looker, workers, jobs, setup.runs) for _ in range(setup.rounds + 1)
            ]
    finally:
        await looker.close()
    return costs[1:]


async def measure(server: str, setup: Setup) -> list[Row]:
    async with fresh_database(server) as dsn:
        async with open_engine(settings_for(dsn, slots=0), with_scheduler=False):
            """Opening it is enough: the schema is made."""
        return await measure_on(dsn, setup)


async def measure_on(dsn: str, setup: Setup) -> list[Row]:
    """Measure on an empty database, which grows."""
    everything = []
    done = 0
    for size in setup.sizes:
        begin = time.monotonic()
        await add_jobs(dsn, done + 1, size)
        if setup.waiting:
            await add_waiting(dsn, done + 1, size)
        stored = await settle(dsn)
        print(f"# {size:,} jobs stored in {time.monotonic() - begin:.0f} s: {stored}", file=sys.stderr)
        everything.append(Found(size, await measure_size(dsn, size, setup), stored))
        done = size
    return rows_of(everything, setup)


def rows_of(everything: Sequence[Found], setup: Setup) -> list[Row]:
    rows: list[Row] = []
    name = "stored jobs, as many waiting runs" if setup.waiting else "stored jobs"
    first = statistics.median(cost.spent for cost in everything[0].costs)
    for found in everything:
        spent = [cost.spent for cost in found.costs]
        middle = statistics.median(spent)
        detail = {
            "workers, µs": round(statistics.median(cost.workers for cost in found.costs), 1),
            "backends, µs": round(statistics.median(cost.backends for cost in found.costs), 1),
            "wall, µs": round(statistics.median(cost.wall for cost in found.costs), 1),
            "of the smallest, %": round(100 * middle / first),
            "database": found.stored,
        }
        rows.append(
            {
                "name": f"processor time of a run, {found.size:,} {name}",
                "contestant": OURS,
                "value": round(middle, 1),
                "unit": "µs",
                "low": round(min(spent), 1),
                "high": round(max(spent), 1),
                "detail": detail,
            }
        )
        if found is not everything[0]:  # to be seen beside it
            beside = f"{everything[0].size:,} jobs"
            rows.append({**rows[0], "name": rows[-1]["name"], "contestant": beside})
    return rows


def run(quick: bool, dsn: str | None = None) -> list[Row]:
    """Measure for `make bench`, up to 100,000 jobs; nothing without PostgreSQL."""
    if dsn is None:
        return []
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    setup = Setup((1_000, 20_000), runs=5_000, rounds=1) if quick else Setup(SIZES[:2])
    return uvloop.run(measure(dsn, setup))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="stored jobs, growing")
    parser.add_argument("--waiting", action="store_true", help="also with as many runs that wait")
    parser.add_argument("--runs", type=int, default=30_000, help="in each round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    server = os.environ.get("MAINSPRING_TEST_POSTGRES")
    if not server:
        raise SystemExit("no PostgreSQL; run this by scripts/services run --durable -- …")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    setup = Setup(tuple(options.sizes), options.waiting, options.runs, options.rounds)
    publish("growth", uvloop.run(measure(server, setup)))


if __name__ == "__main__":
    main()
