"""What functions print is kept with their own run, whoever else prints, and passed on."""

import asyncio
import contextlib
import contextvars
import faulthandler
import io
import logging
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from mainspring.core.outcomes import Failure
from mainspring.executors._calls import add_output
from mainspring.executors._text import OUTPUT_LIMIT
from mainspring.executors.function import FunctionExecutor
from mainspring.executors.output import Kept, OutputStream, install, uninstall
from mainspring.ports.executor import Success
from mainspring.registry import FunctionRegistry
from mainspring.signals import Done
from tests.unit.executors.attempts import make_attempt


class Terminal:
    """Stands in for the real streams of the process."""

    def __init__(self) -> None:
        self.out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        self.err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)

    @property
    def shown(self) -> str:
        raw: Any = self.out.buffer
        return str(raw.getvalue().decode())


@contextlib.contextmanager
def replaced() -> Iterator[Terminal]:
    """Put other streams in the place of the process's. Within a test: between fixtures and tests, pytest does so."""
    terminal, real = Terminal(), (sys.stdout, sys.stderr)
    sys.stdout, sys.stderr = terminal.out, terminal.err
    try:
        yield terminal
        assert sys.stdout is terminal.out, "the real stream is back"
    finally:
        sys.stdout, sys.stderr = real


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[tuple[Callable[..., Any], Terminal]]:
    """Yield what runs a function to its end, and where its output is passed on to."""
    registry = FunctionRegistry()
    executor = FunctionExecutor(registry, keeps_output=True)

    async def run(function: Callable[..., Any], *, number: int = 1, **more: Any) -> Any:
        name = f"{function.__name__}-{id(function)}"
        registry.add(name, function)
        return await executor.execute(make_attempt({"function": name}, run_id=number, **more))

    with replaced() as terminal:
        await executor.start()
        try:
            yield run, terminal
        finally:
            await executor.stop()


async def test_print_is_kept_and_passed_on() -> None:
    async with running() as (run, terminal):

        def hello() -> int:
            print("hello", flush=True)
            print("there", file=sys.stderr)
            return 3

        assert await run(hello) == Success(result=b"3", output="hello\nthere\n")
        assert terminal.shown == "hello\n"


async def test_nothing_printed_is_no_output() -> None:
    async with running() as (run, _):

        async def quiet() -> None: ...

        assert await run(quiet) == Success()


async def test_concurrent_attempts_and_their_tasks_and_threads_never_mix() -> None:
    async with running() as (run, _):

        async def chatty(me: str) -> None:
            async def child(number: int) -> None:
                await asyncio.sleep(0)
                print(f"{me}{number}")

            for number in range(50):
                await asyncio.gather(child(number), asyncio.to_thread(print, f"{me}t{number}"))

        def blocking(me: str) -> None:
            for number in range(100):
                print(f"{me}{number}")

        names = "abcdefgh"
        ends = await asyncio.gather(
            *(
                run(chatty if name < "e" else blocking, number=place, payload=b'{"me":"%s"}' % name.encode())
                for place, name in enumerate(names, 1)
            )
        )
        for name, end in zip(names, ends, strict=True):
            assert end.output is not None
            assert {line[0] for line in end.output.split()} == {name}
            assert len(end.output.split()) == 100


async def test_thread_without_the_context_is_only_passed_on() -> None:
    async with running() as (run, terminal):

        def threads() -> None:
            context = contextvars.copy_context()
            for call in (lambda: print("lost"), lambda: context.run(print, "kept")):
                thread = threading.Thread(target=call)
                thread.start()
                thread.join()

        assert (await run(threads)).output == "kept\n"
        assert terminal.shown == "lost\nkept\n"


async def test_failure_shows_what_was_printed_before_its_traceback() -> None:
    async with running() as (run, _):

        def fails() -> None:
            print("so far so good")
            raise ValueError("boom")

        end = await run(fails)
        assert isinstance(end, Failure)
        assert end.output is not None
        assert end.output.startswith("so far so good\nTraceback (most recent call last):\n")
        assert end.output.endswith("ValueError: boom\n")


async def test_huge_output_keeps_both_ends_and_says_what_was_cut() -> None:
    async with running() as (run, _):

        def huge() -> None:
            print("first")
            for _ in range(300):
                print("x" * 9999)
            print("last")

        output = (await run(huge)).output
        assert output.startswith("first\n")
        assert output.endswith("last\n")
        assert "characters left out" in output
        assert len(output) < OUTPUT_LIMIT + 100


