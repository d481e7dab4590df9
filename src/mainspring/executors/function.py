"""Executor of registered Python functions, async and sync."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from mainspring.core.transitions import Failure
from mainspring.executors._calls import Call
from mainspring.executors._deadlines import Deadlines
from mainspring.executors._text import seconds
from mainspring.executors.runners import LoopThreadRunner, Runner
from mainspring.ports.executor import GENTLY, AttemptContext, Outcome
from mainspring.registry import FunctionRegistry


class FunctionExecutor:
    """Carries out attempts of target type `function`; `params` is `{"function": name}`.

    A payload that is a JSON object gives the keyword arguments, a list the positional ones, anything else but
    null is the one argument. What the function returns is the result, as JSON.

    Args:
        registry: what can be called, by name.
        runner: where functions run; by default apart from the calling loop.
        grace: how long a cancelled or timed-out async function may clean up before it is left behind.
    """

    def __init__(
        self,
        registry: FunctionRegistry,
        *,
        runner: Runner | None = None,
        grace: timedelta = timedelta(seconds=1),
    ) -> None:
        self._registry = registry
        self._runner: Runner = runner if runner is not None else LoopThreadRunner()
        self._grace = grace.total_seconds()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._deadlines: Deadlines | None = None
        self._abandoned = 0

    @property
    def type(self) -> str:
        return "function"

    @property
    def abandoned(self) -> int:
        """How many functions went on after their time was up and were left behind, since the start."""
        return self._abandoned

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadlines = Deadlines(self._reach_soft, self._reach_hard)
        self._runner.start(self._deliver)

    async def execute(self, context: AttemptContext) -> Outcome:
        assert self._loop is not None, "start() comes first"
        assert self._deadlines is not None
        name = context.params.get("function")
        function = self._registry.get(name) if isinstance(name, str) else None
        if function is None:
            known = f"{name!r}"[:200]
            return Failure(error=f"no function {known} is registered with this worker", is_retryable=False)
        call = Call(function, context, self._loop.create_future())
        self._runner.submit(call)
        self._deadlines.watch(call)
        try:
            return await call.future
        except asyncio.CancelledError as error:
            if not call.function.is_async:
                return await self._see_through(call, error)
            await self._end(call)
            raise

    async def stop(self) -> None:
        await self._runner.stop()

    async def _end(self, call: Call) -> None:
        """Cancel a call on the worker's behalf, and give it a little while to end."""
        assert self._loop is not None
        if call.is_ended or call.was_given_up:
            return
        if call.timer is not None:
            call.timer.cancel()
        call.future = self._loop.create_future()
        self._runner.cancel(call)
        try:
            await asyncio.wait((call.future,), timeout=self._grace)
        finally:
            if not call.future.done():
                self._give_up(call)
                call.future.cancel()

    async def _see_through(self, call: Call, error: asyncio.CancelledError) -> Outcome:
        """Say how a sync function ended that was to be cancelled: in its thread nothing can stop it.

        One that has not begun never does. For one that has begun a gentle cancellation changes nothing: its own end
        comes, or its hard limit. Any other leaves it behind at once.

        Raises:
            CancelledError: `error`, or a later one: it never began, or was left behind.
        """
        assert self._loop is not None
        assert self._deadlines is not None
        while True:
            if call.future.done() and not call.future.cancelled():
                return call.future.result()
            if call.is_delivered:
                return _final(call)
            is_over = self._runner.withdraw(call) or (error.args != (GENTLY,) and self._give_up(call))
            if is_over:
                if call.timer is not None:
                    call.timer.cancel()
                raise error
            call.future = self._loop.create_future()
            if call.is_timed_out:
                self._reach_end(call)
            self._deadlines.watch(call)  # again: it may have been looked at while nothing waited for it
            try:
                return await call.future
            except asyncio.CancelledError as again:
                error = again

    def _deliver(self, calls: list[Call]) -> None:
        for call in calls:
            call.is_delivered = True
            if call.timer is not None:
                call.timer.cancel()
            future = call.future
            if not future.done():
                future.set_result(_final(call))

    def _reach_soft(self, call: Call) -> None:
        call.is_soft = True
        if call.function.is_async:  # a thread cannot be asked to end
            self._runner.cancel(call)

    def _reach_hard(self, call: Call) -> None:
        assert self._loop is not None
        call.is_timed_out = True
        if call.function.is_async:
            self._runner.cancel(call)
            call.timer = self._loop.call_later(self._grace, self._reach_end, call)
        else:
            self._reach_end(call)

    def _reach_end(self, call: Call) -> None:
        if call.future.done():
            return
        self._give_up(call)
        text = f"timed out after {seconds(call.context.timeout)}, and is still running"
        call.future.set_result(Failure(error=text, is_timeout=True))

    def _give_up(self, call: Call) -> bool:
        """Wait for a call no longer; True when it is left behind."""
        call.was_given_up = True
        is_left = self._runner.give_up(call)
        self._abandoned += is_left
        return is_left


def _final(call: Call) -> Outcome:
    return _judged(call) if call.is_soft or call.is_timed_out else call.outcome


def _judged(call: Call) -> Outcome:
    """Say how a call ended that had passed a time limit before."""
    outcome = call.outcome
    if call.is_timed_out:
        output = outcome.output if isinstance(outcome, Failure) else None
        text = f"timed out after {seconds(call.context.timeout)}"
        return Failure(error=text, output=output, is_timeout=True)
    if isinstance(outcome, Failure) and call.context.soft_timeout is not None:
        text = f"ended at its soft time limit of {seconds(call.context.soft_timeout)}: {outcome.error}"
        return replace(outcome, error=text, is_timeout=True)
    return outcome
