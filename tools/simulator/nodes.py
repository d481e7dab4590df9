"""The simulated processes: servers and workers, built from the real engine, and the network between them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any, TypeVar, cast

from starlette.types import Scope

from mainspring.api.errors import Rejected
from mainspring.api.gatekeeper import Gatekeeper
from mainspring.clock import LoopWaiter, StoreClock
from mainspring.core.batching import TAKES_BATCHES
from mainspring.core.checkpoints import NewCheckpoint
from mainspring.core.ids import RunId, SessionId
from mainspring.core.rights import Principal
from mainspring.core.usage import QueueKey, Usage
from mainspring.engine.assembly import Engine
from mainspring.engine.scheduling.shards import ShardSettings
from mainspring.engine.settings import EngineSettings, Tools
from mainspring.engine.settling.janitor import Retention
from mainspring.engine.usecases.definitions import Accepted
from mainspring.errors import MainspringError, StoreUnavailable, Unreachable
from mainspring.executors import FunctionExecutor
from mainspring.executors.runners import InlineRunner
from mainspring.expressions.cel import CelExpressions
from mainspring.ports.checkpoints import CheckpointGateway, KeptStepPage, KeptSteps
from mainspring.ports.figures import ShardFigures
from mainspring.ports.gateway import (
    BeatReply,
    ClaimCall,
    ClaimReply,
    LogReport,
    LogResult,
    Registration,
    Report,
    ReportResult,
    Session,
    WorkerGateway,
)
from mainspring.ports.store import Store
from mainspring.ports.store.nodes import NodeFacts
from mainspring.registry import FunctionRegistry
from mainspring.runtime import ClockSampler
from mainspring.worker import Worker, WorkerSettings, WorkerWaiters
from tools.simulator.alerted import FlakyChannel
from tools.simulator.batched import make_gathering
from tools.simulator.capped import LABEL
from tools.simulator.files import FileStore
from tools.simulator.fitness import Fitness
from tools.simulator.kept import make_traveling
from tools.simulator.loop import Process
from tools.simulator.work import make_work
from tools.simulator.world import (
    LOST_PATIENCE,
    DriftingMonotonic,
    SeededIds,
    StoreLink,
    Trouble,
    World,
)

T = TypeVar("T")
_DRAIN = 5.0


def _trust_no_one(scope: Scope) -> Principal:
    """Identify callers as long as there are no accounts: here none is let in by that."""
    del scope
    raise Rejected(401, "there are no accounts")


class _Node(ABC):
    """The base of servers and workers: a process that can end and start again."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.trouble = Trouble()
        self.process: Process | None = None
        self.random = world.random(name)
        self.monotonic = DriftingMonotonic(world.loop, self.random, world.plan.drift)
        self._starts = 0
        self._calls: list[asyncio.Future[Any]] = []
        world.nodes[name] = self

    def boot(self) -> None:
        """Start it if it does not run."""
        if self.process is None:
            self._starts += 1
            self.process = Process(f"{self.name}.{self._starts}", self.world.loop)
            self.world.recorder.say(f"{self.process.name} starts")
            self.world.recorder.note_begin(self.process.name, self.name)
            _ = self.process.spawn(self._run(self.process))

    def kill(self) -> None:
        """End it as SIGKILL does. Its host resets the connections of those who wait for answers."""
        if self.process is not None:
            self.world.recorder.say(f"{self.process.name} is killed")
            self.process.kill()
            self._forget()

    def stop(self) -> None:
        """Ask it to end as SIGTERM does."""
        if self.process is not None:
            self.world.recorder.say(f"{self.process.name} is asked to stop")
            _ = self.process.spawn(self._leave(self.process))

    def _forget(self) -> None:
        if self.process is not None:
            self.world.recorder.note_end(self.process.name)
        self.process = None
        waiting, self._calls = self._calls, []
        for future in waiting:
            if not future.done():
                future.set_exception(Unreachable("the connection was reset"))

    async def _leave(self, process: Process) -> None:
        try:
            await self._shut_down()
        except StoreUnavailable:
            self.world.recorder.reached["stop_during_an_outage"] += 1
        if not process.is_dead:
            self.world.recorder.say(f"{process.name} has ended")
            process.kill()
            self._forget()

    @abstractmethod
    async def _run(self, process: Process) -> None: ...

    @abstractmethod
    async def _shut_down(self) -> None: ...

    async def make_engine(self, process: Process, node: NodeFacts | None) -> tuple[Engine, StoreClock]:
        """Build the real engine on this process's connection. Wait for the store as a supervisor does."""
        world = self.world
        link = StoreLink(world, self, process, self.random)
        fitness = Fitness(world, self, node) if node is not None else None
        link.listener = fitness
        clock = StoreClock(link.read_time, monotonic=self.monotonic)
        while True:
            try:
                await clock.sample()
                break
            except StoreUnavailable:
                await asyncio.sleep(1)
        link.now = clock.now
        tools = Tools(
            clock=clock,
            random=Random(self.random.random()),
            ids=SeededIds(world, self.random),
            waiter=LoopWaiter,
            host_time=fitness.tell_time if fitness is not None else None,
        )
        settings = EngineSettings(
            node=node,
            beat_period=timedelta(seconds=world.plan.beat_period),
            shards=ShardSettings(),
            retention=Retention(),
            accepted=Accepted(
                expressions=CelExpressions(), functions=lambda: frozenset({"work"}), check_url=None
            ),
            # Nothing here is audited or asks for usage, few plans have alerts, and each call of the store is drawn for.
            seals_audit=False,
            records_usage=False,
            judges_alerts=world.plan.judges_alerts,
        )
        return Engine(cast(Store, link), tools, settings, sender=FlakyChannel(world, self)), clock

    async def answer(self, caller: Trouble, call: Callable[[], Awaitable[T]], patience: float) -> T:
        """Run a call in this process for another one, over a network that loses and delays messages.

        Raises:
            Unreachable: no answer came. It is not known whether the call was carried out.
        """
        loop = self.world.loop
        await self.world.loop.nap(self._delay())
        if self.process is None:
            raise Unreachable("nobody listens")
        if self._is_cut_off(caller):
            await asyncio.sleep(LOST_PATIENCE)
            raise Unreachable("the request was lost")
        late = self.world.straggle(self.name, self.random) if caller.is_late or self.trouble.is_late else None
        if late is not None:
            _ = self.process.spawn(self._carry_out_late(call, late))
            await asyncio.sleep(LOST_PATIENCE)
            raise Unreachable("no answer came in time")
        future: asyncio.Future[T] = loop.create_future()
        self._calls.append(future)
        _ = self.process.spawn(self._carry_out(call, future))
        done, _ = await asyncio.wait([future], timeout=patience)
        self._calls = [waiting for waiting in self._calls if not waiting.done() and waiting is not future]
        await self.world.loop.nap(self._delay())
        if not done:
            raise Unreachable("no answer came in time")
        if self._is_cut_off(caller):
            self.world.recorder.reached["answer_between_processes_lost"] += 1
            await asyncio.sleep(LOST_PATIENCE)
            raise Unreachable("the answer was lost")
        return future.result()

    def _is_cut_off(self, caller: Trouble) -> bool:
        return caller.is_cut_off or self.trouble.is_cut_off

    async def _carry_out(self, call: Callable[[], Awaitable[T]], future: asyncio.Future[T]) -> None:
        try:
            result = await call()
        except Exception as error:  # noqa: BLE001 - the caller gets it
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(result)

    async def _carry_out_late(self, call: Callable[[], Awaitable[T]], seconds: float) -> None:
        await self.world.loop.nap(seconds)
        self.world.recorder.reached["request_between_processes_carried_out_late"] += 1
        with suppress(MainspringError):  # its caller is gone
            await call()

    def _delay(self) -> float:
        return self.random.random() * 0.002 * self.trouble.slowness


