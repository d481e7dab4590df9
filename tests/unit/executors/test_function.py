import asyncio
import contextlib
import contextvars
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest

from mainspring.core.causes import Cause
from mainspring.core.model import INLINE_LIMIT
from mainspring.core.outcomes import Failure
from mainspring.core.results import LeftOut, ResultMark, read_mark
from mainspring.executors import FunctionExecutor
from mainspring.executors.runners import InlineRunner, LoopThreadRunner
from mainspring.ports.executor import GENTLY, DeferringExecutor, NotBegun, Outcome, Snooze, Success
from mainspring.registry import FunctionRegistry
from mainspring.signals import FailRun, RetryRun, SnoozeRun, current_attempt
from tests.unit.executors.attempts import make_attempt

GRACE = timedelta(seconds=0.2)
Execute = Callable[..., Awaitable[Outcome]]


class Bench:
    """An executor whose functions are registered as they are called."""

    def __init__(self, runner: InlineRunner | LoopThreadRunner) -> None:
        self.registry = FunctionRegistry()
        self.runner = runner
        self.executor = FunctionExecutor(self.registry, runner=runner, grace=GRACE)

    async def run(
        self, function: Callable[..., Any], payload: bytes | None = None, **options: Any
    ) -> Outcome:
        name = f"{function.__qualname__} {id(function)}"
        self.registry.add(name, function)
        return await self.executor.execute(make_attempt({"function": name}, payload=payload, **options))

    async def fail(
        self, function: Callable[..., Any], payload: bytes | None = None, **options: Any
    ) -> Failure:
        outcome = await self.run(function, payload, **options)
        assert isinstance(outcome, Failure)
        return outcome


async def open_bench(runner: InlineRunner | LoopThreadRunner) -> AsyncIterator[Bench]:
    bench = Bench(runner)
    await bench.executor.start()
    yield bench
    await bench.executor.stop()


@pytest.fixture(params=["inline", "thread"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """On both runners: for what must not depend on the runner."""
    runner = InlineRunner() if request.param == "inline" else LoopThreadRunner(threads=4)
    async for bench in open_bench(runner):
        yield bench


@pytest.fixture
async def threaded() -> AsyncIterator[Bench]:
    async for bench in open_bench(LoopThreadRunner(threads=1)):
        yield bench


async def echo(*args: Any, **keywords: Any) -> Any:
    return [args, keywords]


def sync_echo(*args: Any, **keywords: Any) -> Any:
    return [args, keywords]


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (None, b"[[],{}]"),
        (b"null", b"[[],{}]"),
        (b'{"a":1,"b":"x"}', b'[[],{"a":1,"b":"x"}]'),
        (b"[1,[2]]", b"[[1,[2]],{}]"),
        (b'"text"', b'[["text"],{}]'),
        (b"0", b"[[0],{}]"),
    ],
)
@pytest.mark.parametrize("function", [echo, sync_echo])
async def test_payload_becomes_arguments(
    bench: Bench, function: Callable[..., Any], payload: bytes | None, expected: bytes
) -> None:
    assert await bench.run(function, payload) == Success(result=expected)


async def needs(a: int, *, b: int = 1) -> int:
    return a + b


async def test_keywords_reach_plain_parameters(bench: Bench) -> None:
    assert await bench.run(needs, b'{"a":1,"b":41}') == Success(result=b"42")


@pytest.mark.parametrize(
    ("payload", "argument"),
    [(None, "'a'"), (b"{}", "'a'"), (b'{"a":1,"c":2}', "'c'"), (b"[1,2]", "too many positional")],
)
async def test_arguments_that_do_not_fit_are_named(
    bench: Bench, payload: bytes | None, argument: str
) -> None:
    failure = await bench.fail(needs, payload)
    assert argument in failure.error
    assert not failure.is_retryable


@pytest.mark.parametrize("payload", [b"{", b"\xff", b"[" * 100_000 + b"]" * 100_000, b'{"a":NaN}'])
async def test_payload_that_is_not_json_is_refused(bench: Bench, payload: bytes) -> None:
    failure = await bench.fail(echo, payload)
    assert "cannot be read as JSON" in failure.error
    assert not failure.is_retryable


