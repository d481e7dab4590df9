"""What live logs cost a server: parts that are kept, a thousand a second, and a thousand who follow them.

A real server (`mainspring server`) as a process, on PostgreSQL and on SQLite. This process holds the leases of so many
runs, and sends a part of 2 kB for each of them every second, as workers with a hundred attempts each do. Each run has a
follower on a connection of its own. CPU is read from /proc: all of it must run on this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import aiohttp
import asyncpg
import uvloop

from benchmarks.engine import fresh_database
from benchmarks.idle import cpu_seconds, raise_file_limit, run_servers
from mainspring.core.ids import format_run_id
from mainspring.core.run_logs import LogPart, deflate
from mainspring.ports.gateway import ClaimCall, Lease, LogReport, LogResult, Registration, Session
from mainspring.sdk.client import AsyncClient
from mainspring.sdk.http_gateway import HttpGateway

Row = dict[str, Any]
PART = 2048
SHARE = 100
"""Attempts whose parts are sent together."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How many runs there are, each with a follower, and for how many seconds they are watched."""

    runs: int
    seconds: float
    settle: float = 3.0


class Writers:
    """Holds runs, and sends what they write."""

    def __init__(self, gateway: HttpGateway, session: Session, leases: Sequence[Lease]) -> None:
        self._gateway = gateway
        self._session = session
        self.leases = leases
        self.parts = 0
        self._place = 0
        self.late = 0.0
        chance = random.Random(1)
        line = "".join(f"{chance.random():.6f} rows of orders are read\n" for _ in range(PART // 33))
        self._data = deflate(line.encode())
        self._size = len(line)

    async def write(self, seconds: float) -> None:
        """Send a part a second for each run, the calls spread over the second."""
        begun = time.perf_counter()
        count = 0
        shares = [self.leases[place : place + SHARE] for place in range(0, len(self.leases), SHARE)]
        while time.perf_counter() - begun < seconds:
            for share in shares:
                part = LogPart(self._place, self._size, self._data)
                reports = tuple(LogReport(lease.run_id, lease.token, (part,)) for lease in share)
                results = await self._gateway.log(self._session.id, reports)
                assert set(results) == {LogResult.KEPT}
                self.parts += len(results)
                count += 1
                due = begun + count / len(shares)
                self.late = max(self.late, time.perf_counter() - due)
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
            self._place += self._size

    async def beat(self) -> None:
        """Keep the session alive."""
        held = tuple((lease.run_id, lease.token) for lease in self.leases)
        while True:
            await asyncio.sleep(self._session.beat_period.total_seconds() / 2)
            await self._gateway.beat(self._session.id, held)


class Followers:
    """Follows runs, and counts what comes."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.events = 0
        self.tasks: list[asyncio.Task[None]] = []

    async def follow(self, session: aiohttp.ClientSession, leases: Sequence[Lease]) -> None:
        """Open a connection for each run."""
        for lease in leases:
            path = f"{self._url}/api/v1/runs/{format_run_id(lease.run_id)}/logs?follow=true"
            answer = await session.get(path, timeout=aiohttp.ClientTimeout(total=None))
            answer.raise_for_status()
            self.tasks.append(asyncio.create_task(self._read(answer)))

    async def _read(self, answer: aiohttp.ClientResponse) -> None:
        async for line in answer.content:
            self.events += line.startswith(b"event: log")


@asynccontextmanager
async def writing(url: str, runs: int) -> AsyncIterator[Writers]:
    """Submit runs, and hold all of them."""
    gateway = HttpGateway(url)
    await gateway.start()
    session = await gateway.register(
        Registration(name="bench", host="here", pid=1, slots=runs, functions=("write",))
    )
    async with AsyncClient(url) as client:
        job = await client.create_job({"name": "write", "function": "write", "timeout": "1h"})
        for begin in range(0, runs, 1000):
            await client.submit_runs([{"job_id": job.job_id} for _ in range(min(1000, runs - begin))])
    leases: list[Lease] = []
    number = 0
    while len(leases) < runs:
        number += 1
        call = ClaimCall(
            session_id=session.id,
            number=number,
            limit=runs - len(leases),
            wait=timedelta(seconds=5),
            is_idle=not leases,
        )
        leases += (await gateway.claim(call)).leases
    writers = Writers(gateway, session, leases)
    beating = asyncio.create_task(writers.beat())
    try:
        yield writers
    finally:
        beating.cancel()
        await gateway.close()


async def measure_store(store: str, kind: str, scale: Scale) -> list[Row]:
    """Measure one store."""
    async with AsyncExitStack() as stack:
        [pid], [url] = await stack.enter_async_context(run_servers(store, 1))
        looker = None
        if kind == "PostgreSQL":
            looker = await asyncpg.connect(store)
            stack.push_async_callback(looker.close)
        writers = await stack.enter_async_context(writing(url, scale.runs))
        await asyncio.sleep(scale.settle)
        still = await _shares(pid, looker, asyncio.sleep(scale.seconds))
        alone = await _shares(pid, looker, writers.write(scale.seconds))
        http = await stack.enter_async_context(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
        followers = Followers(url)
        await followers.follow(http, writers.leases)
        await asyncio.sleep(scale.settle)
        silent = await _shares(pid, looker, asyncio.sleep(scale.seconds))
        sent, events = writers.parts, followers.events
        together = await _shares(pid, looker, writers.write(scale.seconds))
        await asyncio.sleep(1)
        sent, events = writers.parts - sent, followers.events - events
        for task in followers.tasks:
            task.cancel()
    where = f"{scale.runs} runs, {kind}"
    figures = [
        ("server, runs that write nothing", still[0], "% of a core"),
        ("server, a part a second each", alone[0] - still[0], "% of a core more"),
        ("server, a silent follower each", silent[0] - still[0], "% of a core more"),
        ("server, followers of parts", together[0] - alone[0], "% of a core more"),
        ("server, parts and followers", together[0] - still[0], "% of a core more"),
        ("PostgreSQL, parts and followers", together[1] - still[1], "% of a core more"),
        ("parts kept", sent / scale.seconds, "/s"),
        ("events at followers", events / scale.seconds, "/s"),
        ("a call was late, at most", 1e3 * writers.late, "ms"),
    ]
    return [
        {"name": f"{name}, {where}", "value": round(value, 2), "unit": unit} for name, value, unit in figures
    ]


async def _shares(pid: int, looker: Any, work: Any) -> tuple[float, float]:
    """Return which share of a core the server and its backends take meanwhile, in hundredths."""
    before, begun = await _spent(pid, looker), time.monotonic()
    await work
    after, taken = await _spent(pid, looker), time.monotonic() - begun
    return 100 * (after[0] - before[0]) / taken, 100 * (after[1] - before[1]) / taken


async def _spent(pid: int, looker: Any) -> tuple[float, float]:
    if looker is None:
        return cpu_seconds(pid), 0.0
    rows = await looker.fetch(
        "SELECT pid FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE 'mainspring%'"
    )
    return cpu_seconds(pid), sum(cpu_seconds(row["pid"]) for row in rows)


async def measure(server: str | None, scale: Scale) -> list[Row]:
    """Measure SQLite, and PostgreSQL if there is one."""
    with tempfile.TemporaryDirectory() as folder:
        rows = await measure_store(f"sqlite:///{folder}", "SQLite", scale)
    if server is not None:
        async with fresh_database(server) as dsn:
            rows += await measure_store(dsn, "PostgreSQL", scale)
    return rows


def run(quick: bool, dsn: str | None = None) -> list[Row]:
    """Measure for `make bench`."""
    raise_file_limit(8192)
    return uvloop.run(measure(dsn, Scale(100, 3, 1) if quick else Scale(1000, 20)))


def main() -> None:
    from benchmarks.report import print_rows

    parser = argparse.ArgumentParser(prog="python -m benchmarks.live_logs", description=__doc__)
    parser.add_argument("--postgres", metavar="DSN", help="a server on which to make databases")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    raise_file_limit(2 * options.runs + 200)
    rows = uvloop.run(measure(options.postgres, Scale(options.runs, options.seconds)))
    print_rows(rows, as_json=False)


if __name__ == "__main__":
    main()
