"""The processes that the schedules' benchmark needs besides a server: `load` adds jobs in bulk, `work` runs them.

A job's function notes when it began, by the host's clock, which is PostgreSQL's too; the worker leaves the notes in a
file when it is asked to stop.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import logging
import os
import time
from array import array
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog
import uvloop

from mainspring.config import Settings, StoreLocation
from mainspring.config.table import SETTINGS
from mainspring.host.process import StopRequest, run_process, settle_memory
from mainspring.registry import FunctionRegistry
from mainspring.runtime import make_worker, open_engine
from mainspring.sdk.client import AsyncClient
from mainspring.signals import current_attempt

CHUNK = 1000
"""Jobs in one call: as many as the API takes."""
AT_ONCE = 3
"""Calls of one loader under way: while the store writes one, the next is read."""
SLOTS: int = SETTINGS["worker.slots"].default
_PERIODS = (1, 60, 3600, 86_400)

BESIDE = ".beside"
"""Ends the name of the file for the notes of jobs that a herd must not delay."""
_began = array("d")  # due, then began, in seconds since 1970
_began_beside = array("d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """What the jobs are.

    Attributes:
        jobs: how many.
        rate: fires a second of all of them; each fires at its period, a minute, an hour or a day, of which the two
            are taken that bracket `jobs / rate`, in the shares that give the rate.
        block: seconds after which jobs whose starts are spread over the second (by a jitter of one) and jobs that start
            on the full second take turns; 0: all are spread; below 0: none is.
        due: seconds since 1970 at which all are due, once; then the rate does not matter.
        jitter: seconds over which the starts of those are spread.
        beside: the priority of jobs that are not the herd, but to be on time beside it.
    """

    jobs: int
    rate: float = 0.0
    block: int = 0
    due: float | None = None
    jitter: int = 0
    beside: str | None = None

    def periods(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the shorter period and the longer one, with the number of jobs that have each."""
        short = max(period for period in _PERIODS if period <= max(self.jobs / self.rate, 1))
        longer = min((period for period in _PERIODS if period > short), default=short)
        if longer == short:
            return (short, self.jobs), (longer, 0)
        count = round((self.rate - self.jobs / longer) / (1 / short - 1 / longer))
        return (short, min(count, self.jobs)), (longer, max(self.jobs - count, 0))

    def bodies(self, first: int, last: int) -> Iterator[dict[str, Any]]:
        """Make the definitions of the jobs numbered `first` to `last` (not included)."""
        if self.due is not None:
            run_at = datetime.fromtimestamp(self.due, UTC).isoformat()
            for number in range(first, last):
                jitter = {"jitter": f"{self.jitter}s"} if self.jitter else {}
                yield {"name": f"once-{number:08d}", "function": "stamp", "run_at": run_at, **jitter}
            return
        if self.beside is not None:
            beside = {"function": "stamp_beside", "cron": "* * * * * *", "priority": self.beside}
            for number in range(first, last):
                yield {"name": f"beside-{number:08d}", **beside}
            return
        (short, shorter), (longer, _) = self.periods()
        for number in range(first, last):
            # The two kinds lie mixed, and the instants of each evenly over its period.
            is_short = (number + 1) * shorter // self.jobs > number * shorter // self.jobs
            period = short if is_short else longer
            phase = number * 7919 % period  # prime, so that neighbours are not due together
            body = {"name": f"job-{number:08d}", "function": "stamp", "cron": _cron(phase, period)}
            if self.is_spread(phase):
                body["jitter"] = "1s"
            yield body

    def is_spread(self, fire_at: float) -> bool:
        """Say whether what fires then starts somewhere within the second, not at its beginning."""
        return self.block == 0 or (self.block > 0 and fire_at // self.block % 2 == 0)


def _cron(phase: int, period: int) -> str:
    """Return what fires once in a period, so many seconds after its beginning."""
    hour, minute, second = phase // 3600, phase // 60 % 60, phase % 60
    fields = ["*"] * 3
    for place, (length, value) in enumerate(((60, second), (3600, minute), (86_400, hour))):
        if period >= length:
            fields[place] = str(value)
    return " ".join([*fields, "*", "*", "*"])


async def stamp() -> None:
    """Note when the attempt was due and when it began."""
    _began.extend((current_attempt().due_at.timestamp(), time.time()))


async def stamp_beside() -> None:
    """Do the same for a job that a herd must not delay."""
    _began_beside.extend((current_attempt().due_at.timestamp(), time.time()))


def make_registry() -> FunctionRegistry:
    registry = FunctionRegistry()
    registry.add("stamp", stamp)
    registry.add("stamp_beside", stamp_beside)
    return registry


async def load(target: str, mix: Mix, first: int, last: int) -> dict[str, float]:
    """Add jobs in bulk, at a store or, if the target is an address, at a server; return when it began and ended."""
    bodies = mix.bodies(first, last)
    if target.startswith("http"):
        async with AsyncClient(target) as client:
            return await _load(client.create_jobs, bodies)
    settings = Settings(store=StoreLocation.parse(target), slots=0)
    async with open_engine(settings, registry=make_registry(), with_scheduler=False) as engine:
        settle_memory()
        return await _load(lambda chunk: engine.client.jobs.create_many("default", chunk), bodies)


async def _load(create: Any, bodies: Iterator[dict[str, Any]]) -> dict[str, float]:
    async def take_turns() -> None:
        while chunk := list(itertools.islice(bodies, CHUNK)):
            added = await create(chunk)
            assert len(added) == len(chunk)

    began = time.time()
    used = time.process_time()
    await asyncio.gather(*(take_turns() for _ in range(AT_ONCE)))
    return {"began": began, "ended": time.time(), "processor": time.process_time() - used}


async def work(stop: StopRequest, dsn: str, notes: Path) -> None:
    """Carry jobs out until asked to stop; then write what was noted."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    registry = make_registry()
    settings = Settings(store=StoreLocation.parse(dsn), slots=SLOTS)
    async with open_engine(settings, registry=registry, with_scheduler=False) as engine:
        worker = make_worker(
            engine.gateway, settings, registry, telemetry=engine.telemetry, name=f"bench-{os.getpid()}"
        )
        await worker.start()
        settle_memory()
        print("ready", flush=True)
        await stop.wait()
        await worker.stop(grace=5)
    notes.write_bytes(_began.tobytes())
    notes.with_suffix(BESIDE).write_bytes(_began_beside.tobytes())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.schedule_jobs", description=__doc__)
    parser.add_argument("duty", choices=("load", "work"))
    parser.add_argument("target", help="the store's DSN; for `load` a server's address, too")
    parser.add_argument(
        "rest", nargs="*", help="load: the mix as JSON, first, last; work: the file for the notes"
    )
    options = parser.parse_args()
    if options.duty == "load":
        mix, first, last = options.rest
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
        print(json.dumps(uvloop.run(load(options.target, Mix(**json.loads(mix)), int(first), int(last)))))
    else:
        run_process(lambda stop: work(stop, options.target, Path(options.rest[0])), Settings())


def loading_arguments(target: str, mix: Mix, first: int, last: int) -> list[str]:
    """Return the arguments of this module's `load`."""
    return ["load", target, json.dumps(asdict(mix)), str(first), str(last)]


if __name__ == "__main__":
    main()
