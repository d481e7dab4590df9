"""What workers cost that have nothing to do: sessions over HTTP on long poll, at one server and at two.

Real servers (`mainspring server`) as processes on PostgreSQL; the sessions are the SDK's own workers in this process,
each with its gateway and its connections. CPU is read from /proc: all of it must run on this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import structlog
import uvloop

from benchmarks.engine import fresh_database, lag_rows
from benchmarks.operated import IS_OPERATED, read_metrics
from mainspring.clock import LoopWaiter, monotonic, system_random
from mainspring.executors import FunctionExecutor
from mainspring.executors.runners import InlineRunner
from mainspring.ports.gateway import Registration
from mainspring.registry import FunctionRegistry
from mainspring.sdk.client import AsyncClient
from mainspring.sdk.http_gateway import HttpGateway
from mainspring.worker import Worker, WorkerSettings, WorkerWaiters

Row = dict[str, Any]
OPEN_AT_ONCE = 20
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Setup:
    """What is measured.

    Attributes:
        seconds: for which the idle sessions are watched, after they have settled for as long as a long poll.
        wakeups: runs that are then submitted, one after another.
    """

    servers: int
    sessions: int
    seconds: float
    wakeups: int
    settle: float = 20.0


@dataclass(frozen=True, slots=True)
class Usage:
    """What processes have used so far, and what PostgreSQL has done."""

    at: float
    servers: float
    backends: float
    transactions: int


async def start_server(dsn: str) -> tuple[subprocess.Popen[bytes], str]:
    """Start a server on a free port; return it and its address."""
    command = [sys.executable, "-m", "mainspring", "server", "--store", dsn, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert process.stdout is not None
    while line := (await asyncio.to_thread(process.stdout.readline)).decode():
        if line.startswith("listening on "):
            return process, line.removeprefix("listening on ").split()[0]
    raise RuntimeError(f"the server ended with {process.wait()}")


@asynccontextmanager
async def run_servers(dsn: str, count: int) -> AsyncIterator[tuple[list[int], list[str]]]:
    """Run servers until the block ends; yields their process ids and addresses."""
    started = []
    try:
        for _ in range(count):
            server = await start_server(dsn)
            started.append(server)
        addresses = [address for _, address in started]
        async with read_metrics(addresses if IS_OPERATED in os.environ else []):
            yield [process.pid for process, _ in started], addresses
    finally:
        for process, _ in started:
            process.send_signal(signal.SIGTERM)
        for process, _ in started:
            await asyncio.to_thread(process.wait, 40)
            assert process.stdout is not None
            process.stdout.close()


class Supervisor:
    """Workers in this process, each on a gateway of its own."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.begun_at = 0.0
        self._registry = FunctionRegistry()
        self._registry.add("noop", self._begin)
        self._workers: list[Worker] = []
        self._gateways: list[HttpGateway] = []

    async def _begin(self) -> None:
        self.begun_at = time.perf_counter()
        self.begun.set()

    async def start(self, addresses: list[str], count: int) -> None:
        """Open so many sessions, a few at a time; the servers share them evenly."""
        gate = asyncio.Semaphore(OPEN_AT_ONCE)

        async def open_session(number: int) -> None:
            async with gate:
                # Its own server first; the others are there should that one fail.
                gateway = HttpGateway(addresses[number % len(addresses)])
                await gateway.start()
                executors = {"function": FunctionExecutor(self._registry, runner=InlineRunner())}
                offer = Registration(
                    name=f"idle-{number}", host="here", pid=number, slots=10, functions=("noop",)
                )
                worker = Worker(
                    gateway,
                    executors,
                    settings=WorkerSettings(registration=offer),
                    waiters=WorkerWaiters(claim=LoopWaiter(), beat=LoopWaiter(), report=LoopWaiter()),
                    random=system_random(),
                    monotonic=monotonic,
                )
                await worker.start()
                self._workers.append(worker)
                self._gateways.append(gateway)

        await asyncio.gather(*(open_session(number) for number in range(count)))

    async def stop(self) -> None:
        """Leave, and close everything."""
        await asyncio.gather(*(worker.stop(grace=1) for worker in self._workers))
        await asyncio.gather(*(gateway.close() for gateway in self._gateways))