async def test_what_comes_after_the_end_is_only_passed_on() -> None:
    async with running() as (run, terminal):
        may_print, has_printed = asyncio.Event(), threading.Event()
        loops: list[asyncio.AbstractEventLoop] = []

        async def leaves_a_task() -> None:
            async def late() -> None:
                await may_print.wait()
                print("late")
                has_printed.set()

            loops.append(asyncio.get_running_loop())
            may_print._task = asyncio.create_task(late())  # type: ignore[attr-defined]
            print("in time")

        assert (await run(leaves_a_task)).output == "in time\n"
        loops[0].call_soon_threadsafe(may_print.set)
        await asyncio.to_thread(has_printed.wait, 10)
        assert terminal.shown == "in time\nlate\n"


async def test_bytes_descriptors_and_kept_references_work() -> None:
    async with running() as (run, terminal):
        stdout = sys.stdout  # as a library keeps it from its import on

        def binary() -> None:
            sys.stdout.buffer.write("ö".encode())
            print("ref", file=stdout)
            sys.stdout.writelines(["a", "b"])
            with pytest.raises(io.UnsupportedOperation):
                sys.stdout.fileno()  # what the real stream says: this one has none

        assert isinstance(stdout, OutputStream)
        assert (await run(binary)).output == "öref\nab"
        assert terminal.shown == "öref\nab"
        assert (stdout.encoding, stdout.isatty(), stdout.writable()) == ("utf-8", False, True)


async def test_logging_is_kept_at_the_levels_and_in_the_form_of_the_user() -> None:
    async with running() as (run, _):
        log = logging.getLogger("tests.output")
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        log.addHandler(handler)
        log.propagate = False

        def logs() -> None:
            log.info("too low")
            log.warning("look")

        try:
            log.setLevel(logging.WARNING)
            assert (await run(logs)).output == "WARNING look\n"
            log.setLevel(logging.INFO)
            assert (await run(logs)).output == "INFO too low\nWARNING look\n"
        finally:
            log.removeHandler(handler)


def test_handlers_that_were_there_before_follow_the_streams_and_go_back() -> None:
    with replaced() as terminal:
        handler = logging.StreamHandler(sys.stderr)
        log = logging.getLogger("tests.earlier")
        log.addHandler(handler)
        try:
            install()
            install()
            assert handler.stream is sys.stderr
            uninstall()
            assert isinstance(sys.stderr, OutputStream)
            uninstall()
            assert handler.stream is terminal.err
        finally:
            log.removeHandler(handler)


async def test_stream_that_somebody_replaced_since_stays() -> None:
    with replaced() as terminal:
        install()
        other = io.StringIO()
        sys.stdout = other
        uninstall()
        assert sys.stdout is other
        sys.stdout = terminal.out


async def test_stream_that_is_closed_fails_no_job() -> None:
    async with running() as (run, terminal):

        def prints() -> None:
            print("nobody reads")

        terminal.out.detach()
        assert (await run(prints)).output == "nobody reads\n"
        terminal.out.__init__(io.BytesIO(), encoding="utf-8", write_through=True)  # type: ignore[misc]


def test_faulthandler_takes_the_descriptor_of_the_real_stream(tmp_path: Any) -> None:
    with (tmp_path / "faults").open("w") as file:
        stream = OutputStream(file)
        faulthandler.dump_traceback(stream)
        assert stream.fileno() == file.fileno()
    assert "test_faulthandler_takes" in (tmp_path / "faults").read_text()


async def test_runs_of_a_batch_share_the_output_of_their_call() -> None:
    with replaced():
        registry = FunctionRegistry()

        def many(calls: list[Any]) -> list[Done]:
            print(f"{len(calls)} calls")
            return [Done(one.payload) for one in calls]

        registry.add("many", many)
        executor = FunctionExecutor(registry, keeps_output=True)
        await executor.start()
        contexts = [
            make_attempt({"function": "many"}, run_id=number, payload=b"%d" % number) for number in (1, 2)
        ]
        ended = asyncio.get_running_loop().create_future()
        handle = executor.begin_batch(contexts, ended.set_result)
        outcome = await ended
        assert executor.split(handle, outcome) == [
            Success(result=b"1", output="2 calls\n"),
            Success(result=b"2", output="2 calls\n"),
        ]
        await executor.stop()


def test_what_was_left_out_is_counted_once() -> None:
    kept = Kept()
    for _ in range(100):
        kept.write("x" * 10_000)
    outcome = add_output(Success(), kept)
    assert isinstance(outcome, Success)
    assert outcome.output is not None
    assert outcome.output.replace("x", "") == f"\n[… {1_000_000 - OUTPUT_LIMIT:,} characters left out …]\n"