class ServerNode(_Node):
    """A server: API and scheduler."""

    engine: Engine | None = None
    gatekeeper: Gatekeeper | None = None
    _files: FileStore | None = None

    async def _run(self, process: Process) -> None:
        await self._open_files()
        facts = NodeFacts(
            id=process.name, host=self.name, pid=self._starts, version="0", tzdata=self.trouble.tzdata
        )
        engine, clock = await self.make_engine(process, facts)
        while True:
            try:
                await engine.start(ClockSampler(clock, waiter=LoopWaiter()))
                break
            except StoreUnavailable:
                await asyncio.sleep(1)
        if self.world.plan.checks_tokens:
            engine.run_beside(engine.identities)
            self.gatekeeper = Gatekeeper(_trust_no_one, engine.identities)
        self.engine = engine

    @property
    def usage(self) -> list[tuple[QueueKey, Usage]]:
        """What it has counted of runs since its start."""
        return [] if self.engine is None else list(self.engine.gateway.tally.usage())

    @property
    def figures(self) -> ShardFigures | None:
        """What it reports about its shards, as in its health; None if it does not run."""
        shards = self.engine.shards if self.engine is not None else None
        return shards.figures if shards is not None else None

    @property
    def owned(self) -> set[int]:
        """The shards that it plans."""
        return set(self.engine.ownership.epochs) if self.engine is not None else set()

    async def _open_files(self) -> None:
        world = self.world
        if world.folder is not None:
            self._files = FileStore(
                world.folder / "mainspring.db", time=world.time, delay=lambda: self.random.random() * 0.002
            )
            await self._files.open()
            world.store = self._files

    def _forget(self) -> None:
        self.engine = self.gatekeeper = None
        if self._files is not None:
            self._files.abandon()
            self._files = None
        super()._forget()

    async def _shut_down(self) -> None:
        engine, self.engine = self.engine, None
        if engine is not None:
            await engine.stop()
        if self._files is not None:
            await self._files.close()
            self._files = None

    async def ask(self, caller: Trouble, call: Callable[[Engine], Awaitable[T]], patience: float = 10.0) -> T:
        """Call the engine of this server, as over HTTP.

        Raises:
            Unreachable: as `answer`.
        """
        engine = self.engine
        if engine is None:
            await self.world.loop.nap(self._delay())
            raise Unreachable("nobody listens")
        return await self.answer(caller, lambda: call(engine), patience)


