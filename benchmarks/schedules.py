"""Jobs with a cron trigger, by the million: how fast they are loaded, how late they start, what the scheduler takes.

A server (`mainspring server --no-api`) and worker processes straight on the store; while they are up, loaders add
the jobs in calls of 1,000 (`create_many`). The jobs have six fields, seconds first; a mix of two periods gives the
asked number of fires a second, evenly over the seconds. In alternating blocks of time their starts are spread over the
second (each job has a jitter of one) or all lie on the full second. When all are loaded and the tables are analysed,
what starts within `seconds` is measured: begin of the job's function minus the instant at which it was due, by the
host's clock, and the resident memory of the server.

Then as many one-off jobs as asked, all due at one instant: until all of them have begun (`--beside`: the peers, too).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg

from benchmarks.at_once import measure_in_turn, title_of
from benchmarks.engine import fresh_database
from benchmarks.report import Row, publish
from benchmarks.schedule_jobs import BESIDE, Mix, loading_arguments
from tests.chaos.peers.surroundings import ROOT, make_environment, redis_server

RATE = 10_000_000 / 6_000
"""Fires a second: of ten million jobs each fires once in a hundred minutes, on average."""
FEW = 100_000
WORKERS = 2
LOADERS = 2
SETTLE = 10.0
"""Seconds between the end of the load and the measurement."""
BLOCKS = {60: 30, 3600: 300}
"""By the shorter period: seconds after which the two kinds of starts take turns."""
PEERS = Path(__file__).parent / "peers" / "schedules"
TICKS = os.sysconf("SC_CLK_TCK")
PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class Used:
    """Processor seconds used so far."""

    scheduler: float
    workers: float
    backends: float

    def minus(self, other: Used) -> Used:
        return Used(
            self.scheduler - other.scheduler, self.workers - other.workers, self.backends - other.backends
        )


@dataclass(frozen=True, slots=True)
class Cluster:
    """The processes on one database.

    Attributes:
        folder: where workers leave their notes.
    """

    database: str
    server: subprocess.Popen[bytes]
    workers: Sequence[subprocess.Popen[bytes]]
    folder: Path

    async def used(self, connection: Any) -> Used:
        backends = await connection.fetch("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        return Used(
            processor_time(self.server.pid),
            sum(processor_time(worker.pid) for worker in self.workers),
            sum(processor_time(row["pid"]) for row in backends),
        )

    def notes(self) -> list[tuple[float, float]]:
        """End the workers; return when each run was due and when it began, in the order in which they were due."""
        return self._notes("")

    def notes_beside(self) -> list[tuple[float, float]]:
        """Do the same for the jobs that a herd must not delay."""
        return self._notes(BESIDE)

    def _notes(self, suffix: str) -> list[tuple[float, float]]:
        for worker in self.workers:
            end(worker)
        found: list[tuple[float, float]] = []
        for file in (file for file in self.folder.iterdir() if file.suffix == suffix):
            values = array("d", file.read_bytes())
            found += zip(values[::2], values[1::2], strict=True)
        return sorted(found)


def processor_time(pid: int) -> float:
    """Return the processor seconds that a process has used; 0 when it has gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory(pid: int, field: str = "VmRSS") -> float:
    """Return a process's memory in MB, of 2^20 bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    return 0.0


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to stop and wait for it."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def _start(*arguments: str, sign: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-m", *arguments], stdout=subprocess.PIPE)
    assert process.stdout is not None
    while line := (await asyncio.to_thread(process.stdout.readline)).decode():
        if line.startswith(sign):
            return process
    raise RuntimeError(f"{arguments[0]} ended with {process.wait()}")


@asynccontextmanager
async def cluster(dsn: str, *, workers: int) -> AsyncIterator[Cluster]:
    """Run a server without API and so many workers on a fresh database."""
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(fresh_database(dsn))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = await _start("mainspring", "server", "--store", database, "--no-api", sign="scheduling")
        stack.callback(end, server)
        started = []
        for number in range(workers):
            arguments = ("work", database, str(folder / str(number)))
            started.append(await _start("benchmarks.schedule_jobs", *arguments, sign="ready"))
            stack.callback(end, started[-1])
        yield Cluster(database, server, started, folder)


async def load(target: str, mix: Mix, *, loaders: int = LOADERS) -> tuple[float, float]:
    """Add all jobs, by several processes; return jobs a second and the loaders' processor seconds."""
    edges = [mix.jobs * number // loaders for number in range(loaders + 1)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.schedule_jobs", *loading_arguments(target, mix, first, last)],
            stdout=subprocess.PIPE,
        )
        for first, last in itertools.pairwise(edges)
    ]
    try:
        answers = [(await asyncio.to_thread(process.communicate))[0] for process in processes]
    finally:
        for process in processes:
            end(process)
    took = [json.loads(answer) for answer in answers]
    seconds = max(one["ended"] for one in took) - min(one["began"] for one in took)
    return mix.jobs / seconds, sum(one["processor"] for one in took)


