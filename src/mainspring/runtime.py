"""The composition root: from settings to a running server or worker. The only module that knows every backend."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

import structlog

from mainspring.clock import LoopWaiter, StoreClock, UuidSource, host_time, system_random
from mainspring.config.settings import DATABASE_NAME, Settings, StoreLocation
from mainspring.core.cron.zones import tzdata_version
from mainspring.engine.claims import ClaimDesk
from mainspring.engine.client import Client
from mainspring.engine.definitions import Definitions
from mainspring.engine.gateway import LocalGateway
from mainspring.engine.janitor import Janitor, Retention
from mainspring.engine.jobs import Accepted
from mainspring.engine.planner import Planner
from mainspring.engine.reaper import Reaper
from mainspring.engine.service import Service, ServiceRunner
from mainspring.engine.shards import Ownership, Shards
from mainspring.engine.spans import SpanDrain
from mainspring.engine.wakeups import Wakeups
from mainspring.engine.worker import Worker, WorkerSettings, WorkerWaiters
from mainspring.ports.clock import Waiter
from mainspring.ports.executor import Executor
from mainspring.ports.gateway import Registration, WorkerGateway
from mainspring.ports.store import Store
from mainspring.ports.store_types import NodeFacts
from mainspring.registry import FunctionRegistry

_log = structlog.get_logger(__name__)
_SAMPLE_PERIOD = 5.0
_EMBEDDED = "embedded-"
_THREADS = 64
"""Threads for sync functions in one worker, at most."""


def make_store(location: StoreLocation) -> Store:
    """Make the store that a location names; it is not open yet."""
    if location.scheme == "postgresql":
        from mainspring.stores.postgres import PostgresStore

        return PostgresStore(location.target, random=system_random())
    if location.scheme == "sqlite":
        from mainspring.stores.sqlite import SqliteStore

        return SqliteStore(Path(location.target) / DATABASE_NAME)
    from mainspring.stores.memory import MemoryStore

    return MemoryStore(time=host_time)


def make_executors(settings: Settings, registry: FunctionRegistry, *, slots: int) -> dict[str, Executor]:
    """Make the executors that a worker with these settings offers."""
    from mainspring.executors import FunctionExecutor, HttpExecutor, ShellExecutor
    from mainspring.executors.runners import LoopThreadRunner

    executors: list[Executor] = [
        FunctionExecutor(registry, runner=LoopThreadRunner(threads=min(slots, _THREADS))),
        HttpExecutor(allow=settings.callback_allow),
    ]
    if settings.allow_shell:
        executors.append(ShellExecutor(enabled=True))
    return {executor.type: executor for executor in executors}


class ClockSampler:
    """Keeps the process's clock at the store's."""

    name = "clock"

    def __init__(self, clock: StoreClock, *, waiter: Waiter) -> None:
        self._clock = clock
        self.waiter = waiter

    async def tick(self, now: datetime) -> float:
        """Sample the store's clock once more."""
        del now
        await self._clock.sample()
        return _SAMPLE_PERIOD


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The engine on an open store: use cases, the workers' gateway, and the clock."""

    store: Store
    clock: StoreClock
    client: Client
    gateway: LocalGateway
    wakeups: Wakeups


@asynccontextmanager
async def open_engine(
    settings: Settings, *, registry: FunctionRegistry | None = None, with_scheduler: bool = True
) -> AsyncIterator[Engine]:
    """Open the store and run the engine's services on it until the block ends."""
    async with AsyncExitStack() as stack:
        store = make_store(settings.store)
        await store.open()
        stack.push_async_callback(store.close)
        clock = StoreClock(store.read_time)
        await clock.sample()
        random = system_random()
        wakeups = Wakeups()
        desk = ClaimDesk(store, clock=clock, wakeups=wakeups, waiter=LoopWaiter())
        definitions = Definitions(
            store
        )  # one cache: what the planner has read ahead, the claim need not read
        gateway = LocalGateway(
            store,
            desk,
            clock=clock,
            random=random,
            wakeups=wakeups,
            beat_period=settings.beat_period,
            definitions=definitions,
        )
        services: list[Service] = [ClockSampler(clock, waiter=LoopWaiter()), desk]
        if with_scheduler:
            services += await _scheduler_services(store, settings, clock, wakeups, stack, definitions)
        for service in services:
            runner = ServiceRunner(service, clock=clock, random=random)
            runner.start()
            stack.push_async_callback(runner.stop)
        stack.callback(desk.close)
        accepted = _accepted(settings, registry)
        client = Client(store, clock=clock, ids=UuidSource(), wakeups=wakeups, accepted=accepted)
        yield Engine(store=store, clock=clock, client=client, gateway=gateway, wakeups=wakeups)


