"""One call of a function for many runs: what it gets, and what becomes of each run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.outcomes import Failure
from mainspring.core.results import read_mark
from mainspring.executors import FunctionExecutor
from mainspring.executors.runners import InlineRunner, LoopThreadRunner
from mainspring.ports.executor import GENTLY, AttemptContext, BatchExecutor, Outcome, Snooze, Success
from mainspring.registry import FunctionRegistry
from mainspring.signals import Call, Done, Failed, FailRun, RetryRun, SnoozeRun, current_attempt
from tests.unit.executors.attempts import make_attempt


class Bench:
    """An executor with one function."""

    def __init__(self, runner: InlineRunner | LoopThreadRunner) -> None:
        self.registry = FunctionRegistry()
        self.executor = FunctionExecutor(self.registry, runner=runner, grace=timedelta(seconds=0.2))

    def begin(
        self, function: Callable[..., Any], count: int, ended: asyncio.Future[Outcome], **options: Any
    ) -> object:
        self.registry.add("f", function)
        contexts = contexts_of(count, **options)
        handle = self.executor.begin_batch(contexts, ended.set_result)
        assert handle is not None
        return handle

    async def run(self, function: Callable[..., Any], count: int = 3, **options: Any) -> list[Outcome]:
        ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        handle = self.begin(function, count, ended, **options)
        return list(self.executor.split(handle, await asyncio.wait_for(ended, 20)))


def contexts_of(count: int, **options: Any) -> list[AttemptContext]:
    return [
        make_attempt({"function": "f"}, payload=b'{"n":%d}' % n, run_id=256 + n, **options)
        for n in range(count)
    ]


@pytest.fixture(params=["inline", "thread"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    runner = InlineRunner() if request.param == "inline" else LoopThreadRunner(threads=2)
    bench = Bench(runner)
    await bench.executor.start()
    yield bench
    await bench.executor.stop()


def both(function: Callable[[list[Call]], Any]) -> list[Callable[..., Any]]:
    async def later(calls: list[Call]) -> Any:
        return function(calls)

    async def much_later(calls: list[Call]) -> Any:
        await asyncio.sleep(0)
        return function(calls)

    return [function, later, much_later]


@pytest.mark.parametrize("kind", range(3))
async def test_each_call_has_its_payload_and_its_attempt(bench: Bench, kind: int) -> None:
    assert isinstance(bench.executor, BatchExecutor)
    outcomes = await bench.run(
        both(lambda calls: [Done([call.payload["n"], call.attempt.run_id]) for call in calls])[kind]
    )
    assert outcomes == [Success(result=b"[%d,%d]" % (n, 256 + n)) for n in range(3)]


@pytest.mark.parametrize("kind", range(3))
async def test_each_run_has_an_outcome_of_its_own(bench: Bench, kind: int) -> None:
    told = [
        Done(),
        Failed("no"),
        Failed("never", retry=False),
        Failed("soon", after=30),
        SnoozeRun(5),
        RetryRun(7, "again"),
        FailRun("for good"),
        ValueError("x"),
        Done(object()),
        True,
    ]
    found = await bench.run(both(lambda _: told)[kind], len(told))
    done, no, never, soon, snooze, again, good, value, bad, flag = found
    assert done == Success()
    assert no == Failure(error="no")
    assert never == Failure(error="never", is_retryable=False)
    assert soon == Failure(error="soon", retry_after=timedelta(seconds=30))
    assert snooze == Snooze(timedelta(seconds=5))
    assert again == Failure(error="again", retry_after=timedelta(seconds=7))
    assert good == Failure(error="for good", is_retryable=False)
    assert isinstance(value, Failure)
    assert (value.error, value.is_retryable) == ("ValueError: x", True)
    assert value.cause is not None
    assert value.cause.exceptions[0] == "builtins.ValueError"
    assert isinstance(bad, Success)
    assert read_mark(bad.result) is not None
    assert flag == Failure(
        error="the function returned bool as outcome 9; return Done or Failed", is_retryable=False
    )


@pytest.mark.parametrize("kind", range(3))
async def test_none_is_success_of_all(bench: Bench, kind: int) -> None:
    assert await bench.run(both(lambda _: None)[kind]) == [Success()] * 3


@pytest.mark.parametrize("kind", range(3))
async def test_what_is_raised_is_the_error_of_all(bench: Bench, kind: int) -> None:
    def fail(calls: list[Call]) -> None:
        raise RetryRun(5, "busy")

    expected = Failure(error="busy", retry_after=timedelta(seconds=5))
    assert await bench.run(both(fail)[kind]) == [expected] * 3


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([Done()], "returned 1 outcomes for 3 calls"),
        ([Done()] * 4, "returned 4 outcomes for 3 calls"),
        ([], "returned 0 outcomes for 3 calls"),
        ({"ok": True}, "must return a list of outcomes, or None, not dict"),
    ],
)
async def test_a_wrong_number_of_outcomes_fails_all_for_good(
    bench: Bench, returned: object, message: str
) -> None:
    expected = Failure(error=f"the function {message}", is_retryable=False)
    assert await bench.run(lambda _: returned) == [expected] * 3


async def test_a_function_that_takes_no_list_is_named(bench: Bench) -> None:
    def mail(to: str, subject: str) -> None: ...

    [failure, *others] = await bench.run(mail)
    assert isinstance(failure, Failure)
    assert "cannot be called with one list of calls" in failure.error
    assert not failure.is_retryable
    assert others == [failure] * 2


async def test_an_unknown_function_is_not_called(bench: Bench) -> None:
    assert bench.executor.begin_batch(contexts_of(2), lambda _: None) is None


async def test_there_is_no_current_attempt(bench: Bench) -> None:
    async def ask(calls: list[Call]) -> None:
        current_attempt()

    [failure, *_] = await bench.run(ask)
    assert isinstance(failure, Failure)
    assert failure.error.startswith("LookupError")


async def test_the_time_limit_is_that_of_the_call(bench: Bench) -> None:
    async def hang(calls: list[Call]) -> None:
        await asyncio.Event().wait()

    outcomes = await bench.run(hang, timeout=0.05)
    assert [isinstance(one, Failure) and one.is_timeout for one in outcomes] == [True] * 3


async def test_a_call_is_stopped(bench: Bench) -> None:
    async def hang(calls: list[Call]) -> None:
        await asyncio.Event().wait()

    handle = bench.begin(hang, 2, asyncio.get_running_loop().create_future())
    with pytest.raises(asyncio.CancelledError):
        await bench.executor.halt(handle, GENTLY)


async def test_a_call_in_a_thread_that_cannot_be_stopped_says_how_it_ended() -> None:
    bench = Bench(LoopThreadRunner(threads=1))
    await bench.executor.start()
    begun, goes_on = threading.Event(), threading.Event()

    def work(calls: list[Call]) -> list[Done | Failed]:
        begun.set()
        goes_on.wait(20)
        return [Done(), Failed("no")]

    handle = bench.begin(work, 2, asyncio.get_running_loop().create_future())
    await asyncio.to_thread(begun.wait, 20)
    halting = asyncio.create_task(bench.executor.halt(handle, GENTLY))
    goes_on.set()
    assert bench.executor.split(handle, await halting) == [Success(), Failure(error="no")]
    await bench.executor.stop()
