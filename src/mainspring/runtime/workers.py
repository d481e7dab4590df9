"""From settings to a worker: which executors it has, and what it says of itself."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import structlog

from mainspring.clock import LoopWaiter, host_time, monotonic, system_random
from mainspring.config.secrets import ConfiguredSecrets
from mainspring.config.settings import Settings
from mainspring.core.abilities import RUNS_PROCESSES
from mainspring.core.allow_list import EVERY_TENANT
from mainspring.core.batching import TAKES_BATCHES
from mainspring.engine.assembly import Engine
from mainspring.executors.context import ExecutorContext
from mainspring.plugins import load_plugins
from mainspring.ports.artifacts import ArtifactGateway
from mainspring.ports.checkpoints import CheckpointGateway
from mainspring.ports.clock import Clock
from mainspring.ports.gateway import Registration, WorkerGateway
from mainspring.ports.secrets import Secrets
from mainspring.ports.store import Store
from mainspring.ports.telemetry import Source, Telemetry
from mainspring.ports.tracing import Tracer
from mainspring.registry import FunctionRegistry
from mainspring.worker import Worker, WorkerSettings, WorkerWaiters
from mainspring.worker.figures import WorkerFigures

_log = structlog.get_logger(__name__)
_EMBEDDED = "embedded-"


def _warn_of_reach(settings: Settings) -> None:
    """Say so in the log if commands run beside secrets that are not of all tenants."""
    bound = [place.name for place in settings.secrets if EVERY_TENANT not in place.tenants]
    if not settings.allow_shell or not bound:
        return
    if os.geteuid() == 0:
        reach = "without a user of their own they run as root, and can read all secrets of this host"
    else:
        reach = "they can read the files that it can read, and the secrets that other commands get"
    _log.warning(
        "secrets_beside_commands",
        secrets=bound,
        meaning=f"commands of all tenants run as this worker's user: {reach}; give each tenant workers of its own",
    )


def _executor_context(
    settings: Settings,
    registry: FunctionRegistry,
    gateway: WorkerGateway,
    secrets: Secrets | None,
    tracer: Tracer | None,
) -> ExecutorContext:
    return ExecutorContext(
        settings=settings,
        functions=registry,
        slots=settings.slots,
        secrets=ConfiguredSecrets(settings.secrets) if secrets is None else secrets,
        host_time=host_time,
        tracer=tracer,
        artifacts=gateway if isinstance(gateway, ArtifactGateway) else None,
        checkpoints=gateway if isinstance(gateway, CheckpointGateway) else None,
    )


def make_worker(
    gateway: WorkerGateway,
    settings: Settings,
    registry: FunctionRegistry,
    *,
    telemetry: Telemetry,
    name: str | None = None,
    secrets: Secrets | None = None,
    tracer: Tracer | None = None,
) -> Worker:
    """Make a worker on a gateway, without starting it.

    Args:
        telemetry: receives what the worker and its executors count.
        name: the worker's name; None uses the one from the settings, or else host and process id.
        secrets: those of this process; None are those of the settings that are in variables and files.
        tracer: takes the spans of attempts; None if they are not exported.
    """
    _warn_of_reach(settings)
    executors = load_plugins().make_executors(_executor_context(settings, registry, gateway, secrets, tracer))
    registration = _registration(settings, registry, executors, name)
    waiters = WorkerWaiters(claim=LoopWaiter(), beat=LoopWaiter(), report=LoopWaiter(), log=LoopWaiter())
    worker = Worker(
        gateway,
        executors,
        settings=WorkerSettings(
            registration=registration,
            long_poll=settings.long_poll,
            prefetch=settings.prefetch,
            split_after=settings.trace_split_after,
            log_flush=settings.log_flush,
            log_limit=settings.log_limit,
        ),
        waiters=waiters,
        random=system_random(),
        monotonic=monotonic,
        tracer=tracer,
    )
    for part in (WorkerFigures(worker, slots=settings.slots), *executors.values()):
        if isinstance(part, Source):
            telemetry.watch(part)
    return worker


def _registration(
    settings: Settings, registry: FunctionRegistry, kinds: Iterable[str], name: str | None
) -> Registration:
    host = socket.gethostname()
    abilities = {TAKES_BATCHES, *([RUNS_PROCESSES] if settings.process_enabled else [])}
    return Registration(
        name=name or settings.worker_name or f"{host}-{os.getpid()}",
        host=host,
        pid=os.getpid(),
        slots=settings.slots,
        queues=settings.queues,
        types=tuple(sorted(kind for kind in kinds if kind != "function")),
        functions=tuple(sorted(registry.names())),
        labels=tuple(sorted({*settings.labels, *abilities})),
    )


async def _retire_predecessors(store: Store, clock: Clock) -> None:
    """Declare the embedded workers of earlier processes on this store dead.

    If only one process may own the store, an embedded worker of another process is certainly gone. Its runs need not
    wait until three heartbeats are missing.
    """
    if store.capabilities.concurrent_writers:
        return
    gone = [session for session in await store.list_sessions() if session.worker.startswith(_EMBEDDED)]
    await store.expire_sessions([(session.id, session.beats) for session in gone], now=clock.now())


@asynccontextmanager
async def run_embedded_worker(
    engine: Engine, settings: Settings, registry: FunctionRegistry
) -> AsyncIterator[None]:
    """Run a worker in the engine's own process until the block ends, then drain it. With 0 `slots` there is none."""
    if not settings.slots:
        yield
        return
    await _retire_predecessors(engine.store, engine.clock)
    name = f"{_EMBEDDED}{os.getpid()}"
    worker = make_worker(
        engine.gateway,
        settings,
        registry,
        telemetry=engine.telemetry,
        name=name,
        secrets=engine.tools.secrets,
        tracer=engine.tracer,
    )
    engine.wakeups.subscribe_cancels(worker.beat_now)
    await worker.start()
    try:
        yield
    finally:
        await worker.stop(grace=settings.drain.total_seconds())
