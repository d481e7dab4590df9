"""What claim, apply, fire and the due window cost over many live and finished runs, and while a transaction stays open.

The product's own engine works at a steady rate on a database that is full; see docs/explanation/scale.md.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg
import uvloop

from benchmarks.engine import fresh_database
from benchmarks.scale.data import Size, load
from benchmarks.scale.drive import Load, run_engine
from benchmarks.scale.figures import Phase, Row, figures_of, plans_of, table_of
from benchmarks.scale.observe import Observations, sample_plans
from mainspring.stores.postgres import PostgresStore

SAMPLE_RATE = 0.05
QUICK = Size(live=4_000, finished=20_000, fires=50)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured.

    Attributes:
        open_seconds: how long the transaction stays open.
        window: seconds over which the figures of one moment are taken.
        rate: runs carried out in a second all along.
    """

    size: Size
    open_seconds: float
    window: float
    rate: int


@dataclass(slots=True)
class Outcome:
    """The figures of one database, with the plans of its phases as text."""

    phases: list[Phase]
    rows: list[Row]
    plans: list[str]
    behind: int
    refused: int


async def measure_one(server: str, plan: Plan) -> Outcome:
    """Fill a database, keep it busy, and take the figures before and while a transaction is open."""
    async with fresh_database(server) as dsn:
        observations = Observations()
        store = PostgresStore(dsn, random=random.Random(1))
        sample_plans(store, observations, rate=SAMPLE_RATE)
        await store.open()
        try:
            before = time.monotonic()
            await load(dsn, plan.size)
            say(f"{plan.size}: loaded in {time.monotonic() - before:.0f} s, {await size_of(dsn)}")
            async with run_engine(store, observations) as engine:
                work = Load(engine, plan.size, plan.rate)
                await work.start(dsn)
                try:
                    phases = await watch(dsn, plan, work)
                finally:
                    await work.stop()
        finally:
            await store.close()
    rows = [row for phase in phases for row in figures_of(observations, phase)]
    plans = [line for phase in (phases[0], phases[-1]) for line in plans_of(observations, phase)]
    return Outcome(phases, rows, plans, work.behind, work.refused)


async def watch(dsn: str, plan: Plan, work: Load) -> list[Phase]:
    """Wait through the phases: settled, and, where a transaction is to be open, at its start, middle and end."""
    await stay(plan.window / 2, work)  # caches fill, the first full sweeps are over
    phases = [await take("no other transaction", dsn, plan, work)]
    if not plan.open_seconds:
        return phases
    async with open_transaction(dsn):
        opened = time.monotonic()
        phases.append(await take("open just now", dsn, plan, work))
        for share in (0.5, 1):
            await stay(opened + plan.open_seconds * share - time.monotonic(), work)
            phases.append(await take(f"open for {plan.open_seconds * share:.0f} s", dsn, plan, work))
    return phases


async def stay(seconds: float, work: Load) -> None:
    """Let time pass while the load goes on."""
    await asyncio.sleep(max(seconds, 0))
    work.check()


async def take(name: str, dsn: str, plan: Plan, work: Load) -> Phase:
    """Let the window of a phase pass."""
    begin = time.monotonic()
    await stay(plan.window, work)
    connection = await asyncpg.connect(dsn)
    dead = await connection.fetchval("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'run'")
    await connection.close()
    say(f"{name}: {dead:,} dead rows in the table of live runs")
    return Phase(name, begin, time.monotonic(), dead)


@asynccontextmanager
async def open_transaction(dsn: str) -> AsyncIterator[None]:
    """Hold a snapshot, as a backup or a forgotten session does, so that nothing that ends after it can be cleared."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await connection.fetchval("SELECT count(*) FROM lane")
        yield
    finally:
        await connection.close()


async def size_of(dsn: str) -> str:
    connection = await asyncpg.connect(dsn)
    try:
        size: str = await connection.fetchval("SELECT pg_size_pretty(pg_database_size(current_database()))")
    finally:
        await connection.close()
    return size


def say(line: str) -> None:
    print(f"# {line}", file=sys.stderr, flush=True)


async def compare(server: str, small: Plan, large: Plan) -> tuple[Outcome, Outcome]:
    """Measure the same at a small and at a large size."""
    return await measure_one(server, small), await measure_one(server, large)


def measure(live: int, finished: int, open_seconds: float, rate: int, fires: int) -> tuple[Outcome, Outcome]:
    """Measure at a hundredth of a size and at the size itself.

    Raises:
        SystemExit: there is no PostgreSQL.
    """
    server = os.environ.get("MAINSPRING_TEST_POSTGRES")
    if not server:
        raise SystemExit("no PostgreSQL; run this by scripts/services run --durable -- …")
    window = min(max(open_seconds / 10, 5), 60)
    small = Size(max(live // 100, 2_000), max(finished // 100, 20_000), fires)
    return uvloop.run(
        compare(
            server,
            Plan(small, 0, window, rate),
            Plan(Size(live, finished, fires), open_seconds, window, rate),
        )
    )


def report(small: Outcome, large: Outcome) -> list[str]:
    """Return all of it as text."""
    base = [row | {"phase": "a hundredth of the size"} for row in small.rows]
    lines = table_of([*base, *large.rows])
    lines += ["", "Dead rows of the table of live runs at the end of each phase:"]
    lines += [f"- {phase.name}: {phase.dead:,}" for phase in large.phases]
    lines += ["", f"Runs that the engine was too slow for: {small.behind:,} and {large.behind:,}."]
    lines += [f"Calls that the store did not answer in time: {small.refused:,} and {large.refused:,}.", ""]
    return [*lines, *large.plans]


def run(quick: bool, dsn: str | None = None) -> list[Row]:
    """Measure for `make bench`: a small size, and a transaction that is open for seconds, not for minutes."""
    if dsn is None:
        return []
    size = QUICK if quick else Size(live=50_000, finished=200_000)
    seconds = 5.0 if quick else 60.0
    outcome = uvloop.run(measure_one(dsn, Plan(size, seconds, min(seconds, 10), 400)))
    return [
        {"name": f"{row['verb']}, {row['phase']}, {place}", "value": row[place], "unit": "ms"}
        for row in outcome.rows
        for place in ("p50", "p99")
    ]


__all__ = ["measure", "measure_one", "report", "run"]