async def _scheduler_services(
    store: Store,
    settings: Settings,
    clock: StoreClock,
    wakeups: Wakeups,
    stack: AsyncExitStack,
    definitions: Definitions,
) -> list[Service]:
    ownership = Ownership()
    shards = Shards(store, node=_node_facts(), ownership=ownership, clock=clock, waiter=LoopWaiter())

    async def leave_shards() -> None:
        await shards.leave(clock.now())

    stack.push_async_callback(leave_shards)
    await shards.tick(clock.now())  # a lone node owns everything before it says that it is up
    return [
        shards,
        Planner(store, ownership=ownership, wakeups=wakeups, waiter=LoopWaiter(), definitions=definitions),
        SpanDrain(store, ownership=ownership, wakeups=wakeups, waiter=LoopWaiter(), definitions=definitions),
        Reaper(
            store,
            clock=clock,
            random=system_random(),
            wakeups=wakeups,
            waiter=LoopWaiter(),
            beat_period=settings.beat_period.total_seconds(),
            definitions=definitions,
        ),
        Janitor(store, waiter=LoopWaiter(), retention=Retention(history=settings.history)),
    ]


def _node_facts() -> NodeFacts:
    return NodeFacts(
        id=str(UuidSource().new_uuid()),
        host=socket.gethostname(),
        pid=os.getpid(),
        version=version("mainspring"),
        tzdata=tzdata_version(),
    )


def _accepted(settings: Settings, registry: FunctionRegistry | None) -> Accepted:
    from mainspring.executors.egress import check_url

    types = {"function", "http"} | ({"shell"} if settings.allow_shell else set())
    functions = (lambda: frozenset(registry.names())) if registry is not None else frozenset
    return Accepted(types=frozenset(types), functions=functions, check_url=check_url)


def make_worker(
    gateway: WorkerGateway,
    settings: Settings,
    registry: FunctionRegistry,
    *,
    name: str | None = None,
    queues: Sequence[str] = (),
    labels: Sequence[str] = (),
) -> Worker:
    """Make a worker on a gateway; it is not started yet."""
    executors = make_executors(settings, registry, slots=settings.slots)
    host = socket.gethostname()
    registration = Registration(
        name=name or f"{host}-{os.getpid()}",
        host=host,
        pid=os.getpid(),
        slots=settings.slots,
        queues=tuple(queues),
        types=tuple(sorted(kind for kind in executors if kind != "function")),
        functions=tuple(sorted(registry.names())),
        labels=tuple(sorted(labels)),
    )
    waiters = WorkerWaiters(claim=LoopWaiter(), beat=LoopWaiter(), report=LoopWaiter())
    return Worker(
        gateway,
        executors,
        settings=WorkerSettings(registration=registration),
        waiters=waiters,
        random=system_random(),
    )


async def _retire_predecessors(store: Store, clock: StoreClock) -> None:
    """Declare dead the embedded workers of processes that had this store before.

    Where only one process may own the store, an embedded worker of another one is certainly gone: its runs need not
    wait for three silent heartbeats.
    """
    if store.capabilities.concurrent_writers:
        return
    gone = [session for session in await store.list_sessions() if session.worker.startswith(_EMBEDDED)]
    await store.expire_sessions([(session.id, session.beats) for session in gone], now=clock.now())


@asynccontextmanager
async def open_server(
    settings: Settings, *, registry: FunctionRegistry | None = None
) -> AsyncIterator[Engine]:
    """Run the engine with its embedded worker (none with `slots` 0) until the block ends."""
    registry = registry or FunctionRegistry()
    async with open_engine(settings, registry=registry) as engine:
        if not settings.slots:
            yield engine
            return
        await _retire_predecessors(engine.store, engine.clock)
        worker = make_worker(engine.gateway, settings, registry, name=f"{_EMBEDDED}{os.getpid()}")
        engine.wakeups.subscribe_cancels(worker.beat_now)
        await worker.start()
        try:
            yield engine
        finally:
            await worker.stop(grace=settings.drain.total_seconds())
