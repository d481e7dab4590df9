"""Our own no-op jobs, as the peers' scripts do theirs: `prepare`, `load COUNT`, `work`, on DATABASE_URL."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path

import structlog
import uvloop

from benchmarks.engine import SLOTS, load, settings_for
from mainspring.cli.process import settle_memory
from mainspring.registry import FunctionRegistry
from mainspring.runtime import make_worker, open_engine

_to_be_noted = ["the first job"]


async def noop() -> None:
    """Do nothing, and note the first time."""
    if _to_be_noted:
        _to_be_noted.clear()
        (Path(os.environ["BENCHMARK_FIRST_JOBS"]) / str(os.getpid())).touch()


async def prepare(dsn: str) -> None:
    async with open_engine(settings_for(dsn, slots=0), registry=_registry(), with_scheduler=False):
        """Opening it is enough: the schema is made."""


async def load_jobs(dsn: str, count: int) -> None:
    async with open_engine(settings_for(dsn, slots=0), registry=_registry(), with_scheduler=False) as engine:
        await load(engine, count)


async def work(dsn: str) -> None:
    registry = _registry()
    settings = settings_for(dsn, slots=SLOTS)
    async with open_engine(settings, registry=registry, with_scheduler=False) as engine:
        await make_worker(engine.gateway, settings, registry, name=f"bench-{os.getpid()}").start()
        await asyncio.Event().wait()


def _registry() -> FunctionRegistry:
    registry = FunctionRegistry()
    registry.add("noop", noop)
    return registry


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    settle_memory()
    dsn = os.environ["DATABASE_URL"]
    match sys.argv[1:]:
        case ["prepare"]:
            uvloop.run(prepare(dsn))
        case ["load", count]:
            uvloop.run(load_jobs(dsn, int(count)))
        case ["work"]:
            uvloop.run(work(dsn))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
