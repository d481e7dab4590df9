"""What an attempt costs in the executors: `python -m benchmarks.executors`."""

from __future__ import annotations

import asyncio
import functools
import gc
import resource
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import uvloop

from mainspring.core.ids import JobId, RunId
from mainspring.executors import FunctionExecutor, ShellExecutor
from mainspring.executors._processes import FunctionProcesses
from mainspring.executors.runners import InlineRunner, LoopThreadRunner, Runner
from mainspring.ports.executor import AttemptContext
from mainspring.registry import FunctionRegistry

DUE_AT = datetime(2026, 1, 1, tzinfo=UTC)


def attempt(number: int, params: dict[str, Any], payload: bytes | None = None) -> AttemptContext:
    return AttemptContext(
        run_id=RunId(number * 256),
        job_id=JobId(UUID(int=number)),
        job_name="bench",
        tenant="default",
        attempt=1,
        token=1,
        fire_at=None,
        due_at=DUE_AT,
        target_key=str(number),
        payload=payload,
        params=params,
        timeout=timedelta(hours=1),
    )


async def no_op() -> None:
    pass


async def add(a: int, b: int) -> int:
    return a + b


async def pause() -> None:
    await asyncio.sleep(0)


def sync_no_op() -> None:
    pass


FUNCTIONS: tuple[tuple[Callable[..., Any], bytes | None], ...] = (
    (no_op, None),
    (add, b'{"a":1,"b":2}'),
    (pause, None),
    (sync_no_op, None),
)


async def measure_function(
    runner: Runner, call: Callable[..., Any], payload: bytes | None, count: int, batch: int
) -> tuple[float, float]:
    """Return executes a second, and seconds of CPU for each."""
    registry = FunctionRegistry()
    registry.add("f", call)
    executor = FunctionExecutor(registry, runner=runner)
    await executor.start()
    contexts = [attempt(number, {"function": "f"}, payload) for number in range(count)]
    await asyncio.gather(*map(executor.execute, contexts[:batch]))
    gc.collect()
    gc.freeze()  # the contexts are ours; a worker does not hold so many at a time
    cpu, begin = time.process_time(), time.perf_counter()
    for first in range(0, count, batch):
        await asyncio.gather(*map(executor.execute, contexts[first : first + batch]))
    elapsed, used = time.perf_counter() - begin, time.process_time() - cpu
    await executor.stop()
    gc.unfreeze()
    return count / elapsed, used / count


def double(a: int, b: int) -> int:
    return a + b


async def measure_process(count: int, at_a_time: int, processes: int) -> float:
    """Return seconds for each call in processes of their own."""
    registry = FunctionRegistry()
    registry.add("f", double)
    executor = FunctionExecutor(registry, processes=FunctionProcesses(processes))
    await executor.start()
    params = {"function": "f", "isolation": "process"}
    contexts = [attempt(number, params, b'{"a":1,"b":2}') for number in range(count)]
    await asyncio.gather(*map(executor.execute, contexts[: 10 * processes]))
    begin = time.perf_counter()
    for first in range(0, count, at_a_time):
        await asyncio.gather(*map(executor.execute, contexts[first : first + at_a_time]))
    elapsed = time.perf_counter() - begin
    await executor.stop()
    return elapsed / count


async def measure_shell(count: int, at_a_time: int) -> tuple[float, float]:
    """Return commands a second, and seconds of the worker's own CPU for each."""
    executor = ShellExecutor(enabled=True)
    await executor.start()
    slots = asyncio.Semaphore(at_a_time)

    async def one(number: int) -> None:
        async with slots:
            await executor.execute(attempt(number, {"command": ["/bin/true"]}))

    await one(0)
    cpu, begin = time.process_time(), time.perf_counter()
    await asyncio.gather(*map(one, range(count)))
    elapsed, used = time.perf_counter() - begin, time.process_time() - cpu
    await executor.stop()
    return count / elapsed, used / count


async def measure_tasks(count: int, batch: int) -> float:
    """Return the floor: seconds of CPU for gathering a bare coroutine that waits once."""
    loop = asyncio.get_running_loop()

    async def wait_once() -> None:
        future = loop.create_future()
        loop.call_soon(future.set_result, None)
        await future

    cpu = time.process_time()
    for _ in range(0, count, batch):
        await asyncio.gather(*(wait_once() for _ in range(batch)))
    return (time.process_time() - cpu) / count


def run(quick: bool) -> list[dict[str, Any]]:
    """Measure all; each entry has name, value and unit."""
    count, batch = (20_000, 500) if quick else (200_000, 500)
    results: list[dict[str, Any]] = []

    def note(name: str, value: float, unit: str) -> None:
        results.append({"name": f"executors.{name}", "value": round(value, 3), "unit": unit})

    def on_uvloop(work: Callable[[], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            return await work()

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main())

    note("floor.gather", on_uvloop(lambda: measure_tasks(count, batch)) * 1e6, "us CPU")
    for call, payload in FUNCTIONS:
        for runner in (LoopThreadRunner(threads=8), InlineRunner()):

            def work(
                runner: Runner = runner, call: Callable[..., Any] = call, payload: bytes | None = payload
            ) -> Awaitable[tuple[float, float]]:
                return measure_function(runner, call, payload, count, batch)

            rate, cpu = on_uvloop(work)
            name = f"function.{call.__name__}.{'inline' if isinstance(runner, InlineRunner) else 'thread'}"
            note(name, rate, "executes/s")
            note(name, cpu * 1e6, "us CPU")
    for processes, at_a_time in ((1, 1), (1, 20), (2, 1), (2, 20)):
        took = on_uvloop(functools.partial(measure_process, count // 20, at_a_time, processes))
        note(f"function.process.{processes}.{at_a_time}", took * 1e6, "us a call")
    for at_a_time in (1, 8):
        rate, cpu = on_uvloop(functools.partial(measure_shell, count // 200, at_a_time))
        note(f"shell.true.{at_a_time}", rate, "commands/s")
        note(f"shell.true.{at_a_time}", cpu * 1e6, "us CPU")
    note("memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MiB")
    return results


if __name__ == "__main__":
    import sys

    for entry in run("--quick" in sys.argv):
        print(f"{entry['name']:<40} {entry['value']:>12,.2f} {entry['unit']}")
