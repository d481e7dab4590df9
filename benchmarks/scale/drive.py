"""Keeps the product busy at a steady rate: its own engine fires, submits, claims and applies on the observed store."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import cast
from uuid import UUID

import asyncpg

from benchmarks.scale.data import SERVED, Size
from benchmarks.scale.observe import Observations, ObservedStore
from mainspring.clock import LoopWaiter, StoreClock, UuidSource, host_time, system_random
from mainspring.core.ids import JobId, RunId, SessionId
from mainspring.engine.assembly import Engine
from mainspring.engine.scheduling.shards import ShardSettings
from mainspring.engine.settings import EngineSettings, Tools
from mainspring.engine.settling.janitor import Retention
from mainspring.engine.usecases.definitions import Accepted
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import StoreUnavailable
from mainspring.ports.executor import Success
from mainspring.ports.gateway import ClaimCall, Registration, Report
from mainspring.ports.store import Store
from mainspring.ports.store.nodes import NodeFacts
from mainspring.runtime import ClockSampler

CONSUMERS = 4
BATCH = 100
BEAT = 10.0


@asynccontextmanager
async def run_engine(store: Store, observations: Observations) -> AsyncIterator[Engine]:
    """Run a whole engine on an open store that is looked at, with all services of a server."""
    observed = cast("Store", ObservedStore(store, observations))
    clock = StoreClock(store.read_time)
    await clock.sample()
    tools = Tools(
        clock=clock, random=system_random(), ids=UuidSource(), waiter=LoopWaiter, host_time=host_time
    )
    node = NodeFacts(id=str(UuidSource().new_uuid()), host="here", pid=1, version="0", tzdata="here")
    settings = EngineSettings(
        node=node,
        beat_period=timedelta(seconds=BEAT),
        shards=ShardSettings(),
        retention=Retention(),
        accepted=Accepted(check_url=None),
    )
    engine = Engine(observed, tools, settings)
    await engine.start(ClockSampler(clock, waiter=LoopWaiter()))
    try:
        yield engine
    finally:
        await engine.stop()


@dataclass(slots=True)
class Load:
    """What is asked of the engine.

    Attributes:
        rate: runs carried out in a second; fires bring a part of them, submissions the rest.
        behind: runs that were not carried out in time, because the engine was too slow for the rate.
        refused: calls that the store did not answer within its time.
    """

    engine: Engine
    size: Size
    rate: int
    behind: int = 0
    refused: int = 0
    held: dict[SessionId, tuple[tuple[RunId, int], ...]] = field(default_factory=dict)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def start(self, dsn: str) -> None:
        """Begin: consumers, a submitter, and the heartbeats of all sessions."""
        await self._find_held(dsn)
        self._tasks = [asyncio.create_task(self._consume(number)) for number in range(CONSUMERS)]
        self._tasks += [asyncio.create_task(self._submit()), asyncio.create_task(self._beat())]

    async def stop(self) -> None:
        """End all of it; raises what went wrong in any."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task

    def check(self) -> None:
        """Raise what ended a part of the load early."""
        for task in self._tasks:
            if task.done():
                task.result()

    async def _find_held(self, dsn: str) -> None:
        connection = await asyncpg.connect(dsn)
        rows = await connection.fetch(
            "SELECT session_id, array_agg(id ORDER BY id) AS ids, array_agg(token ORDER BY id) AS tokens FROM run"
            " WHERE session_id IS NOT NULL GROUP BY session_id"
        )
        await connection.close()
        self.held = {row["session_id"]: tuple(zip(row["ids"], row["tokens"], strict=True)) for row in rows}

    async def _consume(self, number: int) -> None:
        gateway = self.engine.gateway
        offer = Registration(
            name=f"busy-{number}",
            host="here",
            pid=1,
            slots=BATCH,
            queues=SERVED,
            types=("http",),
            functions=("noop",),
        )
        session = await gateway.register(offer)
        self.held[session.id] = ()
        step = BATCH * CONSUMERS / self.rate
        due = time.monotonic() + step * number / CONSUMERS
        claims = 0
        while True:
            await asyncio.sleep(max(due - time.monotonic(), 0))
            due += step
            if time.monotonic() - due > 1:  # too slow by far: do not make up for it in a burst
                self.behind += BATCH
                due = time.monotonic()
            call = ClaimCall(
                session_id=session.id, number=claims + 1, limit=BATCH, wait=timedelta(seconds=5), is_idle=True
            )
            try:
                reply = await gateway.claim(call)
            except StoreUnavailable:
                self.refused += 1
                continue  # the same number is asked for again
            claims += 1
            assert reply.is_session_live, "a busy session was declared lost"
            self.held[session.id] = tuple((lease.run_id, lease.token) for lease in reply.leases)
            reports = tuple(
                Report(run_id=lease.run_id, token=lease.token, ending=Success(result=b"null"))
                for lease in reply.leases
            )
            while reports:
                try:
                    await gateway.report(session.id, reports)
                    break
                except StoreUnavailable:
                    self.refused += 1
            self.held[session.id] = ()

    async def _submit(self) -> None:
        """Submit what the fires do not bring, so that the backlog stays as it is."""
        chance = random.Random(1)
        step = BATCH / max(self.rate - self.size.fires, 1)
        due = time.monotonic()
        while True:
            await asyncio.sleep(max(due - time.monotonic(), 0))
            due = max(due + step, time.monotonic() - 1)
            numbers = [chance.randrange(1, self.size.live + 1) for _ in range(BATCH)]
            by_tenant: dict[str, list[Submission]] = {}
            try:
                for job in await self.engine.store.get_jobs([_job_id(number) for number in numbers]):
                    assert job is not None
                    by_tenant.setdefault(job.tenant, []).append(Submission(job_id=job.id))
                for tenant, submissions in by_tenant.items():
                    await self.engine.client.runs.submit_many(tenant, submissions)
            except StoreUnavailable:
                self.refused += 1

    async def _beat(self) -> None:
        while True:
            sessions = list(self.held.items())
            try:
                replies = await asyncio.gather(
                    *(self.engine.gateway.beat(session_id, held) for session_id, held in sessions)
                )
                assert all(reply.is_session_live for reply in replies), "a session was declared lost"
            except StoreUnavailable:
                self.refused += 1
            await asyncio.sleep(BEAT)


def _job_id(number: int) -> JobId:
    return JobId(UUID(f"01900000-0000-7000-8000-{number:012x}"))