@pytest.mark.parametrize("params", [{}, {"function": None}, {"function": "os.system"}, {"function": ["a"]}])
async def test_unknown_function_is_refused(bench: Bench, params: dict[str, Any]) -> None:
    outcome = await bench.executor.execute(make_attempt(params))
    assert isinstance(outcome, Failure)
    assert not outcome.is_retryable


async def test_none_is_no_result(bench: Bench) -> None:
    async def nothing() -> None: ...

    assert await bench.run(nothing) == Success()


@pytest.mark.parametrize("function", [echo, sync_echo])
async def test_what_may_not_begin_any_more_does_not(bench: Bench, function: Callable[..., Any]) -> None:
    assert isinstance(bench.executor, DeferringExecutor)
    answers = [True, False]
    bench.executor.ask_before_work(lambda: answers.pop(0))
    assert await bench.run(function) == Success(result=b"[[],{}]")
    assert await bench.run(function) == NotBegun()
    assert answers == []  # each call asks once


def nested() -> Any:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


def with_surrogate() -> str:
    return "\ud800"


def not_json() -> object:
    return object()


def not_a_number() -> float:
    return float("nan")


def with_infinity() -> list[Any]:
    return [None, {"rate": float("-inf")}]


@dataclass
class Rate:
    value: float


def rate() -> Rate:
    return Rate(float("inf"))


def not_a_key() -> dict[float, int]:
    return {1.5: 1, float("nan"): 2}


@pytest.mark.parametrize(
    "function",
    [nested, with_surrogate, not_json, not_a_number, with_infinity, rate, not_a_key],
    ids=lambda made: made.__name__,
)
async def test_result_that_is_not_json_is_left_out_of_a_success(
    bench: Bench, function: Callable[[], Any]
) -> None:
    mark = await left_out(bench, function)
    assert (mark.reason, mark.size, mark.sha256) == (LeftOut.NOT_JSON, None, None)
    assert mark.note.startswith("the result is not JSON: ")


async def left_out(bench: Bench, function: Callable[[], Any]) -> ResultMark:
    outcome = await bench.run(function)
    assert isinstance(outcome, Success)
    mark = read_mark(outcome.result)
    assert mark is not None
    return mark


async def test_other_keys_of_a_result_become_text(bench: Bench) -> None:
    assert await bench.run(lambda: {1: None, 1.5: "nan", "inf": []}) == Success(
        result=b'{"1":null,"1.5":"nan","inf":[]}'
    )


def levels(count: int) -> Any:
    value: Any = "[{"
    for level in range(count):
        value = [value, 1] if level % 2 else {"a": "}", "b": value}
    return value


async def test_result_is_nested_no_deeper_than_a_payload_may_be(bench: Bench) -> None:
    assert isinstance(await bench.run(lambda: levels(64)), Success)
    mark = await left_out(bench, lambda: levels(65))
    assert (mark.reason, mark.note) == (LeftOut.TOO_DEEP, "the result is nested deeper than 64 levels")


async def test_result_over_the_limit_is_left_out_of_a_success(bench: Bench) -> None:
    mark = await left_out(bench, lambda: "x" * (INLINE_LIMIT - 1))
    text = b'"' + b"x" * (INLINE_LIMIT - 1) + b'"'
    assert (mark.reason, mark.size, mark.sha256) == (LeftOut.TOO_LARGE, len(text), sha256(text).hexdigest())
    assert mark.note == "the result is 65,537 bytes of JSON; at most 65,536 can be kept"


@pytest.mark.parametrize("size", [60_000, 60_001, INLINE_LIMIT - 1, INLINE_LIMIT])
async def test_result_up_to_the_limit_is_kept_whole(bench: Bench, size: int) -> None:
    text = "x" * (size - 2)
    assert await bench.run(lambda: text) == Success(result=f'"{text}"'.encode())


