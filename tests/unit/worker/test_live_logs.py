"""What attempts write is sent while they run, in bounded parts, and the last of it before their reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random

from mainspring.clock import LoopWaiter, monotonic
from mainspring.core.run_logs import PIECE, RunProgress, join_parts
from mainspring.errors import InvalidInput, Unreachable
from mainspring.ports.executor import AttemptContext, Outcome, Success
from mainspring.ports.gateway import LogResult, Registration
from mainspring.worker import Worker, WorkerSettings, WorkerWaiters
from tests.unit.worker.test_worker import Server, make_lease, until

Job = Callable[[AttemptContext], None]


class Writing:
    """An executor whose attempts write when they are told to, and end when they are told to."""

    type = "test"

    def __init__(self) -> None:
        self.attempts: dict[int, AttemptContext] = {}
        self.ends: dict[int, asyncio.Event] = {}

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def execute(self, context: AttemptContext) -> Outcome:
        self.attempts[context.run_id] = context
        end = self.ends.setdefault(context.run_id, asyncio.Event())
        await end.wait()
        return Success(output="all of it")

    def write(self, run_id: int, text: str) -> None:
        log = self.attempts[run_id].open_log()
        assert log is not None
        log.write(text)


@asynccontextmanager
async def working(server: Server, *, flush: float = 0.02) -> AsyncIterator[tuple[Worker, Writing]]:
    executor = Writing()
    worker = Worker(
        server,
        {"test": executor},
        settings=WorkerSettings(
            registration=Registration(name="w", host="h", pid=1, slots=50),
            log_flush=timedelta(seconds=flush),
            log_limit=4 * PIECE,
        ),
        waiters=WorkerWaiters(claim=LoopWaiter(), beat=LoopWaiter(), report=LoopWaiter(), log=LoopWaiter()),
        random=Random(1),
        monotonic=monotonic,
    )
    await worker.start()
    try:
        yield worker, executor
    finally:
        for end in executor.ends.values():
            end.set()
        await asyncio.wait_for(worker.stop(grace=1), 15)


def text_of(server: Server, run_id: int = 1) -> str:
    parts = [part for report in server.logged if report.run_id == run_id for part in report.parts]
    return join_parts(sorted(parts, key=lambda part: part.start), 0).text


async def test_what_an_attempt_writes_is_sent_while_it_runs_and_the_rest_before_its_report() -> None:
    server = Server()
    server.leases = [make_lease(1)]
    async with working(server) as (_, executor):
        await until(lambda: 1 in executor.attempts)
        executor.write(1, "one\n")
        await until(lambda: text_of(server) == "one\n")
        executor.write(1, "\x1b[1mtwo\x1b[0m\n")
        executor.ends[1].set()
        await until(lambda: bool(server.endings))
        assert text_of(server) == "one\ntwo\n"
        [ending] = server.endings.values()
        assert ending == Success(output="all of it"), "the report is as ever"


async def test_what_ends_within_the_first_period_sends_nothing() -> None:
    server = Server()
    server.leases = [make_lease(1)]
    async with working(server, flush=60) as (_, executor):
        await until(lambda: 1 in executor.attempts)
        executor.write(1, "one\n")
        executor.attempts[1].progress(1, 2)
        executor.ends[1].set()
        await until(lambda: bool(server.endings))
    assert server.logged == ()


async def test_an_attempt_that_writes_much_does_not_wait_for_the_period() -> None:
    server = Server()
    server.leases = [make_lease(1)]
    async with working(server, flush=60) as (_, executor):
        await until(lambda: 1 in executor.attempts)
        executor.write(1, "x" * PIECE)
        await until(lambda: len(text_of(server)) == PIECE)


async def test_progress_is_sent_once_and_the_newest_counts() -> None:
    server = Server()
    server.leases = [make_lease(1)]
    async with working(server) as (_, executor):
        await until(lambda: 1 in executor.attempts)
        executor.attempts[1].progress(1, 3)
        executor.attempts[1].progress(2, 3, "two")
        await until(lambda: bool(server.logged))
        executor.attempts[1].progress(3, 3)
        executor.ends[1].set()
        await until(lambda: bool(server.endings))
    assert [report.progress for report in server.logged] == [
        RunProgress(2.0, 3.0, "two"),
        RunProgress(3.0, 3.0),
    ]


async def test_what_was_not_answered_is_sent_again() -> None:
    server = Server()
    server.errors["log"] = [Unreachable("no"), Unreachable("no")]
    server.leases = [make_lease(1)]
    async with working(server) as (_, executor):
        await until(lambda: 1 in executor.attempts)
        executor.write(1, "one\n")
        await until(lambda: text_of(server) == "one\n")
        assert not server.errors["log"]


async def test_nothing_more_is_sent_of_a_lost_lease_or_to_a_server_that_takes_none() -> None:
    for result in (LogResult.STALE, LogResult.UNKNOWN):
        server = Server()
        server.log_result = result
        server.leases = [make_lease(1)]
        async with working(server) as (_, executor):
            await until(lambda: 1 in executor.attempts)
            executor.write(1, "one\n")
            await until(lambda: len(server.logged) == 1)  # noqa: B023
            executor.write(1, "two\n")
            executor.ends[1].set()
            await until(lambda: bool(server.endings))  # noqa: B023
            assert len(server.logged) == 1


async def test_an_attempt_whose_output_is_refused_is_reported_as_ever() -> None:
    server = Server()
    server.errors["log"] = [InvalidInput("x", "no")]
    server.leases = [make_lease(1)]
    async with working(server) as (_, executor):
        await until(lambda: 1 in executor.attempts)
        executor.write(1, "one\n")
        await until(lambda: not server.errors["log"])
        executor.ends[1].set()
        await until(lambda: bool(server.endings))
    assert server.logged == ()


async def test_what_comes_after_a_long_silence_is_sent_too() -> None:
    server = Server()
    server.leases = [make_lease(1), make_lease(2)]
    async with working(server, flush=0.01) as (_, executor):
        await until(lambda: 2 in executor.attempts)
        executor.write(1, "one\n")
        await until(lambda: bool(text_of(server)))
        executor.ends[1].set()
        await until(lambda: bool(server.endings))
        await asyncio.sleep(0.3)  # longer than the loop stays awake
        executor.write(2, "two\n")
        await until(lambda: text_of(server, 2) == "two\n")
