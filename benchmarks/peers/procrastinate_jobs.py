"""Jobs on procrastinate, in its own environment, on DATABASE_URL; called as the other contestants are."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Awaitable, Callable

import uvloop
from procrastinate import App, PsycopgConnector

from benchmarks.peers import notes

CHUNK = 1000
CONCURRENCY = 20
# The worker is started as this very script.
logging.getLogger("procrastinate").setLevel(logging.ERROR)
app = App(connector=PsycopgConnector(conninfo=os.environ["DATABASE_URL"], min_size=4, max_size=20))


@app.task(name="noop")
async def noop() -> None:
    notes.note_job()


@app.task(name="stamp")
async def stamp(at: float) -> None:
    notes.note_stamp(at)


async def load(count: int) -> None:
    for _ in range(count // CHUNK):
        await noop.batch_defer_async(*[{}] * CHUNK)


async def submit(chunk: int, at_once: int, seconds: float) -> None:
    async def call() -> None:
        if chunk > 1:
            await noop.batch_defer_async(*[{}] * chunk)
        else:
            await noop.defer_async()

    await notes.hammer(call, chunk=chunk, at_once=at_once, seconds=seconds)


async def ping(count: int, gap: float) -> None:
    await notes.ping(lambda at: stamp.defer_async(at=at), count=count, gap=gap)


async def work() -> None:
    # Deleting what is done is its fastest way.
    await app.run_worker_async(concurrency=CONCURRENCY, delete_jobs="successful")


def _run(part: Callable[[], Awaitable[object]]) -> None:
    async def opened() -> None:
        async with app.open_async():
            await part()

    uvloop.run(opened())


def main() -> None:
    match sys.argv[1:]:
        case ["prepare"]:
            _run(app.schema_manager.apply_schema_async)
        case ["load", count]:
            _run(lambda: load(int(count)))
        case ["submit", chunk, at_once, seconds]:
            _run(lambda: submit(int(chunk), int(at_once), float(seconds)))
        case ["ping", count, gap]:
            _run(lambda: ping(int(count), float(gap)))
        case ["work", _]:
            _run(work)


if __name__ == "__main__":
    main()
