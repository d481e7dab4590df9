"""5,000 worker sessions of one slot each on long poll at one server, while 1,000 runs a second are submitted.

The server is a real one (`mainspring server`) on PostgreSQL. The sessions are in processes of their own, which speak
the worker protocol over HTTP as the SDK's workers do: a connection for claims and one for reports and heartbeats each,
the next claim asked while the report is under way. A run's lag is from the instant at which its submission was to be
sent (whether the server was ready for it or not) until its lease has been read by the session.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

import asyncpg
import msgspec
import structlog
import uvloop

from benchmarks.engine import fresh_database
from benchmarks.idle import Usage, cpu_seconds, raise_file_limit, resident, run_servers, use
from benchmarks.report import Row, publish
from mainspring.wire.protocol import WORKER_PROTOCOL

GENERATORS = 2
OPEN_AT_ONCE = 20
BEAT = 10.0
LONG_POLL = 20
SUBMITS = 50
"""Bulk submissions in a second; each brings its share of the rate."""
SUBMIT_LINES = 8
FILES_EACH = 2


@dataclass(frozen=True, slots=True)
class Setup:
    """What is measured.

    Attributes:
        rate: runs submitted in a second.
        settle: seconds of the same load before the figures begin.
    """

    sessions: int
    rate: int
    seconds: float
    settle: float = 10.0


class _Lease(msgspec.Struct):
    run_id: str
    token: int
    payload: dict[str, float]


class _Answer(msgspec.Struct):
    leases: list[_Lease]
    is_session_live: bool


class _Granted(msgspec.Struct):
    session_id: str


_read_answer = msgspec.json.Decoder(_Answer).decode


class Line(asyncio.Protocol):
    """A connection to a server that stays open; requests go one after another."""

    def __init__(self, host: str) -> None:
        self._head = f"HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: "
        self._waiting: deque[tuple[asyncio.Future[bytes], bytes]] = deque()
        self._read = b""
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, address: str) -> Line:
        """Connect to a server's address, like http://127.0.0.1:8620."""
        parts = urlsplit(address)
        loop = asyncio.get_running_loop()
        _, line = await loop.create_connection(
            lambda: cls(parts.netloc), str(parts.hostname), int(parts.port or 80)
        )
        return line

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way to write."""
        self._transport = cast("asyncio.Transport", transport)

    def ask(self, path: str, body: str | bytes) -> asyncio.Future[bytes]:
        """Send a request in its turn; the future brings the answer's body."""
        data = body.encode() if isinstance(body, str) else body
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append((future, f"POST {path} {self._head}{len(data)}\r\n\r\n".encode() + data))
        if len(self._waiting) == 1:
            self._send()
        return future

    def _send(self) -> None:
        assert self._transport is not None
        self._transport.write(self._waiting[0][1])

    def data_received(self, data: bytes) -> None:
        """Read on; give an answer that is whole to whoever waits for it."""
        self._read += data
        head, found, rest = self._read.partition(b"\r\n\r\n")
        if not found:
            return
        _, _, length = head.lower().partition(b"content-length: ")
        size = int(length.partition(b"\r\n")[0])
        if len(rest) < size:
            return
        self._read = b""
        future, _ = self._waiting.popleft()
        if head[9:10] == b"2":
            future.set_result(rest)
        else:
            future.set_exception(RuntimeError(f"{head[9:12].decode()}: {rest[:200].decode()}"))
        if self._waiting:
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell those who wait."""
        for future, _ in self._waiting:
            if not future.done():
                future.set_exception(exc or ConnectionResetError("the server closed the connection"))


@dataclass(slots=True)
class Worker:
    """A session with one slot, whose jobs end as they begin."""

    session_id: str
    claims: Line
    others: Line
    answered: int = 0
    held: dict[str, int] = field(default_factory=dict)

    async def work(self, begun: list[tuple[float, float]]) -> None:
        """Claim, note and report until the session is declared dead."""
        while True:
            body = (
                f'{{"session_id":"{self.session_id}","number":{self.answered + 1},"limit":1,'
                f'"wait_seconds":{LONG_POLL},"is_idle":{"false" if self.held else "true"}}}'
            )
            answer = _read_answer(await self.claims.ask("/api/v1/worker/claim", body))
            self.answered += 1
            if not answer.is_session_live:
                return
            now = time.time()
            for lease in answer.leases:
                planned = lease.payload["at"]
                begun.append((planned, now - planned))
                self._report(lease)

    def _report(self, lease: _Lease) -> None:
        self.held[lease.run_id] = lease.token
        reports = f'[{{"run_id":"{lease.run_id}","token":{lease.token},"outcome":"success"}}]'
        body = f'{{"session_id":"{self.session_id}","reports":{reports}}}'
        future = self.others.ask("/api/v1/worker/report", body)
        future.add_done_callback(lambda _: self.held.pop(lease.run_id))

    async def beat(self) -> None:
        """Say every period that the session lives."""
        await asyncio.sleep(BEAT * random.random())
        while True:
            held = [{"run_id": run_id, "token": token} for run_id, token in self.held.items()]
            body = {"session_id": self.session_id, "held": held, "answered": self.answered}
            await self.others.ask("/api/v1/worker/beat", json.dumps(body))
            await asyncio.sleep(BEAT)


@dataclass(slots=True)
class Generator:
    """Sessions in one process.

    Attributes:
        begun: for each run when it was to be submitted, and seconds until its lease was here.
    """

    address: str
    begun: list[tuple[float, float]] = field(default_factory=list)
    _working: list[asyncio.Task[None]] = field(default_factory=list)
    _beating: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def lost(self) -> int:
        """Sessions that were declared dead, by now."""
        return sum(task.done() for task in self._working)

    async def open(self, count: int) -> None:
        """Open so many sessions, a few at a time."""
        gate = asyncio.Semaphore(OPEN_AT_ONCE)
        offer = {"protocol": WORKER_PROTOCOL, "host": "here", "slots": 1, "functions": ["noop"]}

        async def open_one(number: int) -> None:
            async with gate:
                claims, others = await Line.open(self.address), await Line.open(self.address)
                body = json.dumps({**offer, "name": f"session-{os.getpid()}-{number}", "pid": number})
                answer = await others.ask("/api/v1/worker/register", body)
            worker = Worker(msgspec.json.decode(answer, type=_Granted).session_id, claims, others)
            self._working.append(asyncio.create_task(worker.work(self.begun)))
            self._beating.append(asyncio.create_task(worker.beat()))

        await asyncio.gather(*(open_one(number) for number in range(count)))

    def check(self) -> None:
        """Raise what ended a session's work."""
        for task in [*self._working, *self._beating]:
            if task.done():
                task.result()