class FarGateway:
    """The worker gateway over the simulated network. If a server does not answer, it chooses another one."""

    def __init__(self, servers: list[ServerNode], caller: _Node) -> None:
        self._servers = servers
        self._caller = caller
        self._chosen = caller.random.randrange(len(servers))

    async def _ask(self, call: Callable[[WorkerGateway], Awaitable[T]], patience: float = 10.0) -> T:
        server = self._servers[self._chosen]
        try:
            return await server.ask(self._caller.trouble, lambda engine: call(engine.gateway), patience)
        except Unreachable:
            self._chosen = self._caller.random.randrange(len(self._servers))
            raise

    async def register(self, registration: Registration) -> Session:
        """Open a session."""
        return await self._ask(lambda gateway: gateway.register(registration))

    async def claim(self, call: ClaimCall) -> ClaimReply:
        """Take leases."""
        return await self._ask(lambda gateway: gateway.claim(call), call.wait.total_seconds() + 10)

    async def beat(
        self, session_id: SessionId, held: tuple[tuple[RunId, int], ...], *, answered: int | None = None
    ) -> BeatReply:
        """Send a heartbeat."""
        return await self._ask(lambda gateway: gateway.beat(session_id, held, answered=answered))

    async def report(self, session_id: SessionId, reports: tuple[Report, ...]) -> tuple[ReportResult, ...]:
        """Report how attempts ended."""
        return await self._ask(lambda gateway: gateway.report(session_id, reports))

    async def log(self, session_id: SessionId, reports: tuple[LogReport, ...]) -> tuple[LogResult, ...]:
        """Tell what attempts have written."""
        return await self._ask(lambda gateway: gateway.log(session_id, reports))

    async def keep_checkpoints(self, session_id: SessionId, items: Sequence[NewCheckpoint]) -> KeptSteps:
        """Keep what steps have come to."""
        return await self._ask(lambda gateway: _keeper(gateway).keep_checkpoints(session_id, items))

    async def list_checkpoints(
        self, session_id: SessionId, run_id: RunId, token: int, *, after: tuple[str, int] | None = None
    ) -> KeptStepPage:
        """Read what is kept of the steps of a run."""
        return await self._ask(
            lambda gateway: _keeper(gateway).list_checkpoints(session_id, run_id, token, after=after)
        )

    async def leave(self, session_id: SessionId) -> None:
        """End the session."""
        await self._ask(lambda gateway: gateway.leave(session_id))


def _keeper(gateway: WorkerGateway) -> CheckpointGateway:
    assert isinstance(gateway, CheckpointGateway)
    return gateway


class WorkerNode(_Node):
    """A worker, directly on the store or through a server."""

    def __init__(
        self, world: World, name: str, servers: list[ServerNode], *, is_near: bool, tenant: str | None = None
    ) -> None:
        super().__init__(world, name)
        self._servers = servers
        self._is_near = is_near
        self._tenant = tenant
        self._worker: Worker | None = None
        self._engine: Engine | None = None

    async def _run(self, process: Process) -> None:
        gateway: WorkerGateway
        if self._is_near:
            engine, clock = await self.make_engine(process, None)
            await engine.start(ClockSampler(clock, waiter=LoopWaiter()))
            self._engine = engine
            gateway = engine.gateway
        else:
            gateway = FarGateway(self._servers, self)
        registry = FunctionRegistry()
        registry.add("work", make_work(self.world, self, self._count_waiting))
        registry.add("gather", make_gathering(self.world, self))
        registry.add("travel", make_traveling(self.world, self))
        registration = Registration(
            name=process.name,
            host=self.name,
            pid=self._starts,
            slots=self.world.plan.slots,
            functions=registry.names(),
            labels=(TAKES_BATCHES, LABEL),
            tenant=self._tenant,
        )
        worker = Worker(
            gateway,
            {"function": FunctionExecutor(registry, runner=InlineRunner(), checkpoints=_keeper(gateway))},
            settings=WorkerSettings(
                registration=registration, prefetch=timedelta(seconds=self.world.plan.prefetch)
            ),
            waiters=WorkerWaiters(claim=LoopWaiter(), beat=LoopWaiter(), report=LoopWaiter()),
            random=self.random,
            monotonic=self.monotonic,
        )
        self._worker = worker
        if self._engine is not None:
            self._engine.wakeups.subscribe_cancels(worker.beat_now)
        await worker.start()

    @property
    def usage(self) -> list[tuple[QueueKey, Usage]]:
        """What it has counted of runs since its start, if it works directly on the store."""
        return [] if self._engine is None else list(self._engine.gateway.tally.usage())

    def _count_waiting(self) -> int:
        return 0 if self._worker is None else self._worker.waiting

    def _forget(self) -> None:
        self._worker = self._engine = None
        super()._forget()

    async def _shut_down(self) -> None:
        if self._worker is not None:
            await self._worker.stop(grace=_DRAIN)
        if self._engine is not None:
            await self._engine.stop()
