"""Our own jobs, on DATABASE_URL; called as the other contestants are."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import structlog
import uvloop

from benchmarks.engine import CHUNK, SLOTS, load, settings_for
from benchmarks.peers import notes
from mainspring import App
from mainspring.core.ids import JobId
from mainspring.engine.assembly import Engine
from mainspring.engine.usecases.submissions import Submission
from mainspring.host.process import settle_memory
from mainspring.runtime import make_worker, open_engine

app = App()


@app.job(name="noop")
async def noop() -> None:
    notes.note_job()


@app.job(name="stamp")
async def stamp(at: float) -> None:
    notes.note_stamp(at)


@app.job(name="hold", timeout="90s")
async def hold_slot() -> None:
    notes.note_start()
    await asyncio.sleep(30)


@asynccontextmanager
async def opened(dsn: str) -> AsyncIterator[Engine]:
    """Open the store as a program that only submits does."""
    settings = settings_for(dsn, slots=0)
    async with open_engine(settings, registry=app.registry, with_scheduler=False) as engine:
        yield engine


async def find(engine: Engine, name: str) -> JobId:
    """Return the id of one of the jobs here."""
    (body,) = (body for body in app.definitions() if body["name"] == name)
    job, _ = await engine.client.jobs.upsert("default", body)
    return job.id


async def prepare(dsn: str) -> None:
    async with opened(dsn) as engine:
        for name in ("noop", "stamp", "hold"):
            await find(engine, name)


async def load_jobs(dsn: str, count: int) -> None:
    async with opened(dsn) as engine:
        await load(engine, count)


async def submit(dsn: str, chunk: int, at_once: int, seconds: float) -> None:
    async with opened(dsn) as engine:
        runs = engine.client.runs
        one = Submission(job_id=await find(engine, "noop"))
        many = [one] * chunk

        async def call() -> None:
            await (runs.submit_many("default", many) if chunk > 1 else runs.submit("default", one))

        await notes.hammer(call, chunk=chunk, at_once=at_once, seconds=seconds)


async def feed(dsn: str, backlog: int, seconds: float) -> None:
    async with opened(dsn) as engine:
        runs = engine.client.runs
        many = [Submission(job_id=await find(engine, "noop"))] * CHUNK
        call = partial(runs.submit_many, "default", many)
        await notes.feed(call, chunk=CHUNK, backlog=backlog, seconds=seconds)


async def ping(dsn: str, count: int, gap: float) -> None:
    async with opened(dsn) as engine:
        await ping_from(engine, count, gap)


async def ping_from(engine: Engine, count: int, gap: float) -> None:
    """Submit stamped runs from a process that has the store open."""
    job_id = await find(engine, "stamp")

    async def call(at: float) -> None:
        submission = Submission(job_id=job_id, payload=b'{"at":%.6f}' % at)
        await engine.client.runs.submit("default", submission)

    await notes.ping(call, count=count, gap=gap)


async def hold(dsn: str) -> None:
    async with opened(dsn) as engine:
        await engine.client.runs.submit("default", Submission(job_id=await find(engine, "hold")))


async def work(dsn: str) -> None:
    settings = settings_for(dsn, slots=SLOTS)
    async with open_engine(settings, registry=app.registry, with_scheduler=False) as engine:
        await make_worker(
            engine.gateway, settings, app.registry, telemetry=engine.telemetry, name=f"bench-{os.getpid()}"
        ).start()
        await asyncio.Event().wait()


def work_as_installed(dsn: str, *options: str) -> None:
    """Become the worker that the command line starts."""
    command = [sys.executable, "-m", "mainspring", "worker", "--store", dsn, *options]
    os.execv(sys.executable, [*command, "benchmarks.peers.mainspring_jobs:app"])


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    settle_memory()
    dsn = os.environ["DATABASE_URL"]
    match sys.argv[1:]:
        case ["prepare"]:
            uvloop.run(prepare(dsn))
        case ["load", count]:
            uvloop.run(load_jobs(dsn, int(count)))
        case ["submit", chunk, at_once, seconds]:
            uvloop.run(submit(dsn, int(chunk), int(at_once), float(seconds)))
        case ["feed", backlog, seconds]:
            uvloop.run(feed(dsn, int(backlog), float(seconds)))
        case ["ping", count, gap]:
            uvloop.run(ping(dsn, int(count), float(gap)))
        case ["hold"]:
            uvloop.run(hold(dsn))
        case ["work", "drain"]:
            uvloop.run(work(dsn))
        case ["work", _, *options]:
            work_as_installed(dsn, *options)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
