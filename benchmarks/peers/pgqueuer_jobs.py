"""No-op jobs on pgqueuer, in its own environment: `prepare`, `load COUNT`, `work`, on DATABASE_URL."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path

import asyncpg
import uvloop
from pgqueuer import PgQueuer, Queries
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job

CHUNK = 1000
_to_be_noted = ["the first job"]


async def prepare(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()


async def load(dsn: str, count: int) -> None:
    connection = await asyncpg.connect(dsn)
    queries = Queries(AsyncpgDriver(connection))
    for _ in range(count // CHUNK):
        await queries.enqueue(["noop"] * CHUNK, [None] * CHUNK, [0] * CHUNK)
    await connection.close()


async def work(dsn: str) -> None:
    queuer = PgQueuer(AsyncpgDriver(await asyncpg.connect(dsn)))

    @queuer.entrypoint("noop")
    async def noop(job: Job) -> None:
        del job
        if _to_be_noted:
            _to_be_noted.clear()
            (Path(os.environ["BENCHMARK_FIRST_JOBS"]) / str(os.getpid())).touch()

    await queuer.run(batch_size=CHUNK, dequeue_timeout=timedelta(seconds=30))


def main() -> None:
    dsn = os.environ["DATABASE_URL"]
    match sys.argv[1:]:
        case ["prepare"]:
            uvloop.run(prepare(dsn))
        case ["load", count]:
            uvloop.run(load(dsn, int(count)))
        case ["work"]:
            uvloop.run(work(dsn))


if __name__ == "__main__":
    main()
