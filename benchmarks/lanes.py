"""What many lanes cost a claim: 30,000 tenants, 1,000 functions, and one run beside 1,000,000 of another tenant.

An engine in this process stands on PostgreSQL, and claims come one after another, as from one worker. Nothing is
executed. A claim that takes a run writes it durably, so the same is measured with ten lanes, for comparison. The choice
is the processor time that the order of the lanes takes for a claim.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from statistics import median

import asyncpg
import uvloop

from benchmarks.engine import fresh_database, settings_for
from benchmarks.report import Row, publish
from mainspring.core.ids import LaneId, SessionId
from mainspring.core.reach import Reach
from mainspring.engine.assembly import Engine
from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.gateway import ClaimCall, ClaimReply, Registration
from mainspring.registry import FunctionRegistry
from mainspring.runtime import open_engine

LANES = 30_000
FUNCTIONS = 1_000
BACKLOG = 1_000_000
RUNS = 4
"""Runs of each lane."""
CLAIMS = 200
SETTLING = 5.0
"""Seconds until all lanes were looked at more than once."""

FILL_LANES = """
INSERT INTO lane (queue, route, tenant, priority)
SELECT 'default', $1 || (n % $2), 't' || (n / $2), 1 FROM generate_series(0, $3::int - 1) AS n
"""
FILL_RUNS = """
INSERT INTO run (id, job_id, version, lane_id, kind, state, due_at, ready_at, created_at, timeout_ms)
SELECT nextval('run_sequence') * 256 + $2, $1, 1, lane.id, 'manual', 'PENDING', at, at, at, 3600000
FROM lane, generate_series(1, $3::int) AS round,
    LATERAL (SELECT now() - interval '1 hour' + (round * 1000 + lane.id % 997) * interval '1 ms') AS ready (at)
WHERE lane.tenant LIKE $4
"""


async def noop() -> None:
    """It is never executed."""


def registry_of(functions: int) -> FunctionRegistry:
    registry = FunctionRegistry()
    for number in range(functions):
        registry.add(f"f{number}", noop)
    return registry


class Claims:
    """Claims of one session, one after another, and what the order of the lanes took for each."""

    def __init__(self, engine: Engine, session_id: SessionId) -> None:
        self._engine = engine
        self._session_id = session_id
        self._number = 0
        self.choices: list[float] = []
        order = engine.matcher.order
        choose = order.choose

        def measured(reach: Reach, seats: int, now: datetime) -> Mapping[LaneId, int]:
            before = time.thread_time()
            try:
                return choose(reach, seats, now)
            finally:
                self.choices.append((time.thread_time() - before) * 1000)

        order.choose = measured  # type: ignore[method-assign, assignment]

    async def claim(self, limit: int) -> tuple[ClaimReply, float]:
        """Return the answer and how long it took, in ms."""
        self._number += 1
        call = ClaimCall(
            session_id=self._session_id,
            number=self._number,
            limit=limit,
            wait=timedelta(seconds=30),
            is_idle=False,
        )
        before = time.perf_counter()
        reply = await self._engine.gateway.claim(call)
        return reply, (time.perf_counter() - before) * 1000


async def measure(server: str, lanes: int, functions: int, limit: int) -> list[Row]:
    """Return what claims of so many runs take beside so many lanes."""
    registry = registry_of(functions)
    async with (
        fresh_database(server) as dsn,
        open_engine(settings_for(dsn, slots=0), registry=registry, with_scheduler=False) as engine,
    ):
        await _fill(engine, dsn, lanes, functions, runs=max(RUNS, 2 * CLAIMS * limit // lanes))
        claims = await _connect(engine, registry)
        begun = time.monotonic()
        while time.monotonic() - begun < SETTLING:
            await claims.claim(1)
            await asyncio.sleep(0.05)
        claims.choices.clear()
        took = []
        for _ in range(CLAIMS):
            reply, ms = await claims.claim(limit)
            assert reply.leases
            took.append(ms)
        title = f"claim of {limit}, {lanes:,} lanes of {functions:,} functions"
        return [
            _row(title, took, "ms"),
            _row(f"{title}: the choice", claims.choices, "ms of processor time"),
        ]


async def measure_beside(server: str, backlog: int) -> list[Row]:
    """Return how many claims, and how long, it takes to find one run beside so many of another tenant."""
    registry = registry_of(1)
    async with (
        fresh_database(server) as dsn,
        open_engine(settings_for(dsn, slots=0), registry=registry, with_scheduler=False) as engine,
    ):
        await _fill(engine, dsn, 1, 1, runs=backlog)
        claims = await _connect(engine, registry)
        await claims.claim(1)
        counts, took = [], []
        job = await engine.client.jobs.create("small", {"name": "small", "function": "f0"})
        for _ in range(20):
            await engine.client.runs.submit("small", Submission(job_id=job.id))
            before, count, is_found = time.perf_counter(), 0, False
            while not is_found:
                reply, _ = await claims.claim(10)
                count += 1
                is_found = any(lease.job_id == job.id for lease in reply.leases)
            counts.append(count)
            took.append((time.perf_counter() - before) * 1000)
        row = _row(f"one run beside {backlog:,} of another tenant is claimed after", took, "ms")
        row["detail"] = {**row["detail"], "claims, at most": max(counts)}
        return [row]


async def _connect(engine: Engine, registry: FunctionRegistry) -> Claims:
    names = tuple(sorted(registry.names()))
    offer = Registration(name="bench", host="here", pid=1, slots=1000, functions=names)
    session = await engine.gateway.register(offer)
    return Claims(engine, session.id)


async def _fill(engine: Engine, dsn: str, lanes: int, functions: int, *, runs: int) -> None:
    job = await engine.client.jobs.create("t0", {"name": "f0", "function": "f0"})
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(FILL_LANES, job.spec.route.removesuffix("0"), functions, lanes, timeout=600)
        await connection.execute(FILL_RUNS, job.id, job.id.bytes[-1], runs, "t%", timeout=600)
        await connection.execute("VACUUM ANALYZE", timeout=600)
    finally:
        await connection.close()


def _row(name: str, values: list[float], unit: str) -> Row:
    ordered = sorted(values)
    detail = {"p99": round(ordered[int(0.99 * (len(ordered) - 1))], 2), "of": len(ordered)}
    return {"name": name, "value": round(median(ordered), 3), "unit": unit, "detail": detail}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lanes", description=__doc__)
    parser.add_argument("--lanes", type=int, default=LANES)
    parser.add_argument("--functions", type=int, default=FUNCTIONS)
    parser.add_argument(
        "--beside", type=int, default=BACKLOG, help="runs of the other tenant; 0: leave this out"
    )
    options = parser.parse_args()
    server = os.environ["MAINSPRING_TEST_POSTGRES"]
    shapes = ((10, 1), (options.lanes, 1), (options.lanes, options.functions))
    for lanes, functions in shapes:
        rows = [row for limit in (1, 100) for row in uvloop.run(measure(server, lanes, functions, limit))]
        publish(f"lanes, {lanes} of {functions}", rows)
    if options.beside:
        publish("lanes, one beside many", uvloop.run(measure_beside(server, options.beside)))


if __name__ == "__main__":
    main()
