"""Work that waits for a busy thread after it was given out there: it does not begin once the lease may be lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random

import pytest

from mainspring.clock import LoopWaiter
from mainspring.core.ids import RunId
from mainspring.core.model import Target
from mainspring.errors import Unreachable
from mainspring.executors import FunctionExecutor
from mainspring.executors.runners import LoopThreadRunner
from mainspring.ports.executor import Success
from mainspring.ports.gateway import HandedBack, Lease, Registration
from mainspring.registry import FunctionRegistry
from mainspring.worker import Worker, WorkerSettings, WorkerWaiters
from tests.unit.worker.test_worker import Server, make_lease, until


class Stage:
    """A worker that does one thing at a time: the function `hold` keeps the loop of async functions busy."""

    def __init__(self) -> None:
        self.server = Server()
        self.now = 0.0
        self.is_held = threading.Event()
        self.release = threading.Event()
        self.begun: list[str] = []
        registry = FunctionRegistry()
        registry.add("hold", self._hold)
        registry.add("note", self._note)
        executor = FunctionExecutor(registry, runner=LoopThreadRunner(threads=1))
        self.worker = Worker(
            self.server,
            {"function": executor},
            settings=WorkerSettings(registration=Registration(name="w", host="h", pid=1, slots=5)),
            waiters=WorkerWaiters(claim=LoopWaiter(), beat=LoopWaiter(), report=LoopWaiter()),
            random=Random(1),
            monotonic=lambda: self.now,
        )

    async def _hold(self) -> None:
        self.is_held.set()
        self.release.wait(20)

    async def _note(self) -> str:
        self.begun.append("note")
        return "done"

    async def give(self, number: int, function: str, **options: object) -> None:
        lease: Lease = make_lease(number)
        spec = replace(lease.spec, target=Target("function", {"function": function}))
        self.server.leases.append(replace(lease, spec=spec, **options))  # type: ignore[arg-type]
        await until(lambda: (RunId(number), 1) in self.worker.held)

    def be_silent(self) -> None:
        """Lose the server for three beats of 0.02 s: by then the worker may have been declared dead."""
        self.server.errors["beat"] = [Unreachable("cut off")] * 1000
        self.now = 0.06


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    stage = Stage()
    await stage.worker.start()
    await stage.give(1, "hold")
    await asyncio.to_thread(stage.is_held.wait, 20)
    yield stage
    stage.release.set()
    await asyncio.wait_for(stage.worker.stop(grace=1), 15)


@pytest.mark.parametrize("batch", [None, "1.1"])
async def test_function_whose_turn_comes_when_its_lease_may_be_lost_is_handed_back(
    stage: Stage, batch: str | None
) -> None:
    await stage.give(2, "note", batch=batch)
    stage.be_silent()
    stage.release.set()
    await until(lambda: len(stage.server.endings) == 2)
    assert stage.server.endings[RunId(2)] == HandedBack(was_started=False)
    assert stage.begun == []


async def test_function_whose_turn_comes_before_that_begins(stage: Stage) -> None:
    await stage.give(2, "note")
    stage.now = 0.059
    stage.release.set()
    await until(lambda: len(stage.server.endings) == 2)
    assert stage.server.endings[RunId(2)] == Success(result=b'"done"')