async def test_exception_is_told_with_the_jobs_own_frames(bench: Bench) -> None:
    async def broken() -> None:
        await asyncio.sleep(0)
        raise ValueError("no such \0 customer \ud800")

    failure = await bench.fail(broken)
    assert failure.error == "ValueError: no such \ufffd customer ?"
    assert failure.is_retryable
    assert failure.output is not None
    assert "in broken" in failure.output
    assert "_driver.py" not in failure.output


class Refused(ConnectionError):
    """Of the job's own."""


async def test_classes_of_an_exception_are_reported_as_the_cause(bench: Bench) -> None:
    def broken() -> None:
        raise Refused

    assert (await bench.fail(broken)).cause == Cause(
        exceptions=(
            f"{__name__}.Refused",
            "builtins.ConnectionError",
            "builtins.OSError",
            "builtins.Exception",
            "builtins.BaseException",
        )
    )
    for signal in (FailRun("no"), RetryRun(3)):
        assert (await bench.fail(raising(signal))).cause is None


def raising(error: Exception) -> Callable[[], None]:
    def function() -> None:
        raise error

    return function


async def test_endless_message_is_cut(bench: Bench) -> None:
    failure = await bench.fail(lambda: int("x" * 1_000_000))
    assert len(failure.error) < 3_000
    assert failure.output is not None
    assert len(failure.output) < 70_000


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), BaseException("odd"), Unprintable()]
)
@pytest.mark.parametrize("waits", [True, False])
async def test_whatever_is_raised_is_a_failure_and_the_worker_lives(
    bench: Bench, error: BaseException, waits: bool
) -> None:
    async def broken() -> None:
        if waits:
            await asyncio.sleep(0)
        raise error

    def broken_sync() -> None:
        raise error

    for function in (broken, broken_sync):
        failure = await bench.fail(function)
        assert failure.error.startswith(type(error).__name__)
    assert await bench.run(echo) == Success(result=b"[[],{}]")


async def test_stop_iteration_is_a_failure(bench: Bench) -> None:
    def broken() -> None:
        raise StopIteration(1)

    assert (await bench.fail(broken)).error == "StopIteration: 1"


async def test_signals_steer_the_run(bench: Bench) -> None:
    delay = timedelta(seconds=9)
    assert await bench.run(raising(SnoozeRun(delay))) == Snooze(delay)
    assert await bench.run(raising(FailRun("bad"))) == Failure(error="bad", is_retryable=False)
    assert await bench.run(raising(RetryRun(delay, "busy"))) == Failure(error="busy", retry_after=delay)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (1, timedelta(seconds=1)),
        (0, timedelta(0)),
        (0.25, timedelta(milliseconds=250)),
        (timedelta(minutes=3), timedelta(minutes=3)),
        ("5m", timedelta(minutes=5)),
        (10**400, timedelta.max),
        (1e300, timedelta.max),
    ],
)
def test_delays_are_seconds_timedeltas_or_text(given: float | timedelta | str, expected: timedelta) -> None:
    assert SnoozeRun(given).delay == RetryRun(given, "later").after == expected


@pytest.mark.parametrize(
    "delay", [timedelta(seconds=-1), -0.1, float("nan"), float("inf"), True, "soon", None]
)
def test_delays_that_are_none_are_refused(delay: Any) -> None:
    for signal in (SnoozeRun, RetryRun):
        with pytest.raises(ValueError, match=r"delay(:| is) (must be )?seconds"):
            signal(delay)


async def test_current_attempt_is_known_everywhere(bench: Bench) -> None:
    async def in_async() -> list[int]:
        async def child() -> int:
            return current_attempt().token

        first = current_attempt().token
        await asyncio.sleep(0)
        return [first, current_attempt().token, await asyncio.create_task(child())]

    assert await bench.run(in_async) == Success(result=b"[41,41,41]")
    assert await bench.run(lambda: current_attempt().attempt) == Success(result=b"2")
    with pytest.raises(LookupError):
        current_attempt()


variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)


async def test_context_variables_do_not_leak_between_jobs(bench: Bench) -> None:
    async def leaky(number: int) -> list[int]:
        before = variable.get()
        token = variable.set(number)
        if number % 2:
            await asyncio.sleep(0)
        inside = variable.get()
        variable.reset(token)
        variable.set(number)
        return [before, inside]

    outcomes = await asyncio.gather(*(bench.run(leaky, b"[%d]" % number) for number in range(50)))
    assert outcomes == [Success(result=b"[0,%d]" % number) for number in range(50)]


