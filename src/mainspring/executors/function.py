"""Executor of registered Python functions, async and sync."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from mainspring.core.outcomes import Failure
from mainspring.errors import InvalidInput
from mainspring.executors._batch_calls import BatchCall
from mainspring.executors._calls import DurableCall, FunctionCall, with_output
from mainspring.executors._deadlines import Deadlines
from mainspring.executors._files import AttemptFiles
from mainspring.executors._steps import AttemptSteps
from mainspring.executors._text import ERROR_LIMIT, clean, seconds
from mainspring.executors.context import ExecutorContext
from mainspring.executors.output import install, uninstall
from mainspring.executors.runners import InlineRunner, LoopThreadRunner, Runner
from mainspring.ports.artifacts import ArtifactGateway
from mainspring.ports.checkpoints import CheckpointGateway, StepKeeper
from mainspring.ports.executor import GENTLY, MAX_THREADS, AttemptContext, NotBegun, OnEnd, Outcome, Snooze
from mainspring.ports.telemetry import Measure
from mainspring.registry import FunctionRegistry, RegisteredFunction

if TYPE_CHECKING:
    from mainspring.executors._processes import FunctionProcesses

_DEATH_SECONDS = 5.0
"""How long a process may take to be gone that was killed."""


def make_executor(context: ExecutorContext) -> FunctionExecutor:
    """Make a worker's executor."""
    settings = context.settings
    threads = min(context.slots, settings.threads or MAX_THREADS)
    processes = None
    if settings.process_enabled:
        from mainspring.executors._processes import MAX_PROCESSES, FunctionProcesses  # most workers need none

        processes = FunctionProcesses(
            min(context.slots, settings.processes_of_functions or MAX_PROCESSES),
            is_hidden=settings.allow_shell,
            keeps_output=settings.keep_output,
        )
    return FunctionExecutor(
        context.functions,
        runner=LoopThreadRunner(threads=threads),
        processes=processes,
        grace=settings.function_grace,
        keeps_output=settings.keep_output,
        artifacts=context.artifacts,
        checkpoints=context.checkpoints,
    )


