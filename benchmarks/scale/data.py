"""Fills a database with jobs, live and finished runs, as the product would have left them after some days.

Set-based SQL into the migrated schema: its indexes, its partitions by day, its ids, definitions that can be decoded.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import asyncpg

from mainspring.core.model import JobSpec, LaneKey, Priority, Target
from mainspring.core.triggers import Interval
from mainspring.ports.codec import encode_spec

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

DAYS = 5
"""Before today, over which the finished runs are spread."""
HELD_BY_EACH = 50
SERVED = ("default", "mail", "reports")
AWAY = "away"
"""A queue that no worker serves: its oldest runs stay the oldest of all."""

_JOB_ID = "('01900000-0000-7000-8000-' || lpad(to_hex({0}), 12, '0'))::uuid"
_ENDED = """
    id, job_id, version, queue, route, tenant, priority, kind, state, reason, due_at, created_at, started_at,
    finished_at, attempt, token, crashes, session_id, payload, result
"""


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is of what.

    Attributes:
        live: live runs, and jobs with a clock.
        fires: jobs that fall due in each second.
    """

    live: int
    finished: int
    fires: int = 200

    @property
    def period(self) -> int:
        """Seconds between two fires of a job; the jobs' instants are spread over all of them."""
        return max(self.live // self.fires, 2)

    @property
    def sessions(self) -> int:
        """Worker sessions that hold the runs that are RUNNING."""
        return max(self.live // 50 // HELD_BY_EACH, 1)

    def __str__(self) -> str:
        return f"{self.live:,} live, {self.finished:,} finished"


def lanes() -> list[LaneKey]:
    """Return the lanes: queues, routes, tenants and priorities in every combination."""
    return [
        LaneKey(queue, route, f"tenant-{tenant}", priority)
        for tenant in range(10)
        for queue in (*SERVED, AWAY)
        for route in ("function:noop", "http")
        for priority in Priority
        if queue != AWAY or (route == "http" and priority is Priority.MEDIUM)
    ]


def _spec_of(lane: LaneKey, number: int, size: Size, base: datetime) -> JobSpec:
    parameters: dict[str, Any] = {"function": "noop"} if lane.route.startswith("function") else {}
    if not parameters:
        parameters = {"url": "http://127.0.0.1:9/hook", "method": "POST"}
    anchor = base + timedelta(seconds=number % size.period)
    return JobSpec(
        name=f"job-{number}",
        target=Target(lane.route.partition(":")[0], parameters),
        trigger=Interval(timedelta(seconds=size.period), anchor),
        priority=lane.priority,
        queue=lane.queue,
    )


async def load(dsn: str, size: Size) -> None:
    """Fill a migrated database; statistics are fresh and everything is visible to all at the end."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(
            "SELECT prepare_history(now() - $1::interval, $2)", timedelta(days=DAYS), DAYS + 2
        )
        specs = await _add_patterns(connection, size)
        await _add_jobs(connection, size, specs)
        await _add_history(dsn, size, specs)
        await _add_live(connection, size, specs)
        await _add_clocks(connection, size, specs)
        await connection.execute("DROP TABLE pattern")
        await connection.execute("VACUUM (ANALYZE)")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()


async def _add_patterns(connection: Connection, size: Size) -> int:
    """Make a table with a definition and a lane for each pattern; job n follows pattern n modulo their number."""
    keys = lanes()
    await connection.executemany(
        "INSERT INTO lane (queue, route, tenant, priority) VALUES ($1, $2, $3, $4)",
        [(key.queue, key.route, key.tenant, key.priority) for key in keys],
    )
    count = size.period * -(-len(keys) // size.period) if size.period < len(keys) else size.period
    base = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=2 * size.period)
    await connection.execute(
        "CREATE UNLOGGED TABLE pattern (number bigint PRIMARY KEY, spec bytea, fire_at timestamptz, lane_id bigint,"
        " queue text, route text, tenant text, priority smallint)"
    )
    rows = []
    for number in range(count):
        key = keys[number % len(keys)]
        spec = encode_spec(_spec_of(key, number, size, base))
        first = base + timedelta(seconds=number % size.period)
        rows.append((number, spec, first, *(key.queue, key.route, key.tenant, key.priority)))
    await connection.executemany(
        "INSERT INTO pattern SELECT $1, $2, $3, lane.id, queue, route, tenant, priority FROM lane"
        " WHERE (queue, route, tenant, priority) = ($4::text, $5::text, $6::text, $7::smallint)",
        rows,
    )
    await connection.execute("ANALYZE pattern")
    return count


async def _add_jobs(connection: Connection, size: Size, patterns: int) -> None:
    source = (
        f"SELECT {_JOB_ID.format('n')} AS id, n, pattern.* FROM generate_series(1, {size.live}) AS n"
        f" JOIN pattern ON pattern.number = n % {patterns}"
    )
    await connection.execute(
        "INSERT INTO job (id, shard, tenant, name, version, created_at, updated_at)"
        f" SELECT id, n % 256, tenant, 'job-' || n, 1, now(), now() FROM ({source}) AS new"
    )
    await connection.execute(
        "INSERT INTO job_version (job_id, version, spec, created_at)"
        f" SELECT id, 1, spec, now() FROM ({source}) AS new"
    )


async def _add_clocks(connection: Connection, size: Size, patterns: int) -> None:
    """Set the clocks to the first instants of the jobs' own grids that are yet to come."""
    soon = datetime.now(UTC) + timedelta(seconds=5)
    await connection.execute(
        f"""
        INSERT INTO job_clock (job_id, shard, priority, revision, next_fire_at, due_at, fired_through)
        SELECT {_JOB_ID.format("n")}, n % 256, 1, 1, next_at, next_at, next_at - make_interval(secs => {size.period})
        FROM generate_series(1, {size.live}) AS n JOIN pattern ON pattern.number = n % {patterns}
        CROSS JOIN LATERAL (
            SELECT fire_at + make_interval(
                secs => {size.period} * (floor(extract(epoch FROM $1::timestamptz - fire_at) / {size.period}) + 1)
            ) AS next_at
        ) AS following
        """,
        soon,
    )


async def _add_history(dsn: str, size: Size, patterns: int) -> None:
    """Add the finished runs, a day's in each statement, two statements at a time."""
    each = size.finished // (DAYS + 1)
    waiting = iter(range(DAYS + 1))

    async def add_days() -> None:
        connection = await asyncpg.connect(dsn)
        try:
            for day in waiting:
                await connection.execute(_history_of(day, each, size, patterns))
        finally:
            await connection.close()

    await asyncio.gather(add_days(), add_days())
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(_dead_of(size, patterns))
        await connection.execute(
            "INSERT INTO attempt (run_id, token, number, outcome, worker, started_at, finished_at, error)"
            " SELECT id, number, number, 'failed', 'worker', started_at, finished_at, 'refused'"
            " FROM dead_run CROSS JOIN generate_series(1, 4) AS number"
        )
    finally:
        await connection.close()


def _ended(number: str, size: Size, patterns: int, *, state: str, finished_at: str) -> str:
    job = f"(({number}) * 7919 % {size.live} + 1)"
    return f"""
        ({number}) * 256 + {job} % 256, {_JOB_ID.format(job)}, 1, queue, route, tenant, priority, 'manual', {state},
        NULL, {finished_at} - interval '9 seconds', {finished_at} - interval '9 seconds',
        {finished_at} - interval '1 second', {finished_at}, 1, 1, 0, 1, '{{"number": 1, "of": "what is to be done"}}',
        'null'
        FROM generate_series(1, {{count}}) AS n JOIN pattern ON pattern.number = {job} % {patterns}
    """


def _history_of(day: int, count: int, size: Size, patterns: int) -> str:
    """Return the statement that adds the runs of one day, the oldest first; the last day is today so far."""
    first = f"(date_trunc('day', now()) - interval '{DAYS - day} days')"
    length = "(now() - date_trunc('day', now()))" if day == DAYS else "interval '86399 seconds'"
    states = "CASE WHEN n % 50 = 0 THEN 'SKIPPED' WHEN n % 99 = 0 THEN 'CANCELLED' ELSE 'SUCCEEDED' END"
    finished_at = f"{first} + {length} * (n / {count}.0)"
    rows = _ended(f"n + {day * count}::bigint", size, patterns, state=states, finished_at=finished_at)
    return f"INSERT INTO run_history ({_ENDED}) SELECT {rows.replace('{count}', str(count))}"


def _dead_of(size: Size, patterns: int) -> str:
    count = max(size.finished // 500, 1)
    at = f"now() - interval '{DAYS} days' * (n / {count}.0)"
    rows = _ended(f"n + {size.finished}::bigint", size, patterns, state="'FAILED'", finished_at=at)
    return f"INSERT INTO dead_run ({_ENDED}) SELECT {rows.replace('{count}', str(count))}"


async def _add_live(connection: Connection, size: Size, patterns: int) -> None:
    """Add the live runs: of 100, two RUNNING, two delayed, one BLOCKED, and the rest ready for up to an hour."""
    before = size.finished + size.finished // 500 + 1
    await connection.execute(
        "INSERT INTO session (worker, host, pid, slots, queues, types, functions, labels, started_at, last_beat_at)"
        f" SELECT 'held-' || n, 'here', 1, {HELD_BY_EACH}, '{{}}', '{{}}', '{{}}', '{{}}', now(), now()"
        f" FROM generate_series(1, {size.sessions}) AS n"
    )
    await connection.execute(
        f"""
        INSERT INTO run (
            id, job_id, version, lane_id, kind, state, due_at, ready_at, created_at, timeout_ms, payload, token,
            session_id, claim_number, started_at, deadline_at
        )
        SELECT
            ({before}::bigint + n) * 256 + n % 256, {_JOB_ID.format("n")}, 1, lane_id, 'manual', state, ready_at,
            ready_at, now() - interval '1 hour', 86400000, '{{"number": 1, "of": "what is to be done"}}',
            CASE WHEN state = 'RUNNING' THEN 1 ELSE 0 END,
            CASE WHEN state = 'RUNNING' THEN n / 50 % {size.sessions} + 1 END,
            CASE WHEN state = 'RUNNING' THEN 0 END, CASE WHEN state = 'RUNNING' THEN now() END,
            CASE WHEN state = 'RUNNING' THEN now() + interval '1 day' END
        FROM (
            SELECT
                n, CASE n % 100 WHEN 0 THEN 'RUNNING' WHEN 50 THEN 'RUNNING' WHEN 2 THEN 'RETRYING'
                    WHEN 3 THEN 'BLOCKED' ELSE 'PENDING' END AS state,
                CASE WHEN n % 100 IN (2, 4) THEN now() + interval '2 hours' + interval '1 hour' * (n / {size.live}.0)
                    ELSE now() - interval '1 hour' * (1 - n / {size.live}.0) END AS ready_at
            FROM generate_series(1, {size.live}) AS n
        ) AS new
        JOIN pattern ON pattern.number = n % {patterns}
        """
    )
    await connection.execute("SELECT setval('run_sequence', $1)", before + size.live + 1)