async def test_asyncio_tools_work_in_the_first_step(bench: Bench) -> None:
    async def uses_all() -> str:
        own = asyncio.current_task()
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        return "same" if own is asyncio.current_task() else "other"

    outcomes = await asyncio.gather(*(bench.run(uses_all) for _ in range(5)))
    assert outcomes == [Success(result=b'"same"')] * 5


async def test_job_that_cancels_its_own_task_harms_no_other(bench: Bench) -> None:
    async def cancels() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    async def waits() -> str:
        await asyncio.sleep(0)
        return "fine"

    outcomes = await asyncio.gather(*(bench.run(cancels if n % 2 else waits) for n in range(20)))
    assert outcomes == [Success(result=b'"fine"'), Success()] * 10


async def test_task_left_behind_that_exits_does_not_end_the_worker(threaded: Bench) -> None:
    async def exits() -> None:
        raise SystemExit

    async def leaves() -> None:
        task = asyncio.create_task(exits())
        task.add_done_callback(lambda task: task.exception())

    assert await threaded.run(leaves) == Success()
    assert await threaded.run(echo) == Success(result=b"[[],{}]")


async def test_many_calls_come_back_to_their_callers(bench: Bench) -> None:
    async def identity(number: int) -> int:
        if number % 3 == 0:
            await asyncio.sleep(0)
        return number

    outcomes = await asyncio.gather(*(bench.run(identity, b"[%d]" % number) for number in range(2_000)))
    assert outcomes == [Success(result=b"%d" % number) for number in range(2_000)]


def sync_but_not() -> Awaitable[Any]:
    return echo()


async def test_sync_function_that_returns_an_awaitable_is_refused(bench: Bench) -> None:
    failure = await bench.fail(sync_but_not)
    assert "async def" in failure.error
    assert not failure.is_retryable


async def test_soft_timeout_lets_the_job_clean_up(bench: Bench) -> None:
    cleaned = threading.Event()

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    failure = await bench.fail(slow, soft_timeout=0.02)
    assert failure.is_timeout
    assert "soft time limit of 0.02 s" in failure.error
    assert cleaned.is_set()
    assert bench.executor.abandoned == 0


async def test_job_may_finish_by_itself_after_the_soft_timeout(bench: Bench) -> None:
    async def saves() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "saved"

    assert await bench.run(saves, soft_timeout=0.02) == Success(result=b'"saved"')


@pytest.mark.parametrize("timeout", [0.02, 0.12])
async def test_hard_timeout_says_where_the_job_was(bench: Bench, timeout: float) -> None:
    async def stuck_here() -> None:
        await asyncio.Event().wait()

    failure = await bench.fail(stuck_here, timeout=timeout)
    assert failure.is_timeout
    assert failure.error == f"timed out after {timeout} s"
    assert failure.output is not None
    assert "in stuck_here" in failure.output


async def test_job_that_swallows_cancellation_is_left_behind(bench: Bench) -> None:
    release = asyncio.Event()
    homes: list[asyncio.AbstractEventLoop] = []

    async def stubborn() -> None:
        homes.append(asyncio.get_running_loop())
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    failure = await bench.fail(stubborn, timeout=0.02)
    assert failure.is_timeout
    assert "still running" in failure.error
    assert bench.executor.abandoned == 1
    homes[0].call_soon_threadsafe(release.set)


async def test_cancelled_execute_cancels_the_job(bench: Bench) -> None:
    started, ended = threading.Event(), threading.Event()

    async def slow() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    attempt = asyncio.ensure_future(bench.run(slow))
    while not started.is_set():  # noqa: ASYNC110 -- another thread sets it
        await asyncio.sleep(0.001)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert ended.is_set()


