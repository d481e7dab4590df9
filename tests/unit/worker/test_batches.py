"""A worker gives leases of one batch to one call, for one slot, and reports each for itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from random import Random

from mainspring.clock import LoopWaiter
from mainspring.core.ids import RunId, SessionId
from mainspring.core.outcomes import Failure
from mainspring.ports.executor import AttemptContext, OnEnd, Outcome, Success
from mainspring.ports.gateway import (
    BeatReply,
    HandedBack,
    Registration,
    Report,
    ReportResult,
    Stopped,
)
from mainspring.worker import Worker, WorkerSettings, WorkerWaiters
from tests.unit.worker.test_worker import Server, make_lease, until


class Telling(Server):
    """A server that tells of cancels and losses, and notes what attempts took."""

    def __init__(self) -> None:
        super().__init__()
        self.cancel: tuple[tuple[RunId, int], ...] = ()
        self.lost: tuple[tuple[RunId, int], ...] = ()
        self.took: dict[RunId, float | None] = {}

    async def beat(
        self, session_id: SessionId, held: tuple[tuple[RunId, int], ...], *, answered: int | None = None
    ) -> BeatReply:
        reply = await super().beat(session_id, held, answered=answered)
        return replace(reply, cancel=self.cancel, lost=self.lost)

    async def report(self, session_id: SessionId, reports: tuple[Report, ...]) -> tuple[ReportResult, ...]:
        self.took |= {report.run_id: report.took for report in reports}
        return await super().report(session_id, reports)


class Gathered:
    """An executor whose calls end when they are told to."""

    type = "test"

    def __init__(self) -> None:
        self.calls: list[tuple[Sequence[AttemptContext], OnEnd]] = []
        self.halted: list[str | None] = []
        self.outcomes: dict[RunId, Outcome] = {}
        self.is_broken = False

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def execute(self, context: AttemptContext) -> Outcome:
        raise AssertionError("every attempt is of a batch")

    def begin(self, context: AttemptContext, on_end: OnEnd) -> object | None:
        raise AssertionError("every attempt is of a batch")

    def begin_batch(self, contexts: Sequence[AttemptContext], on_end: OnEnd) -> object | None:
        if self.is_broken:
            raise OSError("no")
        self.calls.append((contexts, on_end))
        return contexts

    def split(self, handle: object, outcome: Outcome) -> Sequence[Outcome]:
        assert isinstance(handle, list)
        return [self.outcomes.get(context.run_id, outcome) for context in handle]

    async def halt(self, handle: object, message: str | None) -> Outcome:
        self.halted.append(message)
        raise asyncio.CancelledError

    def sizes(self) -> list[int]:
        return [len(contexts) for contexts, _ in self.calls]


@asynccontextmanager
async def working(
    server: Server, executor: Gathered, *, slots: int = 2, grace: float = 1
) -> AsyncIterator[Worker]:
    worker = Worker(
        server,
        {"test": executor},
        settings=WorkerSettings(
            registration=Registration(name="w", host="h", pid=1, slots=slots), prefetch=timedelta(0)
        ),
        waiters=WorkerWaiters(claim=LoopWaiter(), beat=LoopWaiter(), report=LoopWaiter()),
        random=Random(1),
        monotonic=lambda: 0.0,
    )
    await worker.start()
    try:
        yield worker
    finally:
        await asyncio.wait_for(worker.stop(grace=grace), 15)


class Batched(Telling):
    """A server that gives whole batches, each for one of the slots that a claim asks for."""

    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.batches_left = []
        number = 0
        for place, size in enumerate(sizes):
            self.batches_left.append(
                [replace(make_lease(number + one), batch=f"1.{place}") for one in range(size)]
            )
            number += size

    async def claim(self, call):  # type: ignore[no-untyped-def]
        given, self.batches_left = self.batches_left[: call.limit], self.batches_left[call.limit :]
        reply = await super().claim(call)
        return replace(reply, leases=tuple(lease for leases in given for lease in leases))


async def test_a_batch_is_one_call_and_takes_one_slot() -> None:
    server, executor = Batched(3, 4, 5), Gathered()
    async with working(server, executor) as worker:
        await until(lambda: len(executor.calls) == 2)
        assert executor.sizes() == [3, 4]
        assert (len(worker.held), worker.used_slots) == (7, 2)
        _, on_end = executor.calls[0]
        executor.outcomes = {RunId(1): Failure(error="no")}
        on_end(Success())
        await until(lambda: len(executor.calls) == 3)
        await until(lambda: len(server.endings) == 3)
        assert server.endings == {
            RunId(0): Success(),
            RunId(1): Failure(error="no"),
            RunId(2): Success(),
        }
        assert [took is not None for took in server.took.values()] == [True, False, False]
        for _, on_end in executor.calls[1:]:
            on_end(Failure(error="all"))
        await until(lambda: len(server.endings) == 12)
        assert worker._leases.shared == 0


async def test_one_cancelled_run_does_not_stop_the_others() -> None:
    server, executor = Batched(3), Gathered()
    async with working(server, executor):
        await until(lambda: bool(executor.calls))
        server.cancel = ((RunId(0), 1), (RunId(1), 1))
        beats = server.beats
        await until(lambda: server.beats > beats + 2)
        assert executor.halted == []
        executor.outcomes = {RunId(0): Failure(error="no")}
        executor.calls[0][1](Success())
        await until(lambda: len(server.endings) == 3)
        assert server.endings == {
            RunId(0): Stopped(error="no"),
            RunId(1): Success(),
            RunId(2): Success(),
        }


async def test_a_call_is_stopped_when_all_of_its_runs_are_to_be() -> None:
    server, executor = Batched(3), Gathered()
    async with working(server, executor):
        await until(lambda: bool(executor.calls))
        server.cancel = ((RunId(0), 1), (RunId(1), 1))
        server.lost = ((RunId(2), 1),)
        await until(lambda: bool(executor.halted))
        await until(lambda: len(server.endings) == 2)
        assert executor.halted == ["gently"]
        assert {type(ending) for ending in server.endings.values()} == {Stopped}


async def test_a_run_that_was_cancelled_before_is_not_of_the_call() -> None:
    server, executor = Batched(3), Gathered()
    server.batches_left[0][1] = replace(server.batches_left[0][1], is_cancel_requested=True)
    async with working(server, executor):
        await until(lambda: bool(executor.calls))
        assert executor.sizes() == [2]
        await until(lambda: isinstance(server.endings.get(RunId(1)), Stopped))
        executor.calls[0][1](Success())


async def test_a_stopping_worker_hands_all_runs_back() -> None:
    server, executor = Batched(3), Gathered()
    async with working(server, executor, grace=0.05):
        await until(lambda: bool(executor.calls))
    assert executor.halted == [None]
    assert set(server.endings.values()) == {HandedBack(was_started=True)}
    assert len(server.endings) == 3


async def test_a_call_that_cannot_begin_is_handed_back() -> None:
    server, executor = Batched(3), Gathered()
    executor.is_broken = True
    async with working(server, executor):
        await until(lambda: len(server.endings) == 3)
    assert set(server.endings.values()) == {HandedBack(was_started=False)}


async def test_an_executor_that_knows_no_batches_gets_none() -> None:
    class Plain:
        type = "test"

        async def start(self) -> None: ...

        async def stop(self) -> None: ...

        async def execute(self, context: AttemptContext) -> Outcome:
            raise AssertionError("it cannot take a batch")

    server = Batched(2)
    async with working(server, Plain()):  # type: ignore[arg-type]
        await until(lambda: len(server.endings) == 2)
    assert set(server.endings.values()) == {HandedBack(was_started=False)}


async def test_a_worker_full_of_batches_claims_no_more() -> None:
    server, executor = Batched(*([999] * 15)), Gathered()
    async with working(server, executor, slots=100) as worker:
        await until(lambda: len(executor.calls) == 15)
        assert worker._leases.room() == 0
        for _, on_end in executor.calls[:6]:
            on_end(Success())
        await until(lambda: worker._leases.room() > 0)
        for _, on_end in executor.calls[6:]:
            on_end(Success())
        await until(lambda: len(server.endings) == 15 * 999)
