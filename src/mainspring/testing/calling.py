"""Calls the functions of jobs under test: in the caller's thread, or on the caller's event loop."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Any, NamedTuple

from mainspring.clock import monotonic
from mainspring.core.ids import RunId, SessionId
from mainspring.core.outcomes import Failure
from mainspring.executors import FunctionExecutor
from mainspring.executors._batch_calls import BatchCall
from mainspring.executors._calls import FunctionCall, run_sync
from mainspring.executors._text import seconds
from mainspring.executors.runners import InlineRunner
from mainspring.ports.executor import AttemptContext, Outcome
from mainspring.ports.gateway import Lease
from mainspring.registry import FunctionRegistry, RegisteredFunction
from mainspring.testing.files import drop_files
from mainspring.testing.outside import Outside
from mainspring.testing.steps import RememberedSteps
from mainspring.worker.attempt import make_context

_SESSION = SessionId(0)
"""What attempts name as theirs. The engine knows it by another number, and no function of a test needs that."""


class Raised(NamedTuple):
    """What a function raised, with the traceback that begins in the function."""

    error: BaseException
    trace: TracebackType | None


class Caller:
    """Carries out attempts, and keeps what their functions have raised.

    Attributes:
        errors: what the newest attempt of each run raised, if it raised anything.
    """

    def __init__(self, registry: FunctionRegistry, outside: Outside, *, now: Callable[[], datetime]) -> None:
        self._registry = registry
        self._steps = RememberedSteps(now)
        self._outside = outside
        self.errors: dict[RunId, Raised] = {}

    def needs_loop(self, leases: Sequence[Lease]) -> bool:
        """Say whether the function of these attempts is async."""
        function = self._find(leases[0])
        return function is not None and function.is_async

    def carry_out(self, leases: Sequence[Lease]) -> Sequence[Outcome]:
        """Run one attempt, or those of one batch, in this thread. The function is sync.

        Nothing can stop it at its time limit, but it fails then when it returns.

        Raises:
            BaseException: what is no error of the function: `KeyboardInterrupt`, or the failure of a test.
        """
        contexts = [make_context(lease, _SESSION, lease.trace) for lease in leases]
        drop_files(contexts)
        caught: list[Raised] = []
        function = self._find(leases[0], caught)
        if function is None:
            return [self._answer(leases[0], contexts[0])]
        call = _make_call(function, contexts, is_batch=leases[0].batch is not None)
        began = monotonic()
        call.outcome = run_sync(call)
        if monotonic() - began > contexts[0].timeout.total_seconds():
            text = f"timed out after {seconds(contexts[0].timeout)}"
            call.outcome = Failure(error=text, is_timeout=True)
            caught.clear()
        self._note(leases, caught)
        return call.split(call.outcome) if isinstance(call, BatchCall) else [call.outcome]

    async def carry_out_async(self, leases: Sequence[Lease]) -> Sequence[Outcome]:
        """Do the same on the running loop. A sync function gets a thread, as it does in a worker."""
        contexts = [make_context(lease, _SESSION, lease.trace) for lease in leases]
        drop_files(contexts)
        caught: list[Raised] = []
        function = self._find(leases[0], caught)
        if function is None:
            return [self._answer(leases[0], contexts[0])]
        executor = FunctionExecutor(_Only(function), runner=_HereOrInThread(), steps=self._steps)
        await executor.start()
        ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def end(outcome: Outcome) -> None:
            if not ended.done():
                ended.set_result(outcome)

        is_batch = leases[0].batch is not None
        handle = executor.begin_batch(contexts, end) if is_batch else executor.begin(contexts[0], end)
        try:
            outcome = await ended
        except asyncio.CancelledError:
            await asyncio.gather(executor.halt(handle, None), return_exceptions=True)
            raise
        finally:
            await executor.stop()
        if isinstance(outcome, Failure) and outcome.is_timeout:
            caught.clear()
        self._note(leases, caught)
        return executor.split(handle, outcome) if is_batch else [outcome]

    def _find(self, lease: Lease, caught: list[Raised] | None = None) -> RegisteredFunction | None:
        name = lease.spec.target.params.get("function")
        function = self._registry.get(name) if isinstance(name, str) else None
        if function is None or caught is None:
            return function
        return replace(function, call=_watched(function, caught))

    def _answer(self, lease: Lease, context: AttemptContext) -> Outcome:
        try:
            return self._outside.execute(context, lease.spec.target.type)
        except Exception as error:  # noqa: BLE001 -- the handler stands for the other side, which fails
            self.errors[lease.run_id] = Raised(error, error.__traceback__)
            return Failure(error=f"{type(error).__name__}: {error}")

    def _note(self, leases: Sequence[Lease], caught: Sequence[Raised]) -> None:
        for lease in leases:
            self.errors.pop(lease.run_id, None)
            if caught:
                self.errors[lease.run_id] = caught[-1]
        if caught and not isinstance(caught[-1].error, Exception | SystemExit | asyncio.CancelledError):
            raise caught[-1].error


class _Only(FunctionRegistry):
    """Has one function, under whatever name."""

    def __init__(self, function: RegisteredFunction) -> None:
        super().__init__()
        self._function = function

    def get(self, name: str) -> RegisteredFunction:
        """Return the function."""
        del name
        return self._function


class _HereOrInThread(InlineRunner):
    """Runs async functions on this loop, and each sync function in a thread of its own."""

    def submit(self, call: FunctionCall) -> None:
        if call.function.is_async:
            super().submit(call)
            return
        loop = asyncio.get_running_loop()
        context = copy_context()

        def work() -> None:
            outcome = context.run(run_sync, call)
            try:
                loop.call_soon_threadsafe(self._end, call, outcome)
            except RuntimeError:
                return  # it was left behind, and its test is over

        threading.Thread(target=work, name="mainspring-test", daemon=True).start()

    def _end(self, call: FunctionCall, outcome: Outcome) -> None:
        assert self._deliver is not None
        call.outcome = outcome
        call.is_ended = True
        self._deliver([call])


def _make_call(
    function: RegisteredFunction, contexts: Sequence[AttemptContext], *, is_batch: bool
) -> FunctionCall:
    if is_batch:
        return BatchCall(function, contexts, _tell_nobody)
    return FunctionCall(function, contexts[0], _tell_nobody)


def _tell_nobody(outcome: Outcome) -> None:
    """Do nothing: the caller has the outcome."""


def _raised(error: BaseException) -> Raised:
    trace = error.__traceback__
    return Raised(error, None if trace is None else trace.tb_next)


def _watched(function: RegisteredFunction, caught: list[Raised]) -> Callable[..., Any]:
    """Return the function's callable, which also keeps what it raises."""
    call = function.call

    @functools.wraps(call)
    def watch(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except BaseException as error:
            caught.append(_raised(error))
            raise

    @functools.wraps(call)
    async def watch_async(*args: Any, **kwargs: Any) -> Any:
        try:
            return await call(*args, **kwargs)
        except BaseException as error:
            caught.append(_raised(error))
            raise

    return watch_async if function.is_async else watch
