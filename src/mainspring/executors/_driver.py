"""Runs async calls on one event loop, many of them within a single task.

Starting an asyncio task costs more than a short job does. So a task takes a whole batch of calls and steps
the coroutines itself, each in a context of its own. A job that never waits is done with that. When a job waits for
the first time, it keeps the task for itself, with everything that depends on a task (`current_task`,
`asyncio.timeout`, cancellation). The rest of the batch goes to a new task.
"""

from __future__ import annotations

import asyncio
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import Context, copy_context
from typing import Any

from mainspring.executors._calls import FunctionCall, Large, failed, succeeded, with_output
from mainspring.executors._large_results import keep_large_async
from mainspring.ports.executor import AttemptContext, Outcome

_CHUNK = 128


class Driver:
    """Runs async calls on a loop. Call every method on that loop's thread."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, deliver: Callable[[list[FunctionCall]], object]
    ) -> None:
        self._loop = loop
        self._deliver = deliver
        self._ended: list[FunctionCall] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def receive(self, calls: Sequence[FunctionCall]) -> None:
        """Start these calls."""
        self._start(deque(calls))

    def cancel(self, call: FunctionCall) -> None:
        """Cancel a call that has not ended."""
        call.is_cancel_seen = True
        if call.task is not None and not call.is_ended:
            call.task.cancel()

    async def stop(self, grace: float) -> None:
        """Cancel everything that is left, and wait for it up to `grace` seconds."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)

    def _start(self, calls: deque[FunctionCall]) -> None:
        task = self._loop.create_task(self._run(calls))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, calls: deque[FunctionCall]) -> None:
        await self._drive(calls)

    @types.coroutine
    def _drive(self, calls: deque[FunctionCall]) -> Generator[Any, Any, None]:
        task = asyncio.current_task()
        assert task is not None
        for _ in range(min(len(calls), _CHUNK)):
            call = calls.popleft()
            refusal = call.refusal()
            if refusal is not None:
                self._report(call, refusal)
                continue
            outcome: Outcome | Large
            context = copy_context()
            try:
                coroutine, waited_for = context.run(_first_step, call)
            except StopIteration as ended:
                outcome = succeeded(ended.value, call.context)
            except BaseException as error:  # noqa: BLE001 -- whatever a job raises is its failure
                outcome = failed(error)
            else:
                call.task = task
                if calls:
                    self._start(calls)
                outcome = yield from _finish(context, coroutine, waited_for, call.context)
                self._report(call, (yield from _kept(outcome, call.context)))
                return
            if isinstance(outcome, Large):
                call.task = task
                if calls:
                    self._start(calls)
                self._report(call, (yield from _kept(outcome, call.context)))
                return
            self._report(call, outcome)
            if task.cancelling():  # the job cancelled the task it ran in, which must not hit the next job
                break
        if calls:
            self._start(calls)

    def _report(self, call: FunctionCall, outcome: Outcome) -> None:
        call.is_ended = True
        call.task = None
        call.outcome = outcome if call.context.kept is None else with_output(outcome, call.context)
        self._ended.append(call)
        if len(self._ended) == 1:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        ended, self._ended = self._ended, []
        self._deliver(ended)


def _first_step(call: FunctionCall) -> tuple[Coroutine[Any, Any, Any], Any]:
    """Step the coroutine to its first wait. If it never waits, `StopIteration` carries its result."""
    try:
        coroutine: Coroutine[Any, Any, Any] = call.begin()
    except StopIteration as error:
        raise RuntimeError("the function raised StopIteration") from error
    return coroutine, coroutine.send(None)


def _finish(
    context: Context, coroutine: Coroutine[Any, Any, Any], waited_for: Any, attempt: AttemptContext
) -> Generator[Any, Any, Outcome | Large]:
    """Step the coroutine from its first wait to its end, passing on what it waits for."""
    while True:
        value = thrown = None
        try:
            value = yield waited_for
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as error:  # noqa: BLE001 -- a cancellation, or the failure of what was waited for
            thrown = error
        try:
            waited_for = context.run(_step, coroutine, value, thrown)
        except StopIteration as ended:
            return succeeded(ended.value, attempt)
        except BaseException as error:  # noqa: BLE001 -- whatever a job raises is its failure
            return failed(error)


def _kept(outcome: Outcome | Large, attempt: AttemptContext) -> Generator[Any, Any, Outcome]:
    """Return an outcome whose result is kept. A cancellation meanwhile is one of the job."""
    if not isinstance(outcome, Large):
        return outcome
    try:
        return (yield from keep_large_async(outcome.result, attempt).__await__())
    except asyncio.CancelledError as error:
        return failed(error)


def _step(coroutine: Coroutine[Any, Any, Any], value: Any, thrown: BaseException | None) -> Any:
    return coroutine.send(value) if thrown is None else coroutine.throw(thrown)
