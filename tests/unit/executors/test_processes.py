"""Functions in processes of their own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.causes import Cause
from mainspring.core.outcomes import Failure
from mainspring.core.results import LeftOut, read_mark
from mainspring.errors import InvalidInput
from mainspring.executors import FunctionExecutor
from mainspring.executors._process_messages import Frames, frame
from mainspring.executors._processes import FunctionProcesses, find_place
from mainspring.executors.runners import InlineRunner
from mainspring.ports.executor import GENTLY, NotBegun, Outcome, Snooze, Success
from mainspring.registry import FunctionRegistry
from tests.unit.executors import isolated_functions as functions
from tests.unit.executors.attempts import make_attempt

pytestmark = pytest.mark.xdist_group("processes")


class Bench:
    """An executor that calls functions in at most so many processes."""

    def __init__(self, limit: int = 2) -> None:
        self.registry = FunctionRegistry()
        self.processes = FunctionProcesses(limit)
        self.executor = FunctionExecutor(self.registry, processes=self.processes)

    async def run(self, call: Callable[..., Any], payload: object = None, **options: Any) -> Outcome:
        name = call.__qualname__
        self.registry.add(name, call)
        text = None if payload is None else json.dumps(payload).encode()
        params = {"function": name, "isolation": "process"}
        return await self.executor.execute(make_attempt(params, payload=text, **options))

    async def fail(self, call: Callable[..., Any], payload: object = None, **options: Any) -> Failure:
        outcome = await self.run(call, payload, **options)
        assert isinstance(outcome, Failure), outcome
        return outcome

    async def result(self, call: Callable[..., Any], payload: object = None, **options: Any) -> Any:
        outcome = await self.run(call, payload, **options)
        assert isinstance(outcome, Success), outcome
        assert outcome.result is not None
        return json.loads(outcome.result)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    await bench.executor.start()
    yield bench
    await bench.executor.stop()


@pytest.fixture
def pipe(tmp_path: Path) -> str:
    """A pipe into which a function writes a pid; it waits until somebody reads."""
    os.mkfifo(tmp_path / "pid")
    return str(tmp_path / "pid")


async def told_pid(pipe: str) -> int:
    """Wait until a function has written a pid."""
    return int(await asyncio.to_thread(Path(pipe).read_text))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("call", [functions.echo, functions.async_echo])
@pytest.mark.parametrize(
    ("payload", "expected"), [(None, [[], {}]), ({"a": 1}, [[], {"a": 1}]), ([1, "ü"], [[1, "ü"], {}])]
)
async def test_payload_and_result_cross_as_json(
    bench: Bench, call: Callable[..., Any], payload: object, expected: object
) -> None:
    assert await bench.result(call, payload) == expected


async def test_function_reads_its_annotations_and_knows_its_attempt(bench: Bench) -> None:
    assert await bench.result(functions.day, {"when": "2026-03-01"}) == "date 2026"
    told = await bench.result(functions.describe)
    attempt = make_attempt({})
    assert told.pop("pid") != os.getpid()
    assert told == {
        "run": attempt.run,
        "job": str(attempt.job_id),
        "attempt": 2,
        "token": 41,
        "key": "key-1",
        "fire_at": "2026-03-29T01:30:00Z",
        "due_at": "2026-03-29T01:30:05Z",
    }


async def test_process_is_used_again(bench: Bench) -> None:
    pids = {(await bench.result(functions.describe))["pid"] for _ in range(5)}
    assert len(pids) == 1


async def test_crash_fails_its_own_call_alone_and_tells_where(bench: Bench) -> None:
    neighbour = asyncio.ensure_future(bench.result(functions.describe))
    failure = await bench.fail(functions.crash, {"after": "so far so good"})
    assert failure.error == "its process was killed by SIGSEGV"
    assert failure.cause == Cause(exit_code=-signal.SIGSEGV)
    assert failure.is_retryable
    assert failure.output is not None
    assert failure.output.startswith("so far so good\n")
    assert "Fatal Python error: Segmentation fault" in failure.output
    assert "isolated_functions.py" in failure.output
    assert (await neighbour)["attempt"] == 2
    assert await bench.result(functions.double, {"number": 21}) == 42


@pytest.mark.slow
async def test_one_segfault_among_a_thousand_calls_is_one_failure(bench: Bench) -> None:
    room = asyncio.Semaphore(20)

    async def call(number: int) -> Outcome:
        async with room:
            return await bench.run(functions.crash_at, {"number": number, "worst": 500})

    outcomes = await asyncio.gather(*map(call, range(1000)))
    assert [n for n, one in enumerate(outcomes) if isinstance(one, Failure)] == [500]
    assert [one.result for one in outcomes if isinstance(one, Success)] == [
        str(number).encode() for number in range(1000) if number != 500
    ]


@pytest.mark.parametrize(
    ("call", "payload", "error", "code"),
    [
        (functions.leave, [3], "its process ended with exit status 3 before the function returned", 3),
        (functions.leave, [0], "its process ended with exit status 0 before the function returned", 0),
        (functions.give_signal, [int(signal.SIGKILL)], "its process was killed by SIGKILL", -9),
        (functions.give_signal, [int(signal.SIGRTMIN) + 5], "its process was killed by signal 39", -39),
    ],
)
async def test_end_of_its_process_is_a_failed_attempt(
    bench: Bench, call: Callable[..., Any], payload: object, error: str, code: int
) -> None:
    failure = await bench.fail(call, payload)
    assert (failure.error, failure.cause) == (error, Cause(exit_code=code))


@pytest.mark.parametrize("call", [functions.fork_and_return, functions.fork_and_crash])
async def test_process_that_left_a_fork_behind_has_ended_all_the_same(
    bench: Bench, pipe: str, call: Callable[..., Any]
) -> None:
    running = asyncio.ensure_future(bench.run(call, [pipe]))
    pid = await told_pid(pipe)
    assert isinstance(await running, Success) == (call is functions.fork_and_return)
    os.kill(pid, signal.SIGKILL)


async def test_fork_that_returns_answers_no_later_call(pipe: str) -> None:
    bench = Bench(limit=1)
    await bench.executor.start()
    try:
        assert await bench.result(functions.return_twice, [pipe]) == "first"
        outcome = await bench.run(functions.let_go, [pipe])
        assert outcome == Success(result=b'"second"')
        assert await bench.result(functions.double, [4]) == 8
    finally:
        await bench.executor.stop()


@pytest.mark.parametrize(
    "data",
    [
        frame(b"A", b"no reply"),
        frame(b"A", b"{}"),
        frame(b"O", b"short"),
        frame(b"?", b""),
        b"\xff\xff\xff\xffO",
    ],
)
async def test_what_a_function_writes_to_the_connection_fails_its_own_call_alone(
    bench: Bench, data: bytes
) -> None:
    failure = await bench.fail(functions.meddle, {"data": data.hex()})
    assert failure.error == "its process sent the worker what is no message, and was killed"
    assert await bench.result(functions.double, {"number": 21}) == 42


async def test_however_much_is_printed_at_once_little_of_it_reaches_the_worker(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived = 0

    def count(self: Frames, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        nonlocal arrived
        arrived += len(data)
        return take(self, data)

    take = Frames.take
    monkeypatch.setattr(Frames, "take", count)
    outcome = await bench.run(functions.print_much, {"count": 5_000_000})
    assert isinstance(outcome, Success)
    assert outcome.output is not None
    assert outcome.output.startswith("first\nxxx")
    assert outcome.output.endswith("xxx\nlast\n")
    assert "[… 4,934,476 characters left out …]" in outcome.output
    assert arrived < 200_000


async def test_function_that_holds_the_interpreter_is_killed_at_its_limit(bench: Bench, pipe: str) -> None:
    running = asyncio.ensure_future(bench.fail(functions.spin, [pipe], timeout=1, soft_timeout=0.1))
    pid = await told_pid(pipe)
    failure = await running
    assert (failure.error, failure.is_timeout, failure.output) == ("timed out after 1 s", True, "spinning\n")
    assert not is_alive(pid)
    assert bench.executor.abandoned == 0
    assert await bench.result(functions.double, [4]) == 8


@pytest.mark.parametrize("message", [None, GENTLY])
async def test_cancelled_function_is_dead_when_that_is_told(
    bench: Bench, pipe: str, message: str | None
) -> None:
    running = asyncio.ensure_future(bench.run(functions.spin, [pipe]))
    pid = await told_pid(pipe)
    running.cancel(message)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not is_alive(pid)


async def test_call_waits_for_a_process_and_its_time_does_not_run(pipe: str) -> None:
    bench = Bench(limit=1)
    await bench.executor.start()
    try:
        first = asyncio.ensure_future(bench.run(functions.spin, [pipe], timeout=1.5))
        await told_pid(pipe)
        waiting = asyncio.ensure_future(bench.result(functions.double, [1], timeout=0.5))
        cancelled = asyncio.ensure_future(bench.result(functions.double, [2]))
        await asyncio.sleep(0)
        cancelled.cancel(GENTLY)
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert isinstance(await first, Failure)
        assert await waiting == 2
    finally:
        await bench.executor.stop()


async def test_what_may_not_begin_any_more_does_not(bench: Bench) -> None:
    bench.executor.ask_before_work(lambda: False)
    assert await bench.run(functions.echo) == NotBegun()


@pytest.mark.parametrize("lines", [2, 20_000])
async def test_output_is_kept_as_that_of_other_functions_is(bench: Bench, lines: int) -> None:
    outcome = await bench.run(functions.talk, [lines])
    assert isinstance(outcome, Success)
    assert outcome.output is not None
    assert outcome.output.startswith("first\nline 0\nline 1\n")
    assert outcome.output.endswith(f"line {lines - 1}\nlast\n")
    here = FunctionExecutor(bench.registry, keeps_output=True)
    await here.start()
    attempt = make_attempt({"function": "talk"}, payload=json.dumps([lines]).encode())
    assert await here.execute(attempt) == outcome
    await here.stop()


async def test_failure_has_its_traceback_behind_what_was_printed(bench: Bench) -> None:
    failure = await bench.fail(functions.fail)
    assert failure.error == "ValueError: no such thing"
    assert failure.cause is not None
    assert failure.cause.exceptions[0] == "builtins.ValueError"
    assert failure.output is not None
    assert failure.output.startswith("about to fail\nTraceback")
    assert "_process_child" not in failure.output


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("snooze", Snooze(timedelta(seconds=60))),
        ("retry", Failure(error="later", retry_after=timedelta(seconds=90))),
        ("fail", Failure(error="never", is_retryable=False)),
        ("nothing", Success()),
    ],
)
async def test_signals_cross(bench: Bench, how: str, expected: Outcome) -> None:
    assert await bench.run(functions.end_as, [how]) == expected


async def test_system_exit_fails_the_attempt_and_spares_the_process(bench: Bench) -> None:
    assert (await bench.fail(functions.end_as, ["exit"])).error == "SystemExit: 3"
    assert await bench.result(functions.double, [3]) == 6


async def test_arguments_and_results_that_do_not_fit_are_told_as_elsewhere(bench: Bench) -> None:
    failure = await bench.fail(functions.double, {"x": 1})
    assert "'number'" in failure.error
    assert not failure.is_retryable
    outcome = await bench.run(functions.no_json)
    assert isinstance(outcome, Success)
    mark = read_mark(outcome.result)
    assert mark is not None
    assert mark.reason is LeftOut.NOT_JSON


async def test_signals_of_a_service_manager_end_no_function(bench: Bench) -> None:
    assert all("_ignore" in text for text in await bench.result(functions.handlers))


def test_function_is_found_behind_its_decorators() -> None:
    call = functions.behind_a_decorator.__wrapped__  # type: ignore[attr-defined]
    function = FunctionRegistry().add("behind", call)
    assert find_place(function) == ("tests.unit.executors.isolated_functions", "behind_a_decorator", 1)


async def test_function_behind_a_decorator_is_called(bench: Bench) -> None:
    assert await bench.result(functions.behind_a_decorator.__wrapped__) == "behind"  # type: ignore[attr-defined]


async def test_function_within_a_function_is_refused(bench: Bench) -> None:
    def local() -> None: ...

    failure = await bench.fail(local)
    assert "define it at the top of its module" in failure.error
    assert not failure.is_retryable
    with pytest.raises(InvalidInput, match="isolation"):
        find_place(FunctionRegistry().add("local", local))


async def test_worker_without_processes_refuses_and_tests_call_in_place() -> None:
    registry = FunctionRegistry()
    registry.add("echo", functions.echo)
    attempt = make_attempt({"function": "echo", "isolation": "process"})
    executor = FunctionExecutor(registry)
    await executor.start()
    outcome = await executor.execute(attempt)
    await executor.stop()
    assert isinstance(outcome, Failure)
    assert "executors.process.enabled" in outcome.error
    inline = FunctionExecutor(registry, runner=InlineRunner())
    await inline.start()
    assert await inline.execute(attempt) == Success(result=b"[[],{}]")
    await inline.stop()


async def test_processes_end_with_the_executor() -> None:
    bench = Bench()
    await bench.executor.start()
    pid = (await bench.result(functions.describe))["pid"]
    await bench.executor.stop()
    assert not is_alive(pid)


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_messages_are_whole_however_they_arrive(step: int) -> None:
    sent = [(b"C", b""), (b"O", b"x" * 300), (b"A", "ü".encode())]
    data = b"".join(frame(*one) for one in sent)
    frames = Frames()
    got = [one for at in range(0, len(data), step) for one in frames.take(data[at : at + step])]
    assert got == sent