async def measure_crons(
    dsn: str, mix: Mix, seconds: float, *, workers: int = WORKERS, loaders: int = LOADERS
) -> list[Row]:
    """Load jobs and let them fire for so many seconds."""
    (short, shorter), (longer, rest) = mix.periods()
    title = f"{mix.jobs:,} cron jobs"
    async with cluster(dsn, workers=workers) as running:
        connection = await asyncpg.connect(running.database)
        per_second, processor = await load(running.database, mix, loaders=loaders)
        await connection.execute("VACUUM ANALYZE", timeout=1800)
        await asyncio.sleep(SETTLE)
        before, began = await running.used(connection), time.time()
        await asyncio.sleep(seconds)
        ended, used = time.time(), (await running.used(connection)).minus(before)
        resident, peak = memory(running.server.pid), memory(running.server.pid, "VmHWM")
        left = await connection.fetchval(
            "SELECT count(*) FROM run WHERE due_at < now() - interval '5 seconds'"
        )
        behind = await connection.fetchval(
            "SELECT count(*) FROM job_clock WHERE next_fire_at < now() - interval '5 seconds'"
        )
        if left or behind:
            raise RuntimeError(f"{left} runs have not begun in time, {behind} jobs have not fired")
        size = await connection.fetchval("SELECT pg_database_size(current_database())")
        await connection.close()
        notes = [(due, start) for due, start in running.notes() if began + 1 <= due < ended - 2]
    count = max(len(notes), 1)
    detail = {
        f"jobs with a period of {short} s": shorter,
        f"jobs with a period of {longer} s": rest,
        "fires measured": len(notes),
        "fires a second": round(len(notes) / (ended - began - 3), 1),
        "scheduler, us a fire": round(used.scheduler / count * 1e6, 1),
        "workers, us a fire": round(used.workers / count * 1e6, 1),
        "PostgreSQL, us a fire": round(used.backends / count * 1e6, 1),
        "database, MB": round(size / 2**20),
    }
    loaded = {"loaders": loaders, "loaders, us a job": round(processor / mix.jobs * 1e6, 1)}
    rows: list[Row] = [
        {"name": f"{title}: loaded in bulk", "value": round(per_second), "unit": "jobs/s", "detail": loaded},
        {
            "name": f"{title}: scheduler's memory",
            "value": round(resident, 1),
            "unit": "MB",
            "detail": {"peak, MB": round(peak, 1)},
        },
    ]
    for name, is_spread in (("spread over the second", True), ("on the full second", False)):
        lags = sorted((start - due) * 1000 for due, start in notes if mix.is_spread(int(due)) == is_spread)
        rows += lag_rows(f"{title}, {name}", lags, detail)
    return rows


