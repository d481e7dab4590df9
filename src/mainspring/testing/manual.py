"""The whole engine under a test's control: no timer, no task, and time moves only on request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from random import Random
from types import TracebackType
from typing import Self

from mainspring.core.abilities import RUNS_PROCESSES
from mainspring.core.batching import TAKES_BATCHES
from mainspring.core.ids import SessionId
from mainspring.egress import check_url
from mainspring.engine.assembly import Engine
from mainspring.engine.claiming.matcher import Matcher
from mainspring.engine.common.service import Service
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.gateway import LocalGateway
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.engine.scheduling.shards import Shards, ShardSettings
from mainspring.engine.settings import EngineSettings, Tools
from mainspring.engine.settling.janitor import Retention
from mainspring.engine.usecases.client import Client
from mainspring.engine.usecases.definitions import Accepted
from mainspring.executors import FunctionExecutor
from mainspring.executors.runners import InlineRunner
from mainspring.expressions.cel import CelExpressions
from mainspring.objects import ObjectStreams
from mainspring.ports.channel import Pinger, Sender
from mainspring.ports.executor import Executor
from mainspring.ports.gateway import ClaimCall, ClaimReply, Lease, Registration, Report, ReportResult
from mainspring.ports.store import Store
from mainspring.ports.store.nodes import NodeFacts
from mainspring.ports.telemetry import Telemetry
from mainspring.registry import FunctionRegistry
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock, ManualWaiter
from mainspring.testing.factories import IdSequence
from mainspring.worker.attempt import AttemptTask
from mainspring.worker.batches import BatchTask

TENANT = "default"


class ManualWorker:
    """A worker whose every step is a call: register, claim, carry out an attempt, report, beat.

    Attributes:
        held: leases claimed and not yet reported.
    """

    def __init__(
        self, runtime: ManualRuntime, executors: Mapping[str, Executor], registration: Registration
    ) -> None:
        self._runtime = runtime
        self._executors = executors
        self._registration = registration
        self._number = 0
        self.session_id: SessionId = SessionId(0)
        self.held: list[Lease] = []

    async def register(self) -> None:
        """Open a session."""
        session = await self._runtime.gateway.register(self._registration)
        self.session_id = session.id
        self._number = 0
        self.held = []

    async def claim(self, limit: int = 100, *, is_repeat: bool = False) -> list[Lease]:
        """Claim what is ready, without waiting. A repeat uses the last number again."""
        if not is_repeat:
            self._number += 1
        call = ClaimCall(
            session_id=self.session_id,
            number=self._number,
            limit=limit,
            wait=timedelta(0),
            is_idle=not self.held,
        )
        reply = await self._runtime.ask(call)
        self.held += [lease for lease in reply.leases if lease not in self.held]
        return list(reply.leases)

    async def carry_out(self, lease: Lease) -> Report:
        """Run one attempt in this task. Return its report without sending it."""
        attempt = AttemptTask(lease, self.session_id)
        await attempt.run(self._executors)
        assert attempt.ending is not None
        return Report(run_id=lease.run_id, token=lease.token, ending=attempt.ending)

    async def carry_out_batch(self, leases: Sequence[Lease]) -> list[Report]:
        """Run one call for leases of one batch. Return their reports without sending them."""
        ended, left = asyncio.Event(), len(leases)

        def count_down(_: AttemptTask) -> None:
            nonlocal left
            left -= 1
            if not left:
                ended.set()

        batch = BatchTask(leases, self.session_id, count_down)
        batch.begin(self._executors.get(leases[0].spec.target.type))
        await ended.wait()
        return [
            Report(run_id=member.lease.run_id, token=member.lease.token, ending=member.ending)
            for member in batch.members
            if member.ending is not None
        ]

    async def report(self, *reports: Report) -> list[ReportResult]:
        """Send reports, and drop their leases."""
        results = await self._runtime.gateway.report(self.session_id, reports)
        done = {(report.run_id, report.token) for report in reports}
        self.held = [lease for lease in self.held if (lease.run_id, lease.token) not in done]
        return list(results)

    async def work(self) -> int:
        """Claim, run and report until nothing is ready. Return how many attempts that was."""
        count = 0
        while leases := await self.claim():
            await self.report(*[await self.carry_out(lease) for lease in leases if lease.batch is None])
            calls: dict[str, list[Lease]] = {}
            for lease in leases:
                if lease.batch is not None:
                    calls.setdefault(lease.batch, []).append(lease)
            for batch in calls.values():
                await self.report(*await self.carry_out_batch(batch))
            count += len(leases)
        return count

    async def beat(self) -> None:
        """Send a heartbeat that names the held leases."""
        held = tuple((lease.run_id, lease.token) for lease in self.held)
        await self._runtime.gateway.beat(self.session_id, held)


def _make_settings(
    registry: FunctionRegistry, beat_period: float, public_url: str | None, *, logs: bool, alerts: bool
) -> EngineSettings:
    return EngineSettings(
        node=NodeFacts(id="node-1", host="localhost", pid=1, version="0", tzdata="test"),
        beat_period=timedelta(seconds=beat_period),
        shards=ShardSettings(),
        retention=Retention(),
        accepted=_accept(registry),
        logs_events=logs,
        judges_alerts=alerts,
        public_url=public_url,
    )


class ManualRuntime:
    """Store, use cases, services and workers without any loop: tests call `advance`, `tick` and `work`.

    Use as `async with ManualRuntime(registry) as runtime`.

    Args:
        registry: the functions that workers run.
        store: a store to run on; a memory store by default.
        seed: the seed of the random source (backoff jitter).
        beat_period: seconds between heartbeats.
        logs_events: whether the log gets what goes wrong.
        sender: delivers what alerts tell; without one, no alerts are judged.
        pinger: tells a monitor elsewhere that alerts are judged.
        public_url: where messages of alerts link to.
        files: where the files lie that runs leave behind; None keeps none.
    """

    def __init__(
        self,
        registry: FunctionRegistry | None = None,
        *,
        store: Store | None = None,
        clock: FakeClock | None = None,
        seed: int = 0,
        beat_period: float = 10.0,
        logs_events: bool = True,
        sender: Sender | None = None,
        pinger: Pinger | None = None,
        public_url: str | None = None,
        files: ObjectStreams | None = None,
    ) -> None:
        self.registry: FunctionRegistry = registry or FunctionRegistry()
        self.clock: FakeClock = clock or FakeClock()
        self.store: Store = store or MemoryStore(time=self.clock.now)
        self._engine = Engine(
            self.store,
            Tools(
                clock=self.clock, random=Random(seed), ids=IdSequence(), waiter=ManualWaiter, host_time=None
            ),
            _make_settings(
                self.registry, beat_period, public_url, logs=logs_events, alerts=sender is not None
            ),
            sender=sender,
            pinger=pinger,
            files=files,
        )
        self._takes_files = files is not None
        self.wakeups: Wakeups = self._engine.wakeups
        self.matcher: Matcher = self._engine.matcher
        self.gateway: LocalGateway = self._engine.gateway
        self.client: Client = self._engine.client
        self.ownership: Ownership = self._engine.ownership
        self.shards: Shards | None = self._engine.shards
        self.services: dict[str, Service] = self._engine.services
        self.telemetry: Telemetry = self._engine.telemetry
        self._executors: list[Executor] = []

    async def __aenter__(self) -> Self:
        """Open the store and take the shards."""
        await self.store.open()
        await self.tick("shards")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the workers' executors and close the store."""
        for executor in self._executors:
            await executor.stop()
        await self.store.close()

    async def worker(self, **offers: object) -> ManualWorker:
        """Make a worker with a session. By default it offers all registered functions."""
        values: dict[str, object] = {
            "name": "worker",
            "host": "localhost",
            "pid": 1,
            "slots": 100,
            "functions": tuple(sorted(self.registry.names())),
            "labels": (RUNS_PROCESSES, TAKES_BATCHES),
        }
        executor = FunctionExecutor(
            self.registry,
            runner=InlineRunner(),
            artifacts=self.gateway if self._takes_files else None,
            checkpoints=self.gateway,
        )
        await executor.start()
        self._executors.append(executor)
        executors: dict[str, Executor] = {"function": executor}
        registration = Registration(**{**values, **offers})  # type: ignore[arg-type]  # names are checked at run time
        worker = ManualWorker(self, executors, registration)
        await worker.register()
        return worker

    async def ask(self, call: ClaimCall) -> ClaimReply:
        """Pass a claim through the matcher, and serve it at once."""
        asking = asyncio.ensure_future(self.gateway.claim(call))
        await asyncio.sleep(0)
        await self.tick("claims")
        if self.matcher.waiting:  # the restrictions have changed, so it asks again
            await self.tick("claims")
        return await asking

    async def tick(self, *names: str) -> None:
        """Tick these services once. If none is named, tick all of them in a fixed order."""
        for name in names or tuple(self.services):
            await self.services[name].tick(self.clock.now())

    async def plan(self) -> None:
        """Tick the planner until nothing is due."""
        while await self.services["planner"].tick(self.clock.now()) == 0.0:
            continue

    async def advance(self, seconds: float, *, step: float = 1.0) -> None:
        """Let time pass in steps; after each, tick every service until nothing is due."""
        while seconds > 0:
            self.clock.advance(min(step, seconds))
            seconds -= step
            await self.tick()
            await self.plan()


def _accept(registry: FunctionRegistry) -> Accepted:
    return Accepted(
        types=frozenset({"function", "http", "shell", "workflow"}),
        expressions=CelExpressions(),
        functions=lambda: frozenset(registry.names()),
        check_url=check_url,
    )
