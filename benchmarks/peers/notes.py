"""What the contestants' scripts do alike: how they submit, and what their jobs note. Only of the standard library."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

NOTES = "BENCHMARK_NOTES"
"""Names the folder for what jobs note: see the functions here."""
STAMPS = "stamps"
STARTS = "starts"
LOT = 1000
LOTS = ".lots"
"""Ends the name of the file that tells of a process's lots."""

_numbers = itertools.count()


def note_job() -> None:
    """Leave a file, named by this process's id, when its first job begins; a byte in another one for each lot."""
    number = next(_numbers)
    if number == 0:
        (_folder() / str(os.getpid())).touch()
    elif number % LOT == 0:
        file = os.open(_folder() / f"{os.getpid()}{LOTS}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, b".")
        os.close(file)


def note_stamp(submitted_at: float) -> None:
    """Add the milliseconds since a submission was begun to the file of stamps; to be a job's first line."""
    _append(STAMPS, f"{(time.time() - submitted_at) * 1000:.3f}")


def note_start() -> None:
    """Add this instant to the file of starts."""
    _append(STARTS, f"{time.time():.3f}")


def _append(name: str, line: str) -> None:
    file = os.open(_folder() / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{line}\n".encode())
    os.close(file)


def _folder() -> Path:
    return Path(os.environ[NOTES])


async def hammer(call: Callable[[], Awaitable[object]], *, chunk: int, at_once: int, seconds: float) -> None:
    """Print what `call`, which submits `chunk` jobs, brings in so many seconds with so many calls under way."""
    count = 0
    used = sum(os.times()[:2])
    began = time.perf_counter()

    async def carry() -> None:
        nonlocal count
        while time.perf_counter() - began < seconds:
            await call()
            count += chunk

    await asyncio.gather(*(carry() for _ in range(at_once)))
    taken = time.perf_counter() - began
    say(count / taken, count, sum(os.times()[:2]) - used)


async def feed(call: Callable[[], Awaitable[object]], *, chunk: int, backlog: int, seconds: float) -> None:
    """Keep so many jobs waiting: submit chunks by `call` as jobs are carried out, as their notes tell."""
    brought = 0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        if brought - count_jobs(_folder()) < backlog:
            await call()
            brought += chunk
        else:
            await asyncio.sleep(0.005)


def count_jobs(folder: Path) -> int:
    """Return how many jobs have begun, rounded down for each process."""
    return LOT * sum(entry.stat().st_size for entry in os.scandir(folder) if entry.name.endswith(LOTS))


def hammer_alone(call: Callable[[], object], *, seconds: float) -> None:
    """Do as `hammer` with a call that blocks and submits one job."""
    count = 0
    used = sum(os.times()[:2])
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        call()
        count += 1
    taken = time.perf_counter() - began
    say(count / taken, count, sum(os.times()[:2]) - used)


def say(rate: float, count: int, used: float) -> None:
    """Print jobs a second, and the processor time of each in this process in microseconds."""
    print(json.dumps({"rate": rate, "count": count, "producer_us": 1e6 * used / count}))


async def ping(call: Callable[[float], Awaitable[object]], *, count: int, gap: float) -> None:
    """Submit jobs that call `note_stamp`, one after another with a pause."""
    for _ in range(count):
        await call(time.time())
        await asyncio.sleep(gap)
