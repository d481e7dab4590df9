"""Requests a second of the REST API: jobs made and runs submitted one by one over 64 connections that are kept open.

One real `mainspring server` on PostgreSQL; the load comes from another process, which speaks HTTP/1.1 by the least that
there is to it, so that its own part stays small. Each connection sends its next request when the answer to the one
before has come. Processor time is read from /proc.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import uvloop

from benchmarks.engine import fresh_database
from benchmarks.idle import run_servers, use
from benchmarks.operated import TOKEN
from benchmarks.report import Row, publish
from mainspring.sdk.client import AsyncClient

CONNECTIONS = 64
RUN_AT = (datetime.now(UTC) + timedelta(days=30)).isoformat()
LOADS = {"jobs": "POST /api/v1/jobs", "runs": "POST /api/v1/jobs/{id}/runs"}


@dataclass(slots=True)
class Load:
    """Requests that are sent, and what came back.

    Attributes:
        lags: seconds from sending to the answer's last byte.
        until: by `time.perf_counter`, when no new request is sent.
        access: the header that presents a token; empty for none.
    """

    host: str
    path: str
    kind: str
    until: float = 0.0
    access: str = ""
    sent: int = 0
    lags: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def next_request(self) -> bytes:
        self.sent += 1
        if self.kind == "jobs":
            fields = {"name": f"job-{self.sent}", "callback_url": "http://127.0.0.1:9/hook", "run_at": RUN_AT}
            body = json.dumps({**fields, "payload": {"number": self.sent}})
        else:
            body = json.dumps({"payload": {"number": self.sent}})
        head = f"POST {self.path} HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: application/json\r\n{self.access}"
        return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


class Caller(asyncio.Protocol):
    """One connection."""

    def __init__(self, load: Load, done: asyncio.Future[None]) -> None:
        self._load = load
        self._done = done
        self._now = time.perf_counter
        self._begun_at = 0.0
        self._got = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._begun_at = self._now()
        self._transport.write(self._load.next_request())

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, gap, body = self._got.partition(b"\r\n\r\n")
        if not gap or len(body) < int(head.lower().partition(b"content-length: ")[2].split(b"\r\n", 1)[0]):
            return
        self._load.lags.append(self._now() - self._begun_at)
        if self._got[9:12] not in {b"201", b"202"}:
            self._load.refused.append(self._got.decode())
        self._got = b""
        if self._now() < self._load.until:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_result(None)


async def send_load(address: str, kind: str, path: str, seconds: float) -> dict[str, float]:
    """Send requests for so long; return the figures."""
    loop = asyncio.get_running_loop()
    host, _, port = urlsplit(address).netloc.partition(":")
    access = f"Authorization: Bearer {os.environ[TOKEN]}\r\n" if TOKEN in os.environ else ""
    load = Load(f"{host}:{port}", path, kind, until=time.perf_counter() + seconds, access=access)
    ends = [loop.create_future() for _ in range(CONNECTIONS)]
    before, spent = time.perf_counter(), time.process_time()
    for end in ends:
        await loop.create_connection(partial(Caller, load, end), host, int(port))
    await asyncio.gather(*ends)
    taken, spent = time.perf_counter() - before, time.process_time() - spent
    if load.refused or len(load.lags) != load.sent:
        raise RuntimeError(f"{len(load.lags)} of {load.sent} were answered; refused: {load.refused[:1]}")
    lags = sorted(load.lags)
    return {
        "requests": load.sent,
        "rate": load.sent / taken,
        "p50": 1e3 * lags[len(lags) // 2],
        "p99": 1e3 * lags[int(len(lags) * 0.99)],
        "spent": spent,
    }


async def measure_once(dsn: str, kind: str, seconds: float) -> dict[str, float]:
    """Start a server on an empty database, warm it up and measure it."""
    async with fresh_database(dsn) as database, run_servers(database, 1) as (pids, addresses):
        path = "/api/v1/jobs"
        if kind == "runs":
            async with AsyncClient(addresses[0]) as client:
                job = await client.create_job({"name": "hook", "callback_url": "http://127.0.0.1:9/hook"})
            path = f"{path}/{job.job_id}/runs"
        looker = await asyncpg.connect(database)
        try:
            before = await use(looker, pids)
            figures = await asyncio.to_thread(_call_generator, addresses[0], kind, path, seconds)
            after = await use(looker, pids)
        finally:
            await looker.close()
    requests = figures["requests"]
    return {
        **figures,
        "server": 1e6 * (after.servers - before.servers) / requests,
        "backends": 1e6 * (after.backends - before.backends) / requests,
        "generator": 1e6 * figures["spent"] / requests,
        "requests a commit": requests / max(after.transactions - before.transactions, 1),
    }


def _call_generator(address: str, kind: str, path: str, seconds: float) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.rest", "--generate", address, kind, path, str(seconds)]
    done = subprocess.run(command, check=True, capture_output=True, timeout=seconds + 60)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


async def measure(quick: bool, dsn: str, *, rounds: int, kinds: list[str]) -> list[Row]:
    seconds = 1.5 if quick else 10.0
    rows: list[Row] = []
    for kind in kinds:
        found = [await measure_once(dsn, kind, seconds) for _ in range(rounds)]
        rows += _rows(f"{LOADS[kind]}, {CONNECTIONS} connections, one server", found)
    return rows


def _rows(title: str, found: list[dict[str, float]]) -> list[Row]:
    def row(name: str, key: str, unit: str, places: int) -> Row:
        values = [round(figures[key], places) for figures in found]
        middle = round(statistics.median(values), places)
        return {"name": name, "value": middle, "unit": unit, "low": min(values), "high": max(values)}

    main_row = row(title, "rate", "requests/s", 0)
    main_row["detail"] = {
        f"processor time of the {name} for each request, µs": round(
            statistics.median(figures[key] for figures in found), 1
        )
        for name, key in (("server", "server"), ("backends", "backends"), ("load generator", "generator"))
    }
    main_row["detail"]["requests for each transaction"] = round(found[0]["requests a commit"], 2)
    return [main_row, row(f"{title}, p50", "p50", "ms", 2), row(f"{title}, p99", "p99", "ms", 2)]


def run(quick: bool, dsn: str | None = None) -> list[Row]:
    """Measure once; nothing without PostgreSQL."""
    if dsn is None:
        return []
    return uvloop.run(measure(quick, dsn, rounds=1, kinds=list(LOADS)))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rest", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--kinds", nargs="+", choices=list(LOADS), default=list(LOADS))
    parser.add_argument("--generate", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.generate:
        address, kind, path, seconds = options.generate
        print(json.dumps(uvloop.run(send_load(address, kind, path, float(seconds)))))
        return
    dsn = os.environ["MAINSPRING_TEST_POSTGRES"]
    rows = uvloop.run(measure(options.quick, dsn, rounds=options.rounds, kinds=options.kinds))
    publish("rest", rows, is_kept=not options.quick)


if __name__ == "__main__":
    main()
