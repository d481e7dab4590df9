"""The composition root: turns settings into a running server or worker.

It is the only module that knows every back end.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from mainspring.clock import LoopWaiter, StoreClock, UuidSource, host_time, monotonic, system_random
from mainspring.config.secrets import ConfiguredSecrets
from mainspring.config.settings import DATABASE_NAME, Settings, StoreLocation
from mainspring.core.allow_list import EVERY_TENANT
from mainspring.core.backfill_settings import BackfillLimits
from mainspring.core.batching import TAKES_BATCHES
from mainspring.core.pacing import Pace
from mainspring.core.targets import TARGETS, accepted_types
from mainspring.engine.assembly import Engine
from mainspring.engine.common.late_sender import LateSender
from mainspring.engine.common.service import Service
from mainspring.engine.scheduling.shards import ShardSettings
from mainspring.engine.settings import EngineSettings, Tools
from mainspring.engine.settling.janitor import Retention
from mainspring.engine.usecases.definitions import Accepted
from mainspring.engine.usecases.identities import TokenUses
from mainspring.errors import InvalidInput
from mainspring.executors.context import ExecutorContext
from mainspring.plugins import load_plugins
from mainspring.ports.backups import BackupStore
from mainspring.ports.channel import Sender
from mainspring.ports.clock import Clock, Waiter
from mainspring.ports.doctor import StoreExaminer
from mainspring.ports.gateway import Registration, WorkerGateway
from mainspring.ports.hints import HintChannel
from mainspring.ports.store import Store
from mainspring.ports.store.nodes import NodeFacts
from mainspring.ports.telemetry import Measure, Source, Telemetry
from mainspring.registry import FunctionRegistry
from mainspring.telemetry.store import StoreTimes, timed
from mainspring.worker import Worker, WorkerSettings, WorkerWaiters
from mainspring.zone_data import tzdata_version

if TYPE_CHECKING:
    from mainspring.stores.postgres import ConnectionOptions

_log = structlog.get_logger(__name__)
_SAMPLE_PERIOD = 5.0
_EMBEDDED = "embedded-"


def make_store(location: StoreLocation, *, settings: Settings | None = None) -> Store:
    """Make the store that a location names, without opening it.

    Args:
        settings: how long its statements may take, and how it reads for lists and counts; None uses the store's
            defaults.
    """
    if location.scheme == "postgresql":
        from mainspring.stores.postgres import PostgresStore

        if location.ignored:
            _log.warning("store_parameters_ignored", names=" ".join(location.ignored))
        options = _connection_options(location)
        if settings is not None:
            options = replace(
                options,
                command_timeout=settings.statement_timeout.total_seconds(),
                browse_timeout=settings.browse_timeout.total_seconds(),
                browse_connections=settings.browse_connections,
            )
        return PostgresStore(options, random=system_random())
    if location.scheme == "sqlite":
        from mainspring.stores.sqlite import SqliteStore

        path = Path(location.target) / DATABASE_NAME
        if settings is None:
            return SqliteStore(path)
        return SqliteStore(path, browse_timeout=settings.browse_timeout.total_seconds())
    if location.scheme == "memory":
        from mainspring.stores.memory import MemoryStore

        return MemoryStore(time=host_time)
    return load_plugins().make_store(location.scheme, location.target)


def make_backups(location: StoreLocation) -> BackupStore:
    """Make what copies the store that a location names, and fills it.

    Raises:
        InvalidInput: such a store cannot be copied.
    """
    if location.scheme == "postgresql":
        from mainspring.stores.postgres.backups import PostgresBackups

        return PostgresBackups(_connection_options(location))
    if location.scheme == "sqlite":
        from mainspring.stores.sqlite.backups import SqliteBackups

        return SqliteBackups(Path(location.target) / DATABASE_NAME)
    raise InvalidInput("store", f"{location.label} cannot be backed up: only SQLite and PostgreSQL can")


def make_examiner(location: StoreLocation) -> StoreExaminer:
    """Make what looks at the store that a location names.

    Raises:
        InvalidInput: such a store cannot be looked at.
    """
    if location.scheme == "postgresql":
        from mainspring.stores.postgres.doctor import PostgresExaminer

        return PostgresExaminer(_connection_options(location), label=location.label)
    if location.scheme == "sqlite":
        from mainspring.stores.sqlite.doctor import SqliteExaminer

        return SqliteExaminer(Path(location.target) / DATABASE_NAME)
    raise InvalidInput("store", f"{location.label} cannot be looked at: only SQLite and PostgreSQL can")


def last_migration(location: StoreLocation) -> int:
    """Return the number of the last migration that this program knows for such a store."""
    from mainspring.stores._sql.migrate import read_migrations

    kind = "postgres" if location.scheme == "postgresql" else "sqlite"
    return read_migrations(f"mainspring.stores.{kind}")[-1].number


def make_hints(location: StoreLocation, store: Store) -> HintChannel | None:
    """Make the channel for hints between the processes on this store. None if the store has no such channel."""
    if location.scheme == "postgresql" and store.capabilities.carries_hints:
        from mainspring.stores.postgres import PostgresHints

        return PostgresHints(_connection_options(location))
    return None


def _connection_options(location: StoreLocation) -> ConnectionOptions:
    from mainspring.stores.postgres import ConnectionOptions

    options = ConnectionOptions(location.target, is_pooled=location.is_pooled, listen_dsn=location.listen)
    # Poolers that lend connections support prepared statements only in recent versions (PgBouncer since 1.21), and
    # only if they are set up for it.
    size = location.statement_cache
    if size is None:
        size = 0 if location.is_pooled else options.statement_cache
    patience = location.connect_timeout
    return replace(
        options,
        statement_cache=size,
        connect_timeout=patience if patience is not None else options.connect_timeout,
    )


class ClockSampler:
    """Keeps the process's clock in step with the store's."""

    name = "clock"

    def __init__(self, clock: StoreClock, *, waiter: Waiter) -> None:
        self._clock = clock
        self.waiter = waiter

    async def tick(self, now: datetime) -> float:
        """Sample the store's clock again."""
        del now
        await self._clock.sample()
        return _SAMPLE_PERIOD