class FunctionExecutor:
    """Runs attempts of target type `function`; `params` is `{"function": name}`, with `isolation` for a process.

    A JSON object as payload gives the keyword arguments, and a list the positional ones. Anything else but null is
    the only argument. The function's return value becomes the result, as JSON. The function of a batched job gets a
    list of calls, and returns an outcome for each.

    Args:
        registry: the functions that can be called, by name.
        runner: runs the functions; by default away from the calling loop.
        processes: runs those whose jobs ask for processes of their own. Without any, an `InlineRunner` runs them like
            others, and anything else refuses them.
        grace: how long a cancelled or timed-out async function may clean up before it is left behind.
        keeps_output: keep what functions print as the output of their runs. It replaces `sys.stdout` and `sys.stderr`.
        artifacts: takes files of attempts, and results that are too large for their runs; None takes none.
        checkpoints: keeps the steps of durable functions; None keeps none, and fails them.
        steps: keeps them instead.
    """

    def __init__(
        self,
        registry: FunctionRegistry,
        *,
        runner: Runner | None = None,
        processes: FunctionProcesses | None = None,
        grace: timedelta = timedelta(seconds=1),
        keeps_output: bool = False,
        artifacts: ArtifactGateway | None = None,
        checkpoints: CheckpointGateway | None = None,
        steps: StepKeeper | None = None,
    ) -> None:
        self._registry = registry
        self._runner: Runner = runner if runner is not None else LoopThreadRunner()
        self._processes = processes
        self._grace = grace.total_seconds()
        self._keeps_output = keeps_output
        self._artifacts = artifacts
        self._files: AttemptFiles | None = None
        self._checkpoints = checkpoints
        self._steps = steps
        self._loop: asyncio.AbstractEventLoop | None = None
        self._deadlines: Deadlines | None = None
        self._abandoned = 0
        self._room_listener: Callable[[], object] | None = None
        self._may_begin: Callable[[], bool] | None = None

    @property
    def type(self) -> str:
        return "function"

    @property
    def abandoned(self) -> int:
        """How many functions were left running after their time was up, since the start."""
        return self._abandoned

    @property
    def bounded_functions(self) -> frozenset[str]:
        """The sync functions. Each call of one needs a thread."""
        known = ((name, self._registry.get(name)) for name in self._registry.names())
        return frozenset(name for name, function in known if function is not None and not function.is_async)

    def room(self) -> int | None:
        return self._runner.room()

    def listen_for_room(self, listener: Callable[[], object]) -> None:
        self._room_listener = listener

    def ask_before_work(self, may_begin: Callable[[], bool]) -> None:
        self._may_begin = may_begin

    def _tell_room(self) -> None:
        if self._room_listener is not None:
            self._room_listener()

    def measures(self) -> Iterator[Measure]:
        """Yield how many functions were left behind, and how many loops were replaced."""
        yield Measure("functions_abandoned_total", self._abandoned)
        yield Measure("loops_stalled_total", self._runner.stalled_loops)

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._artifacts is not None:
            self._files = AttemptFiles(self._artifacts, self._loop)
        if self._checkpoints is not None:
            self._steps = AttemptSteps(self._checkpoints, self._loop)
        self._deadlines = Deadlines(self._reach_soft, self._reach_hard)
        self._runner.start(self._deliver, self._tell_room)
        if self._processes is not None:
            self._processes.start(self._deliver)
        if self._keeps_output:
            install()

    async def execute(self, context: AttemptContext) -> Outcome:
        assert self._loop is not None, "start() comes first"
        future: asyncio.Future[Outcome] = self._loop.create_future()
        call = self.begin(context, partial(_resolve, future))
        if call is None:
            return self._refuse(context)
        try:
            return await future
        except asyncio.CancelledError as error:
            return await self.halt(call, error.args[0] if error.args else None)

    def begin(self, context: AttemptContext, on_end: OnEnd) -> FunctionCall | None:
        name = context.params.get("function")
        function = self._registry.get(name) if isinstance(name, str) else None
        if function is None:
            return None
        if self._files is not None:
            context.files = self._files  # type: ignore[misc]  # as the executor's own note
        if "isolation" in context.params and not isinstance(self._runner, InlineRunner):
            return self._isolate(function, context, on_end)
        if function.is_durable and self._steps is not None:
            return self._submit(DurableCall(function, context, on_end, self._steps))
        return self._submit(FunctionCall(function, context, on_end))

    def _isolate(
        self, function: RegisteredFunction, context: AttemptContext, on_end: OnEnd
    ) -> FunctionCall | None:
        if self._processes is None or self._deadlines is None:
            return None
        from mainspring.executors._processes import IsolatedCall

        try:
            call = IsolatedCall(function, context, on_end)
        except InvalidInput:
            return None
        call.may_begin = self._may_begin
        self._processes.submit(call)
        self._deadlines.watch(call)
        return call

    def _refuse(self, context: AttemptContext) -> Failure:
        """Return why an attempt cannot be begun."""
        known = context.params.get("function")
        function = self._registry.get(known) if isinstance(known, str) else None
        if function is None:
            text = f"no function {f'{known!r}'[:200]} is registered with this worker"
        elif self._processes is None:
            text = "this worker calls no functions in processes of their own; set executors.process.enabled"
        else:
            from mainspring.executors._processes import find_place

            try:
                find_place(function)
                text = f"the function {function.name!r} is registered with this worker only now; try again"
            except InvalidInput as error:
                text = error.message
        return Failure(error=clean(text, ERROR_LIMIT), is_retryable=False)

    def begin_batch(self, contexts: Sequence[AttemptContext], on_end: OnEnd) -> FunctionCall | None:
        name = contexts[0].params.get("function")
        function = self._registry.get(name) if isinstance(name, str) else None
        if function is None:
            return None
        for context in contexts if self._files is not None else ():
            context.files = self._files  # type: ignore[misc]  # likewise
        return self._submit(BatchCall(function, contexts, on_end))

    def _submit(self, call: FunctionCall) -> FunctionCall:
        assert self._deadlines is not None, "start() comes first"
        call.may_begin = self._may_begin
        self._runner.submit(call)
        self._deadlines.watch(call)
        return call

    def split(self, handle: object, outcome: Outcome) -> Sequence[Outcome]:
        assert isinstance(handle, BatchCall)
        return handle.split(outcome)

    async def halt(self, handle: object, message: str | None) -> Outcome:
        assert isinstance(handle, FunctionCall)
        if handle.is_isolated:
            return await self._kill(handle, message)
        if not handle.function.is_async:
            return await self._see_through(handle, message)
        await self._end(handle)
        raise asyncio.CancelledError(*_as_arguments(message))

    async def stop(self) -> None:
        await self._runner.stop()
        if self._processes is not None:
            await self._processes.stop()
        if self._keeps_output:
            uninstall()

    async def _end(self, call: FunctionCall) -> None:
        """Cancel a call for the worker, and give it a short grace to end."""
        future = self._listen(call)
        if call.is_ended or call.was_given_up:
            return
        if call.timer is not None:
            call.timer.cancel()
        self._runner.cancel(call)
        try:
            await asyncio.wait((future,), timeout=self._grace)
        finally:
            if not future.done():
                self._give_up(call)
                future.cancel()

    async def _kill(self, call: FunctionCall, message: str | None) -> Outcome:
        """End a call in a process of its own. If it has ended by itself before, that is how it ended.

        Raises:
            CancelledError: it was killed, or never began.
        """
        assert self._processes is not None
        if call.answer is None and not call.is_delivered:
            future = self._listen(call)
            self._processes.end(call)
            await asyncio.wait((future,), timeout=_DEATH_SECONDS)
        outcome = call.answer or _final(call)
        if call.is_ended and not isinstance(outcome, Failure):
            return outcome
        raise asyncio.CancelledError(*_as_arguments(message))

    async def _see_through(self, call: FunctionCall, message: str | None) -> Outcome:
        """Return how a sync function ended that was to be cancelled. In its thread, nothing can stop it.

        A function that has not begun never does. One that has begun ignores a gentle cancellation: it runs to its end
        or to its hard limit. Any other cancellation leaves it behind at once.

        Raises:
            CancelledError: it never began, or was left behind.
        """
        while True:
            if call.answer is not None:
                return call.answer
            if call.is_delivered:
                return _final(call)
            future = self._listen(call)
            is_over = self._runner.withdraw(call) or (message != GENTLY and self._give_up(call))
            if is_over:
                if call.timer is not None:
                    call.timer.cancel()
                raise asyncio.CancelledError(*_as_arguments(message))
            if call.is_timed_out:
                self._reach_end(call)
            try:
                return await future
            except asyncio.CancelledError as again:
                message = again.args[0] if again.args else None

    def _listen(self, call: FunctionCall) -> asyncio.Future[Outcome]:
        """Route the call's end to a new future, and only there."""
        assert self._loop is not None
        future: asyncio.Future[Outcome] = self._loop.create_future()
        call.on_end = partial(_resolve, future)
        return future

    def _deliver(self, calls: list[FunctionCall]) -> None:
        for call in calls:
            call.is_delivered = True
            if call.timer is not None:
                call.timer.cancel()
            if call.answer is None:
                _answer(call, _final(call))

    def _reach_soft(self, call: FunctionCall) -> None:
        if call.is_isolated:
            return  # a process is only killed, at the hard limit
        call.is_soft = True
        if call.function.is_async:  # a thread cannot be asked to end
            self._runner.cancel(call)

    def _reach_hard(self, call: FunctionCall) -> None:
        assert self._loop is not None
        call.is_timed_out = True
        if call.is_isolated:
            assert self._processes is not None
            call.timer = self._loop.call_later(_DEATH_SECONDS, self._reach_end, call)
            self._processes.end(call)
        elif call.function.is_async:
            self._runner.cancel(call)
            call.timer = self._loop.call_later(self._grace, self._reach_end, call)
        else:
            self._reach_end(call)

    def _reach_end(self, call: FunctionCall) -> None:
        if call.answer is not None:
            return
        self._give_up(call)
        text = f"timed out after {seconds(call.context.timeout)}, and is still running"
        _answer(call, with_output(Failure(error=text, is_timeout=True), call.context))

    def _give_up(self, call: FunctionCall) -> bool:
        """Stop waiting for a call. Return True if it is left behind."""
        call.was_given_up = True
        is_left = call.is_isolated or self._runner.give_up(call)
        self._abandoned += is_left
        return is_left


def _answer(call: FunctionCall, outcome: Outcome) -> None:
    call.answer = outcome
    tell, call.on_end = call.on_end, _tell_nobody  # so that the callback can be freed before the call
    tell(outcome)


def _tell_nobody(outcome: Outcome) -> None:
    """Do nothing: the end was already delivered."""


def _resolve(future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)


def _as_arguments(message: str | None) -> tuple[str, ...]:
    return () if message is None else (message,)


def _final(call: FunctionCall) -> Outcome:
    return _judged(call) if call.is_soft or call.is_timed_out else call.outcome


def _judged(call: FunctionCall) -> Outcome:
    """Return the outcome of a call that ended after a time limit."""
    outcome = call.outcome
    if isinstance(outcome, NotBegun):  # the limit was reached meanwhile
        return outcome
    if call.is_timed_out:
        output = None if isinstance(outcome, Snooze) else outcome.output
        text = f"timed out after {seconds(call.context.timeout)}"
        return Failure(error=text, output=output, is_timeout=True)
    if isinstance(outcome, Failure) and call.context.soft_timeout is not None:
        text = f"ended at its soft time limit of {seconds(call.context.soft_timeout)}: {outcome.error}"
        return replace(outcome, error=text, is_timeout=True)
    return outcome
