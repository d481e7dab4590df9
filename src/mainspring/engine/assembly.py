"""The engine put together on an open store: which parts there are, what they share, and in which order they stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mainspring.engine.claiming.matcher import Matcher
from mainspring.engine.common.definitions import Definitions
from mainspring.engine.common.hints import HintExchange
from mainspring.engine.common.service import Service, ServiceRunner
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.common.write_health import WriteHealth
from mainspring.engine.gateway import LocalGateway
from mainspring.engine.scheduling.catch_up import CatchUp
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.engine.scheduling.planner import Planner
from mainspring.engine.scheduling.shards import Shards, ShardSettings
from mainspring.engine.settling.janitor import Janitor, Retention
from mainspring.engine.settling.reaper import Reaper
from mainspring.engine.usecases.client import Client
from mainspring.engine.usecases.jobs import Accepted
from mainspring.engine.usecases.runs import KEY_LIFETIME
from mainspring.ports.clock import Clock, IdSource, RandomSource, Waiter
from mainspring.ports.hints import HintChannel
from mainspring.ports.store import Store
from mainspring.ports.store.nodes import NodeFacts
from mainspring.ports.telemetry import Measure, Source, Telemetry


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Where an engine has time, chance and ids from: the process's own, a test's, or the simulator's.

    Attributes:
        waiter: makes a waiter; every service gets one of its own.
        host_time: the host's own wall clock, to be compared with the store's; None: it is not judged.
    """

    clock: Clock
    random: RandomSource
    ids: IdSource
    waiter: Callable[[], Waiter]
    host_time: Callable[[], datetime] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """How an engine behaves.

    Attributes:
        node: who it is as a scheduler; without it, it only gives out work (a worker straight on the store).
        beat_period: seconds between the heartbeats of its workers.
        shards: how it divides the shards with other nodes.
        key_lifetime: how long an idempotency key is known after its use.
    """

    node: NodeFacts | None
    beat_period: timedelta
    shards: ShardSettings = field(default_factory=ShardSettings)
    retention: Retention = field(default_factory=Retention)
    key_lifetime: timedelta = KEY_LIFETIME
    accepted: Accepted | None = None


class Engine:
    """Use cases, the workers' gateway and the services of one process, all on one store.

    Args:
        hints: the way to other processes on the same store, where it has one; the engine connects and closes it.

    Attributes:
        matcher: where workers' claims wait.
        ownership: the shards that its services believe to own.
        shards: takes and gives them up; None in an engine that is no scheduler.
        services: by name, in the order in which they are started.
        telemetry: what all parts count; a process adds what else it has.
    """

    def __init__(
        self, store: Store, tools: Tools, settings: EngineSettings, *, hints: HintChannel | None = None
    ) -> None:
        self.store = store
        self.clock = tools.clock
        self._tools = tools
        self.wakeups = Wakeups()
        # One cache: what the planner has read ahead, the claim need not read.
        definitions = Definitions(store)
        self.matcher = Matcher(
            store, clock=tools.clock, random=tools.random, wakeups=self.wakeups, waiter=tools.waiter()
        )
        self._write_health = WriteHealth()
        self.gateway = LocalGateway(
            store,
            self.matcher,
            clock=tools.clock,
            random=tools.random,
            wakeups=self.wakeups,
            beat_period=settings.beat_period,
            definitions=definitions,
            write_health=self._write_health,
        )
        self.client = Client(
            store,
            clock=tools.clock,
            ids=tools.ids,
            wakeups=self.wakeups,
            accepted=settings.accepted,
            key_lifetime=settings.key_lifetime,
        )
        self.ownership = Ownership()
        self.shards: Shards | None = None
        services: list[Service] = [self.matcher]
        self._exchange: HintExchange | None = None
        if hints is not None:
            self._exchange = HintExchange(
                hints, wakeups=self.wakeups, clock=tools.clock, random=tools.random, waiter=tools.waiter()
            )
            services.append(self._exchange)
        if settings.node is not None:
            services += self._make_scheduler(settings.node, settings, definitions)
        self.services: dict[str, Service] = {service.name: service for service in services}
        self._runners: list[ServiceRunner] = []
        self.telemetry = Telemetry()
        for part in (self, store, self.gateway, self.client.runs, *services):
            if isinstance(part, Source):
                self.telemetry.watch(part)

    def measures(self) -> Iterator[Measure]:
        """Yield what the store says of itself."""
        yield Measure("store_failovers_total", len(self.store.failovers))

    def _make_scheduler(
        self, node: NodeFacts, settings: EngineSettings, definitions: Definitions
    ) -> list[Service]:
        store, tools, ownership = self.store, self._tools, self.ownership
        self.shards = Shards(
            store,
            node=node,
            ownership=ownership,
            clock=tools.clock,
            waiter=tools.waiter(),
            settings=settings.shards,
            write_health=self._write_health,
            host_time=tools.host_time,
        )
        self.wakeups.subscribe_shards(self.shards.waiter.signal)
        return [
            self.shards,
            Planner(
                store,
                clock=tools.clock,
                ownership=ownership,
                wakeups=self.wakeups,
                waiter=tools.waiter(),
                definitions=definitions,
            ),
            CatchUp(
                store,
                ownership=ownership,
                wakeups=self.wakeups,
                waiter=tools.waiter(),
                definitions=definitions,
            ),
            Reaper(
                store,
                clock=tools.clock,
                random=tools.random,
                wakeups=self.wakeups,
                waiter=tools.waiter(),
                beat_period=settings.beat_period.total_seconds(),
                definitions=definitions,
                write_health=self._write_health,
            ),
            Janitor(store, waiter=tools.waiter(), retention=settings.retention),
        ]

    async def start(self, *others: Service) -> None:
        """Take this node's share of free shards, so that a lone one owns all before it is up; run all services.

        Args:
            others: further services of this process, which are started first.
        """
        if self.shards is not None:
            await self.shards.tick(self.clock.now())
        self._run([*others, *self.services.values()])

    def _run(self, services: Sequence[Service]) -> None:
        for service in services:
            runner = ServiceRunner(service, clock=self.clock, random=self._tools.random)
            runner.start()
            self._runners.append(runner)
            self.telemetry.watch(runner)

    async def stop(self) -> None:
        """Answer those who wait for work, let each service finish its tick, give the shards up, and say so."""
        self.matcher.close()
        while self._runners:
            runner = self._runners.pop()
            await runner.stop()
            self.telemetry.forget(runner)
        try:
            if self.shards is not None:
                await self.shards.leave(self.clock.now())
                self.wakeups.shards_left()
        finally:
            if self._exchange is not None:
                await self._exchange.close()