@asynccontextmanager
async def open_engine(
    settings: Settings,
    *,
    registry: FunctionRegistry | None = None,
    with_scheduler: bool = True,
    holds_start: bool = False,
) -> AsyncIterator[Engine]:
    """Open the store, and run the engine's services on it until the block ends.

    Args:
        holds_start: jobs whose trigger is at start wait for `Engine.release_start`.
    """
    load_plugins()  # before any stored job is read
    bare = make_store(settings.store, settings=settings)
    times = StoreTimes(monotonic)
    store = timed(bare, times)
    await store.open()
    try:
        clock = StoreClock(store.read_time)
        await clock.sample()
        store = await _encrypting(store, settings, clock)
        sender = _sender_beside(settings, clock) if with_scheduler or settings.has_api else None
        engine = Engine(
            store,
            Tools(
                clock=clock, random=system_random(), ids=UuidSource(), waiter=LoopWaiter, host_time=host_time
            ),
            _engine_settings(settings, registry, with_scheduler=with_scheduler),
            hints=make_hints(settings.store, bare),
            sender=sender,
        )
        engine.telemetry.watch(times)
        try:
            await engine.start(*await _services_beside(engine, clock, settings), holds_start=holds_start)
            yield engine
        finally:
            await engine.stop()
            if sender is not None:
                await sender.stop()
    finally:
        await store.close()


async def _encrypting(store: Store, settings: Settings, clock: Clock) -> Store:
    """Return the store, or what stands for it and encrypts what it is given.

    Raises:
        InvalidInput: the keys and the store do not go together.
        MissingExtra: there are keys, and the extra `crypto` is not installed.
    """
    if settings.keys_file is not None:
        from mainspring.encryption.starting import encrypt_store

        return await encrypt_store(store, settings.keys_file, now=clock.now())
    if await store.list_encryption_keys():
        message = "is not set, but this store is encrypted; give the file that the other servers have"
        raise InvalidInput("keys_file", message)
    return store


def _sender_beside(settings: Settings, clock: Clock) -> Sender:
    """Return what delivers the messages of channels. What is wrong with settings of mail is said at the start."""
    if settings.mail_server is not None:
        make_senders(settings, clock)
    return LateSender(lambda: make_senders(settings, clock))


def _retention(settings: Settings) -> Retention:
    return Retention(
        history=settings.history,
        settled=settings.keep_settled,
        audit=settings.keep_audit,
        usage_minutes=settings.keep_usage_minutes,
        usage_hours=settings.keep_usage_hours,
        sessions=settings.keep_sessions,
    )


async def _services_beside(engine: Engine, clock: StoreClock, settings: Settings) -> list[Service]:
    """Return the services of a process beside those of its engine, ready to be started."""
    services: list[Service] = [ClockSampler(clock, waiter=LoopWaiter())]
    if settings.has_api:
        await engine.identities.refresh()  # no request may be answered before it is known who there is
        services += [
            engine.identities,
            TokenUses(engine.store, engine.identities, waiter=LoopWaiter()),
        ]
    return services


def _engine_settings(
    settings: Settings, registry: FunctionRegistry | None, *, with_scheduler: bool
) -> EngineSettings:
    return EngineSettings(
        node=_node_facts() if with_scheduler else None,
        beat_period=settings.beat_period,
        shards=ShardSettings(period=settings.node_period, clock_limit=settings.clock_limit),
        retention=_retention(settings),
        key_lifetime=settings.keep_keys,
        list_budget=settings.browse_budget,
        backfills=_backfill_limits(settings),
        catch_up=Pace(settings.catch_up_rate, settings.catch_up_max_live),
        accepted=_accepted(settings, registry),
    )