async def generate(address: str, count: int) -> None:
    """Hold sessions until the standard input ends; then print what was seen."""
    generator = Generator(address)
    await generator.open(count)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    generator.check()
    print(json.dumps({"lost": generator.lost, "begun": generator.begun}), flush=True)
    os._exit(0)  # ten thousand connections need not be closed one by one


class Generators:
    """The processes that hold the sessions."""

    def __init__(self, address: str, sessions: int) -> None:
        self._processes = []
        for number in range(GENERATORS):
            share = sessions // GENERATORS + (number < sessions % GENERATORS)
            command = [
                sys.executable,
                "-m",
                "benchmarks.sessions",
                "--generate",
                address,
                "--sessions",
                str(share),
            ]
            self._processes.append(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )

    @property
    def pids(self) -> list[int]:
        """Their process ids."""
        return [process.pid for process in self._processes]

    async def wait(self) -> None:
        """Return when all sessions are open.

        Raises:
            RuntimeError: one ended.
        """
        for process in self._processes:
            assert process.stdout is not None
            if await asyncio.to_thread(process.stdout.readline) != "ready\n":
                raise RuntimeError("a generator ended")

    async def end(self) -> tuple[list[tuple[float, float]], int]:
        """End them; return what each run's begin was, and how many sessions were lost."""
        begun: list[tuple[float, float]] = []
        lost = 0
        for process in self._processes:
            text, _ = await asyncio.to_thread(process.communicate)
            seen = json.loads(text)
            begun += seen["begun"]
            lost += seen["lost"]
        return begun, lost

    def kill(self) -> None:
        """End those that have not ended."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()


async def submit(address: str, job_id: str, rate: int, seconds: float) -> None:
    """Submit at a steady rate, whether or not the server keeps up; returns when all was accepted."""
    lines = [await Line.open(address) for _ in range(SUBMIT_LINES)]
    asked = []
    begin = time.time()
    for number in range(int(seconds * SUBMITS)):
        planned = begin + number / SUBMITS
        await asyncio.sleep(max(planned - time.time(), 0))
        items = [{"job_id": job_id, "payload": {"at": planned}}] * (rate // SUBMITS)
        asked.append(lines[number % len(lines)].ask("/api/v1/runs/bulk", json.dumps(items)))
    await asyncio.gather(*asked)


async def measure(server: str, setup: Setup) -> list[Row]:
    async with fresh_database(server) as dsn, run_servers(dsn, 1) as (pids, addresses):
        (address,) = addresses
        looker = await asyncpg.connect(dsn, server_settings={"application_name": "bench"})
        generators = Generators(address, setup.sessions)
        try:
            await generators.wait()
            maker = await Line.open(address)
            job = await maker.ask("/api/v1/jobs", json.dumps({"name": "noop", "function": "noop"}))
            job_id = json.loads(job)["job_id"]
            await submit(address, job_id, setup.rate, setup.settle)
            begun_at, before, busy = time.time(), await use(looker, pids), spent(generators.pids)
            await submit(address, job_id, setup.rate, setup.seconds)
            after, busy = await use(looker, pids), spent(generators.pids) - busy
            await asyncio.sleep(3)
            memory = resident(pids[0])
            begun, lost = await generators.end()
        finally:
            generators.kill()
            await looker.close()
    lags = sorted(lag * 1e3 for planned, lag in begun if planned >= begun_at)
    expected = int(setup.seconds * SUBMITS) * (setup.rate // SUBMITS)
    if lost or len(lags) != expected:
        raise RuntimeError(f"{len(lags)} of {expected} runs began, {lost} sessions were lost")
    return rows_of(
        setup,
        lags,
        before,
        after,
        busy,
        {"memory of the server, MiB": round(memory / 2**20)},
    )


def spent(pids: list[int]) -> float:
    return sum(map(cpu_seconds, pids))


def rows_of(
    setup: Setup, lags: list[float], before: Usage, after: Usage, busy: float, more: dict[str, Any]
) -> list[Row]:
    taken = after.at - before.at
    where = f"{setup.sessions:,} sessions, {setup.rate:,} runs/s"
    detail = {
        "CPU of the server, % of a core": round(100 * (after.servers - before.servers) / taken, 1),
        "CPU of PostgreSQL's backends, % of a core": round(
            100 * (after.backends - before.backends) / taken, 1
        ),
        "CPU of the sessions' processes, % of a core": round(100 * busy / taken, 1),
        "transactions/s": round((after.transactions - before.transactions) / taken),
        **more,
    }
    places = {"p50": len(lags) // 2, "p99": int(len(lags) * 0.99), "max": len(lags) - 1}
    return [
        {"name": f"submit to start, {name}, {where}", "value": round(lags[place], 1), "unit": "ms"}
        | ({"detail": detail} if name == "p99" else {})
        for name, place in places.items()
    ]


def prepare(sessions: int) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    raise_file_limit(sessions * FILES_EACH + 1000)


def run(quick: bool, dsn: str | None = None) -> list[Row]:
    """Measure for `make bench`; nothing without PostgreSQL."""
    if dsn is None:
        return []
    setup = Setup(200, 200, 5, settle=2) if quick else Setup(5000, 1000, 60)
    prepare(setup.sessions)
    return uvloop.run(measure(dsn, setup))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sessions", description=__doc__)
    parser.add_argument("--sessions", type=int, default=5000)
    parser.add_argument("--rate", type=int, default=1000, help="runs submitted in a second")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--settle", type=float, default=10, help="seconds of load before that")
    parser.add_argument("--generate", metavar="ADDRESS", help="hold sessions at this server until stdin ends")
    options = parser.parse_args()
    prepare(options.sessions)
    if options.generate:
        uvloop.run(generate(options.generate, options.sessions))
        return
    server = os.environ.get("MAINSPRING_TEST_POSTGRES")
    if not server:
        raise SystemExit("no PostgreSQL; run this by scripts/services run --durable -- …")
    setup = Setup(options.sessions, options.rate, options.seconds, options.settle)
    publish("sessions", uvloop.run(measure(server, setup)))


if __name__ == "__main__":
    main()