async def measure_setup(server: str, setup: Setup) -> list[Row]:
    """Measure one number of servers."""
    async with AsyncExitStack() as stack:
        dsn = await stack.enter_async_context(fresh_database(server))
        pids, addresses = await stack.enter_async_context(run_servers(dsn, setup.servers))
        looker = await asyncpg.connect(dsn, server_settings={"application_name": "bench"})
        stack.push_async_callback(looker.close)
        supervisor = Supervisor()
        before = await use(looker, pids)
        await supervisor.start(addresses, setup.sessions)
        stack.push_async_callback(supervisor.stop)
        opened = await use(looker, pids)
        await asyncio.sleep(setup.settle)
        begin = await use(looker, pids)
        await asyncio.sleep(setup.seconds)
        end = await use(looker, pids)
        live = await looker.fetchval("SELECT count(*) FROM session WHERE state = 'live'")
        assert live == setup.sessions, f"{live} of {setup.sessions} sessions are live"
        connections = await looker.fetch(
            "SELECT application_name AS name, count(*) AS count FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name LIKE 'mainspring%' GROUP BY 1 ORDER BY 1"
        )
        memory = [resident(pid) for pid in pids]
        lags = await wake_up(addresses, supervisor, setup)
    where = f"{setup.sessions} idle sessions, {setup.servers} server{'s' if setup.servers > 1 else ''}"
    taken = end.at - begin.at
    print(f"# {where}: " + ", ".join(f"{row['name']} {row['count']}" for row in connections), file=sys.stderr)
    figures: list[tuple[str, float, str]] = [
        ("CPU of each server", 100 * (end.servers - begin.servers) / taken / setup.servers, "% of a core"),
        ("CPU of PostgreSQL's backends", 100 * (end.backends - begin.backends) / taken, "% of a core"),
        ("memory of each server", max(memory) / 2**20, "MiB"),
        ("connections of each server", sum(row["count"] for row in connections) / setup.servers, ""),
        ("transactions", (end.transactions - begin.transactions) / taken, "/s"),
        (
            "CPU of the servers to open a session",
            1e3 * (opened.servers - before.servers) / setup.sessions,
            "ms",
        ),
    ]
    rows = [
        {"name": f"{name}, {where}", "value": round(value, 2), "unit": unit} for name, value, unit in figures
    ]
    return rows + lag_rows(where, lags, what="submit to start")


async def wake_up(addresses: list[str], supervisor: Supervisor, setup: Setup) -> list[float]:
    """Return ms, sorted, from the begin of a submission until its run has begun, one at a time."""
    lags = []
    chance = random.Random(1)
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(AsyncClient(address)) for address in addresses]
        job = await clients[0].create_job({"name": "noop", "function": "noop"})
        for _ in range(setup.wakeups):
            supervisor.begun.clear()
            before = time.perf_counter()
            await chance.choice(clients).submit_run(job.job_id, {})
            await asyncio.wait_for(supervisor.begun.wait(), 30)
            lags.append((supervisor.begun_at - before) * 1e3)
            await asyncio.sleep(0.05)  # the report is in, and everybody waits again
    return sorted(lags)


async def use(connection: asyncpg.Connection[asyncpg.Record], pids: list[int]) -> Usage:
    """Read what the servers and their backends have used."""
    backends = await connection.fetch(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'mainspring%'"
    )
    transactions = await connection.fetchval(
        "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
    )
    spent = sum(cpu_seconds(row["pid"]) for row in backends)
    return Usage(time.monotonic(), sum(map(cpu_seconds, pids)), spent, transactions)


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident(pid: int) -> int:
    """Return the bytes of memory that a process has of its own and shares."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def raise_file_limit(wanted: int) -> None:
    """Allow as many open connections as there will be."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))


async def measure(server: str, setups: list[Setup]) -> list[Row]:
    return [row for setup in setups for row in await measure_setup(server, setup)]


def run(quick: bool, dsn: str | None = None) -> list[Row]:
    """Measure for `make bench`; nothing without PostgreSQL."""
    if dsn is None:
        return []
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    raise_file_limit(8192)
    if quick:
        return uvloop.run(measure(dsn, [Setup(1, 50, 5, 20, settle=2)]))
    return uvloop.run(measure(dsn, [Setup(servers, 500, 60, 200) for servers in (1, 2)]))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.idle", description=__doc__)
    parser.add_argument("--servers", type=int, nargs="+", default=[1, 2], help="how many, in turn")
    parser.add_argument("--sessions", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60, help="for which they are watched")
    parser.add_argument("--wakeups", type=int, default=200, help="runs that are submitted at the end")
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    options = parser.parse_args()
    server = os.environ.get("MAINSPRING_TEST_POSTGRES")
    if not server:
        raise SystemExit("no PostgreSQL; run this by scripts/services run --durable -- …")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    raise_file_limit(8192)
    setups = [Setup(count, options.sessions, options.seconds, options.wakeups) for count in options.servers]
    for row in uvloop.run(measure(server, setups)):
        print(json.dumps(row) if options.json else f"{row['name']:<64} {row['value']:>14,} {row['unit']}")


if __name__ == "__main__":
    main()