async def test_cancelled_execute_waits_for_a_stubborn_job_only_a_grace(bench: Bench) -> None:
    homes: list[asyncio.AbstractEventLoop] = []
    release = asyncio.Event()

    async def stubborn() -> None:
        homes.append(asyncio.get_running_loop())
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    attempt = asyncio.ensure_future(bench.run(stubborn))
    while not homes:  # noqa: ASYNC110 -- another thread fills it
        await asyncio.sleep(0.001)
    begin = time.monotonic()
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert 0.1 < time.monotonic() - begin < 5
    assert bench.executor.abandoned == 1
    homes[0].call_soon_threadsafe(release.set)


async def test_sync_function_over_its_time_loses_its_slot_not_the_pool(threaded: Bench) -> None:
    release = threading.Event()
    failure = await threaded.fail(release.wait, timeout=0.02)
    assert failure.is_timeout
    assert threaded.executor.abandoned == 1
    assert await threaded.run(sync_echo) == Success(result=b"[[],{}]")
    release.set()
    assert await threaded.run(sync_echo) == Success(result=b"[[],{}]")


async def never() -> None:
    await asyncio.get_running_loop().create_future()


async def test_time_of_a_sync_function_begins_with_its_code_and_not_with_the_wait_for_a_thread(
    threaded: Bench,
) -> None:
    release = threading.Event()
    first = asyncio.ensure_future(threaded.run(release.wait))
    waiting = asyncio.ensure_future(threaded.run(sync_echo, timeout=0.02))
    await asyncio.sleep(0)
    assert (await threaded.fail(never, timeout=0.06)).is_timeout  # three of its limits have passed
    assert not waiting.done()
    release.set()
    assert await first == Success(result=b"true")
    assert await waiting == Success(result=b"[[],{}]")
    assert threaded.executor.abandoned == 0


async def test_sync_function_that_waited_for_a_thread_has_its_whole_time_and_no_more(threaded: Bench) -> None:
    release, end = threading.Event(), threading.Event()
    first = asyncio.ensure_future(threaded.run(release.wait))
    waiting = asyncio.ensure_future(threaded.fail(end.wait, timeout=0.2))
    await asyncio.sleep(0)
    assert (await threaded.fail(never, timeout=0.1)).is_timeout
    release.set()
    await first
    begun = time.monotonic()
    failure = await waiting
    assert failure.is_timeout
    assert "timed out after 0.2 s, and is still running" in failure.error
    assert 0.15 < time.monotonic() - begun < 5
    end.set()


async def test_room_is_what_can_begin_at_once(threaded: Bench) -> None:
    end = threading.Event()
    assert threaded.executor.room() == 1
    for _ in range(33):
        assert threaded.executor.room() == 1  # those that are left behind are replaced
        waiting = asyncio.ensure_future(threaded.fail(end.wait, timeout=0.02))
        await asyncio.sleep(0)
        assert threaded.executor.room() == 0
        assert (await waiting).is_timeout
    assert threaded.executor.room() == 0  # 32 may be left behind before one is missed
    came_back = asyncio.Event()
    threaded.executor.listen_for_room(came_back.set)
    end.set()
    await asyncio.wait_for(came_back.wait(), 5)
    assert threaded.executor.room() == 1


async def begun(threaded: Bench, end: Callable[[], Any], **options: Any) -> asyncio.Task[Outcome]:
    """Start a sync function that ends as `end` does; return its attempt when it has begun."""
    started = threading.Event()

    def function() -> Any:
        started.set()
        return end()

    attempt = asyncio.ensure_future(threaded.run(function, **options))
    assert isinstance(attempt, asyncio.Task)
    while not started.is_set():  # noqa: ASYNC110 -- another thread sets it
        await asyncio.sleep(0.001)
    return attempt


@pytest.mark.parametrize("cancels", [1, 2])
@pytest.mark.parametrize("moment", [0, 0.08])
async def test_sync_function_that_has_begun_outlasts_a_gentle_cancel(
    threaded: Bench, cancels: int, moment: float
) -> None:
    release = threading.Event()
    attempt = await begun(threaded, release.wait)
    await asyncio.sleep(moment)
    for _ in range(cancels):
        attempt.cancel(GENTLY)
        await asyncio.sleep(0.01)
    _, pending = await asyncio.wait((attempt,), timeout=2 * GRACE.total_seconds())
    assert pending
    release.set()
    assert await attempt == Success(result=b"true")
    assert threaded.executor.abandoned == 0
    assert await threaded.run(sync_echo) == Success(result=b"[[],{}]")


