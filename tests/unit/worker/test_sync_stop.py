"""Sync functions under a cancel, a drain and a lost lease: a thread cannot be stopped, so nobody says that it was."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from mainspring.clock import LoopWaiter
from mainspring.core.ids import RunId, SessionId
from mainspring.core.model import JobSpec, Target
from mainspring.executors import FunctionExecutor
from mainspring.executors.runners import LoopThreadRunner
from mainspring.ports.executor import Success
from mainspring.ports.gateway import BeatReply, HandedBack, Lease, Registration, Stopped
from mainspring.registry import FunctionRegistry
from mainspring.worker import Worker, WorkerSettings, WorkerWaiters
from tests.unit.worker.test_worker import Server, make_lease, until


class Telling(Server):
    """A gateway whose heartbeats say what is to be cancelled and what is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.cancel: set[RunId] = set()
        self.lost: set[RunId] = set()

    async def beat(
        self, session_id: SessionId, held: tuple[tuple[RunId, int], ...], *, answered: int | None = None
    ) -> BeatReply:
        self.beats += 1
        return BeatReply(
            lost=tuple(key for key in held if key[0] in self.lost),
            cancel=tuple(key for key in held if key[0] in self.cancel),
        )


class Stage:
    """A worker with one thread and the function `slow`, which waits until it is released."""

    def __init__(self) -> None:
        self.server = Telling()
        self.release = threading.Event()
        self.begun = 0
        self.is_stopped = False
        self.error: Exception | None = None
        registry = FunctionRegistry()
        registry.add("slow", self._slow)
        self.executor = FunctionExecutor(registry, runner=LoopThreadRunner(threads=1))
        registration = Registration(name="w", host="h", pid=1, slots=2)
        self.worker = Worker(
            self.server,
            {"function": self.executor},
            settings=WorkerSettings(registration=registration, long_poll=timedelta(0)),
            waiters=WorkerWaiters(claim=LoopWaiter(), beat=LoopWaiter(), report=LoopWaiter()),
            random=Random(1),
            monotonic=lambda: 0.0,  # a busy host is no silence of the worker
        )

    def _slow(self) -> str:
        self.begun += 1
        self.release.wait(20)
        if self.error is not None:
            raise self.error
        return "done"

    async def give(self, number: int, timeout: float = 60) -> None:
        lease: Lease = make_lease(number)
        target = Target("function", {"function": "slow"})
        spec: JobSpec = replace(lease.spec, target=target, timeout=timedelta(seconds=timeout))
        self.server.leases.append(replace(lease, spec=spec))
        await until(lambda: (RunId(number), 1) in self.worker.held)

    async def stop(self, grace: float) -> None:
        if not self.is_stopped:
            self.is_stopped = True
            await asyncio.wait_for(self.worker.stop(grace=grace), 15)

    async def beaten(self, times: int = 3) -> None:
        seen = self.server.beats
        await until(lambda: self.server.beats >= seen + times)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    stage = Stage()
    await stage.worker.start()
    yield stage
    stage.release.set()
    await stage.stop(1)


async def begin(stage: Stage, *, timeout: float = 60) -> None:
    await stage.give(1, timeout)
    await until(lambda: stage.begun == 1)


async def test_cancelled_function_that_succeeds_has_succeeded(stage: Stage) -> None:
    await begin(stage)
    stage.server.cancel.add(RunId(1))
    await stage.beaten()
    await asyncio.sleep(1.2)  # longer than the executor's grace for what can be stopped
    assert stage.server.endings == {}
    assert stage.worker.held == ((RunId(1), 1),)
    stage.release.set()
    await until(lambda: len(stage.server.endings) == 1)
    assert stage.server.endings == {RunId(1): Success(result=b'"done"')}


async def test_cancelled_function_that_fails_was_stopped(stage: Stage) -> None:
    await begin(stage)
    stage.error = ValueError("broke")
    stage.server.cancel.add(RunId(1))
    await stage.beaten()
    stage.release.set()
    await until(lambda: len(stage.server.endings) == 1)
    ending = stage.server.endings[RunId(1)]
    assert isinstance(ending, Stopped)
    assert ending.error == "ValueError: broke"


async def test_cancelled_function_ends_at_its_hard_limit(stage: Stage) -> None:
    await begin(stage, timeout=0.4)
    stage.server.cancel.add(RunId(1))
    await until(lambda: len(stage.server.endings) == 1)
    ending = stage.server.endings[RunId(1)]
    assert isinstance(ending, Stopped)
    assert "timed out after 0.4 s, and is still running" in (ending.error or "")


async def test_function_that_has_not_begun_is_stopped_at_once(stage: Stage) -> None:
    await begin(stage)
    await stage.give(2)
    stage.server.cancel.add(RunId(2))
    await until(lambda: len(stage.server.endings) == 1)
    assert stage.server.endings == {RunId(2): Stopped(error="stopped because a cancel was asked for")}
    stage.release.set()
    await until(lambda: len(stage.server.endings) == 2)
    assert stage.begun == 1


async def test_lost_function_keeps_its_slot_and_is_not_reported(stage: Stage) -> None:
    await begin(stage)
    stage.server.lost.add(RunId(1))
    await stage.beaten()
    await asyncio.sleep(1.2)
    assert stage.worker.held == ((RunId(1), 1),)
    stage.release.set()
    await until(lambda: stage.worker.held == ())
    assert stage.server.endings == {}
    assert stage.worker.counters.dropped == 1


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_drain_gives_a_function_the_whole_grace_and_then_goes(stage: Stage, is_cancelled: bool) -> None:
    await begin(stage)
    if is_cancelled:
        stage.server.cancel.add(RunId(1))
        await stage.beaten()
    before = time.monotonic()
    await stage.stop(0.5)
    assert 0.5 <= time.monotonic() - before < 5
    expected = (
        Stopped(error="stopped because a cancel was asked for")
        if is_cancelled
        else HandedBack(was_started=True)
    )
    assert stage.server.endings == {RunId(1): expected}


async def test_function_that_ends_within_the_grace_is_reported(stage: Stage) -> None:
    await begin(stage)
    stopping = asyncio.create_task(stage.stop(10))
    await asyncio.sleep(0.1)
    stage.release.set()
    await stopping
    assert stage.server.endings == {RunId(1): Success(result=b'"done"')}