def lag_rows(title: str, lags: list[float], detail: dict[str, Any]) -> list[Row]:
    """Return the rows of start minus due, in ms."""
    if not lags:
        return []
    places = {"p50": len(lags) // 2, "p99": int(len(lags) * 0.99), "max": len(lags) - 1}
    return [
        {"name": f"{title}: start minus due, {name}", "value": round(lags[place], 1), "unit": "ms"}
        | ({"detail": detail} if name == "p99" else {})
        for name, place in places.items()
    ]


async def measure_once(dsn: str, count: int, *, workers: int = WORKERS) -> Row:
    """Load one-off jobs that are all due at one instant and wait until each has begun."""
    async with cluster(dsn, workers=workers) as running:
        connection = await asyncpg.connect(running.database)
        due = float(int(time.time() + 20 + count / 3000))
        per_second, _ = await load(running.database, Mix(jobs=count, due=due))
        await connection.execute("VACUUM ANALYZE", timeout=600)
        if time.time() > due - 3:
            raise RuntimeError("the jobs were not loaded in time")
        await asyncio.sleep(due - time.time() - 1)
        before = await running.used(connection)
        deadline = due + PATIENCE
        while await connection.fetchval(
            "SELECT EXISTS (SELECT FROM job_clock WHERE next_fire_at IS NOT NULL) OR EXISTS (SELECT FROM run)"
        ):
            if time.time() > deadline:
                raise RuntimeError("the jobs did not come to an end")
            await asyncio.sleep(0.25)
        used = (await running.used(connection)).minus(before)
        await connection.close()
        notes = running.notes()
    assert len(notes) == count, f"{len(notes)} of {count} began"
    starts = sorted(start - due for _, start in notes)
    detail = {
        "first, s": round(starts[0], 3),
        "half, s": round(starts[count // 2], 2),
        "loaded, jobs/s": round(per_second),
        "scheduler, us a fire": round(used.scheduler / count * 1e6, 1),
        "workers, us a fire": round(used.workers / count * 1e6, 1),
        "PostgreSQL, us a fire": round(used.backends / count * 1e6, 1),
    }
    return {"name": title_of(count), "value": round(starts[-1], 2), "unit": "s", "detail": detail}


def measure_peer(name: str, python: Path, script: str, count: int, environment: dict[str, str]) -> list[Row]:
    """Have a peer load jobs that are far off and carry out 1,000 that are due in one second."""
    command = [str(python), str(PEERS / script), str(count)]
    answer = subprocess.run(
        command, env={**os.environ, **environment}, stdout=subprocess.PIPE, check=True, timeout=600
    )
    found = json.loads(answer.stdout)
    title = f"{found['loaded']:,} jobs, 1,000 due in one second, {name}"
    lags = found["lags"]
    rows = lag_rows(title, lags, {"fired": len(lags), "loaded, jobs/s": round(found["rate"])})
    memory_row = {"name": f"{title}: memory", "value": round(found["memory"], 1), "unit": "MB"}
    return [*rows, memory_row]


async def measure_peers(dsn: str, count: int) -> list[Row]:
    """Measure APScheduler 3 and celery beat, each among so many jobs (APScheduler: what it loads in 40 s)."""
    rows: list[Row] = []
    async with fresh_database(dsn) as database:
        python = make_environment(PEERS / "apscheduler.txt")
        name, script = "APScheduler 3 on PostgreSQL", "apscheduler_jobs.py"
        rows += await asyncio.to_thread(measure_peer, name, python, script, count, {"DATABASE_URL": database})
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as address:
        python = make_environment(ROOT / "tests/chaos/peers/celery.txt")
        environment = {"BROKER_URL": address}
        rows += await asyncio.to_thread(
            measure_peer, "celery beat", python, "beat_jobs.py", count, environment
        )
    return rows


def make_mix(jobs: int, rate: float, starts: str) -> Mix:
    """Return the mix of jobs; `starts` is spread, second or alternating."""
    mix = Mix(jobs=jobs, rate=rate)
    (short, _), _ = mix.periods()
    blocks = {"spread": 0, "second": -1, "alternating": BLOCKS.get(short, 30)}
    return replace(mix, block=blocks[starts])


async def measure(dsn: str, options: argparse.Namespace) -> dict[str, list[Row]]:
    """Measure what the options ask for; return it by part: few jobs and many, those that come at once, the peers."""
    parts: dict[str, list[Row]] = {}
    rows: list[Row] = []
    for jobs in dict.fromkeys((min(FEW, options.jobs), options.jobs)) if options.jobs else ():
        mix = make_mix(jobs, options.rate, options.starts)
        seconds = options.seconds if jobs == options.jobs else min(options.seconds, 60.0)
        rows += await measure_crons(dsn, mix, seconds, workers=options.workers, loaders=options.loaders)
    if rows:
        parts["schedules"] = rows
    if options.once:
        ours = partial(measure_once, dsn, options.once, workers=options.workers)
        parts["schedules, at one instant"] = await measure_in_turn(
            dsn, options.once, ours, rounds=options.rounds, with_peers=options.beside
        )
    if options.peers:
        parts["schedules, peers"] = await measure_peers(dsn, options.peers)
    return parts


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.schedules", description=__doc__)
    parser.add_argument(
        "--jobs", type=int, default=100_000, help="cron jobs (100,000 are measured before them); 0: none"
    )
    parser.add_argument("--rate", type=float, default=RATE, help="fires a second")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--starts", choices=("spread", "second", "alternating"), default="alternating")
    parser.add_argument("--once", type=int, default=100_000, help="one-off jobs due at one instant; 0: none")
    parser.add_argument("--rounds", type=int, default=1, help="of the jobs due at one instant")
    parser.add_argument("--beside", action="store_true", help="the peers, too, with jobs due at one instant")
    parser.add_argument(
        "--peers", type=int, default=0, help="jobs among which the peers are measured; 0: not"
    )
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--loaders", type=int, default=LOADERS)
    return parser


def run(quick: bool, dsn: str | None = None) -> list[Row]:
    """Measure at small sizes."""
    if dsn is None:
        return []
    sizes = ["--jobs", "20000", "--seconds", "10", "--once", "5000"] if quick else []
    return list(
        itertools.chain.from_iterable(asyncio.run(measure(dsn, _parser().parse_args(sizes))).values())
    )


def main() -> None:
    options = _parser().parse_args()
    for part, rows in asyncio.run(measure(os.environ["MAINSPRING_TEST_POSTGRES"], options)).items():
        publish(part, rows)


if __name__ == "__main__":
    main()