async def test_sync_function_that_fails_after_a_gentle_cancel_says_how(threaded: Bench) -> None:
    release = threading.Event()

    def broken() -> None:
        release.wait()
        raise ValueError("no")

    attempt = await begun(threaded, broken)
    attempt.cancel(GENTLY)
    release.set()
    assert isinstance(outcome := await attempt, Failure)
    assert outcome.error == "ValueError: no"


async def test_end_of_a_sync_function_wins_over_a_cancel_of_the_same_moment(threaded: Bench) -> None:
    for message in (GENTLY, None):
        release = threading.Event()
        attempt = await begun(threaded, release.wait)
        release.set()
        time.sleep(0.05)  # noqa: ASYNC251 -- it ends while this loop cannot look
        attempt.cancel(message)
        if message is GENTLY:
            assert await attempt == Success(result=b"true")
        else:
            with contextlib.suppress(asyncio.CancelledError):
                await attempt
    assert await threaded.run(sync_echo) == Success(result=b"[[],{}]")


@pytest.mark.parametrize("timeout", [0.08, 0.3])
async def test_hard_limit_holds_for_a_sync_function_that_was_cancelled(
    threaded: Bench, timeout: float
) -> None:
    release = threading.Event()
    attempt = await begun(threaded, release.wait, timeout=timeout)
    attempt.cancel(GENTLY)
    async with asyncio.timeout(5):
        outcome = await attempt
    assert isinstance(outcome, Failure)
    assert outcome.is_timeout
    assert threaded.executor.abandoned == 1
    release.set()


async def test_plain_cancel_leaves_a_sync_function_behind_at_once(threaded: Bench) -> None:
    release = threading.Event()
    for is_gentle_first in (False, True):
        attempt = await begun(threaded, release.wait)
        if is_gentle_first:
            attempt.cancel(GENTLY)
            await asyncio.sleep(0.01)
        before = time.monotonic()
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt
        assert time.monotonic() - before < GRACE.total_seconds()
    assert threaded.executor.abandoned == 2
    assert await threaded.run(sync_echo) == Success(result=b"[[],{}]")
    release.set()


@pytest.mark.parametrize("message", [GENTLY, None])
async def test_sync_function_that_has_not_begun_never_does_after_a_cancel(
    threaded: Bench, message: str | None
) -> None:
    release, ran = threading.Event(), threading.Event()
    first = await begun(threaded, release.wait)
    second = asyncio.ensure_future(threaded.run(ran.set))
    await asyncio.sleep(0)
    before = time.monotonic()
    second.cancel(message)
    with pytest.raises(asyncio.CancelledError):
        await second
    assert time.monotonic() - before < GRACE.total_seconds()
    release.set()
    assert await first == Success(result=b"true")
    assert await threaded.run(sync_echo) == Success(result=b"[[],{}]")
    assert not ran.is_set()
    assert threaded.executor.abandoned == 0


async def test_sync_functions_share_the_slots() -> None:
    async for bench in open_bench(LoopThreadRunner(threads=2)):
        both = threading.Barrier(2, timeout=10)
        outcomes = await asyncio.gather(*(bench.run(both.wait) for _ in range(2)))
        assert all(isinstance(outcome, Success) for outcome in outcomes)


async def test_blocking_async_job_stops_neither_the_heartbeat_nor_later_jobs(threaded: Bench) -> None:
    release = threading.Event()

    async def blocks() -> None:
        release.wait(20)

    beats = 0
    attempt = asyncio.ensure_future(threaded.fail(blocks, timeout=0.15))
    while not attempt.done():
        beats += 1
        await asyncio.sleep(0.01)
    assert attempt.result().is_timeout
    assert beats > 5
    assert isinstance(threaded.runner, LoopThreadRunner)
    assert threaded.runner.stalled_loops == 1
    assert await threaded.run(echo) == Success(result=b"[[],{}]")
    release.set()
