"""Jobs on pgqueuer, in its own environment, on DATABASE_URL; `contestants.Contestant` says what it is called with."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer, Queries
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job

from benchmarks.peers import notes

CHUNK = 1000
CONNECTIONS = 10
BATCHES = {"drain": 1000, "idle": 100, "crash": 10}
"""The last is what it has by itself."""


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


async def submit(dsn: str, chunk: int, at_once: int, seconds: float) -> None:
    driver: Any
    if at_once > 1:
        pool = await asyncpg.create_pool(dsn, min_size=CONNECTIONS, max_size=CONNECTIONS)
        driver = AsyncpgPoolDriver(pool)
    else:
        driver = AsyncpgDriver(await asyncpg.connect(dsn))
    queries = Queries(driver)

    async def call() -> None:
        if chunk > 1:
            await queries.enqueue(["noop"] * chunk, [None] * chunk, [0] * chunk)
        else:
            await queries.enqueue("noop", None)

    await notes.hammer(call, chunk=chunk, at_once=at_once, seconds=seconds)


async def feed(dsn: str, backlog: int, seconds: float) -> None:
    queries = Queries(AsyncpgDriver(await asyncpg.connect(dsn)))

    async def call() -> None:
        await queries.enqueue(["noop"] * CHUNK, [None] * CHUNK, [0] * CHUNK)

    await notes.feed(call, chunk=CHUNK, backlog=backlog, seconds=seconds)


async def ping(dsn: str, count: int, gap: float) -> None:
    queries = Queries(AsyncpgDriver(await asyncpg.connect(dsn)))
    await notes.ping(lambda at: queries.enqueue("stamp", b"%.6f" % at), count=count, gap=gap)


async def hold(dsn: str) -> None:
    await Queries(AsyncpgDriver(await asyncpg.connect(dsn))).enqueue("hold", None)


async def work(dsn: str, purpose: str) -> None:
    queuer = PgQueuer(AsyncpgDriver(await asyncpg.connect(dsn)))

    @queuer.entrypoint("noop")
    async def noop(job: Job) -> None:
        del job
        notes.note_job()

    @queuer.entrypoint("stamp")
    async def stamp(job: Job) -> None:
        notes.note_stamp(float(job.payload))

    @queuer.entrypoint("hold")
    async def hold_slot(job: Job) -> None:
        del job
        notes.note_start()
        await asyncio.sleep(30)

    await queuer.run(batch_size=BATCHES[purpose], dequeue_timeout=timedelta(seconds=30))


def main() -> None:
    dsn = os.environ["DATABASE_URL"]
    match sys.argv[1:]:
        case ["prepare"]:
            uvloop.run(prepare(dsn))
        case ["load", count]:
            uvloop.run(load(dsn, int(count)))
        case ["submit", chunk, at_once, seconds]:
            uvloop.run(submit(dsn, int(chunk), int(at_once), float(seconds)))
        case ["feed", backlog, seconds]:
            uvloop.run(feed(dsn, int(backlog), float(seconds)))
        case ["ping", count, gap]:
            uvloop.run(ping(dsn, int(count), float(gap)))
        case ["hold"]:
            uvloop.run(hold(dsn))
        case ["work", purpose]:
            uvloop.run(work(dsn, purpose))


if __name__ == "__main__":
    main()