def _backfill_limits(settings: Settings) -> BackfillLimits:
    return BackfillLimits(
        rate=settings.backfill_rate,
        max_live=settings.backfill_max_live,
        most_fires=settings.backfill_most_fires,
    )


def _node_facts() -> NodeFacts:
    return NodeFacts(
        id=str(UuidSource().new_uuid()),
        host=socket.gethostname(),
        pid=os.getpid(),
        version=version("mainspring"),
        tzdata=tzdata_version(),
    )


def make_senders(settings: Settings, clock: Clock) -> Sender:
    """Make what delivers the messages of channels, without starting it.

    Raises:
        InvalidInput: settings of mail do not go together.
        MissingExtra: mail is to be sent, and the extra `mail` is not installed.
    """
    from mainspring.channels.senders import Senders

    return Senders(
        secrets=ConfiguredSecrets(settings.secrets),
        clock=clock,
        mail=settings.mail_server,
        allow=settings.channel_allow,
        allow_http=settings.channel_allow_http,
        limit=settings.channel_timeout,
    )


def _accepted(settings: Settings, registry: FunctionRegistry | None) -> Accepted:
    from mainspring.egress import check_url

    functions = (lambda: frozenset(registry.names())) if registry is not None else frozenset
    switches = {one.switch for one in TARGETS if one.switch is not None and getattr(settings, one.switch)}
    return Accepted(types=accepted_types(switches), functions=functions, check_url=check_url)


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


def _executor_context(settings: Settings, registry: FunctionRegistry) -> ExecutorContext:
    return ExecutorContext(
        settings=settings,
        functions=registry,
        slots=settings.slots,
        secrets=ConfiguredSecrets(settings.secrets),
        host_time=host_time,
    )


def make_worker(
    gateway: WorkerGateway,
    settings: Settings,
    registry: FunctionRegistry,
    *,
    telemetry: Telemetry,
    name: str | None = None,
) -> Worker:
    """Make a worker on a gateway, without starting it.

    Args:
        telemetry: receives what the worker and its executors count.
        name: the worker's name; None uses the one from the settings, or else host and process id.
    """
    _warn_of_reach(settings)
    executors = load_plugins().make_executors(_executor_context(settings, registry))
    host = socket.gethostname()
    registration = Registration(
        name=name or settings.worker_name or f"{host}-{os.getpid()}",
        host=host,
        pid=os.getpid(),
        slots=settings.slots,
        queues=settings.queues,
        types=tuple(sorted(kind for kind in executors if kind != "function")),
        functions=tuple(sorted(registry.names())),
        labels=tuple(sorted({*settings.labels, TAKES_BATCHES})),
    )
    waiters = WorkerWaiters(claim=LoopWaiter(), beat=LoopWaiter(), report=LoopWaiter())
    worker = Worker(
        gateway,
        executors,
        settings=WorkerSettings(
            registration=registration, long_poll=settings.long_poll, prefetch=settings.prefetch
        ),
        waiters=waiters,
        random=system_random(),
        monotonic=monotonic,
    )
    for part in (_WorkerSource(worker, slots=settings.slots), *executors.values()):
        if isinstance(part, Source):
            telemetry.watch(part)
    return worker


class _WorkerSource:
    """Offers a worker's counters to the process's telemetry."""

    def __init__(self, worker: Worker, *, slots: int) -> None:
        self._worker = worker
        self._slots = slots

    def measures(self) -> Iterator[Measure]:
        """Yield the worker's counters, its slots, and the leases that it holds."""
        counters = self._worker.counters
        yield Measure("worker_reports_total", counters.succeeded_or_failed, ("applied",))
        yield Measure("worker_reports_total", counters.stale, ("stale",))
        yield Measure("worker_reports_total", counters.handed_back, ("handed_back",))
        yield Measure("worker_attempts_dropped_total", counters.dropped)
        yield Measure("worker_held", len(self._worker.held))
        yield Measure("worker_prefetched", self._worker.waiting)
        yield Measure("worker_active", self._worker.active)
        yield Measure("worker_unreported", self._worker.unreported)
        yield Measure("worker_slots", self._slots)
        yield Measure("worker_slots_used", self._worker.used_slots)


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
    worker = make_worker(engine.gateway, settings, registry, telemetry=engine.telemetry, name=name)
    engine.wakeups.subscribe_cancels(worker.beat_now)
    await worker.start()
    try:
        yield
    finally:
        await worker.stop(grace=settings.drain.total_seconds())
