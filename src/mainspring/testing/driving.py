"""Carries out what is due, step by step, for callers with and without an event loop alike.

A plan is a generator. It yields what is to be done, asks (to the engine's loop) and attempts (in the caller's own
thread or loop), and gets the results. `run_plan` and `await_plan` carry plans out.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator, Sequence
from concurrent.futures import Future, wait
from contextvars import copy_context
from typing import Any, TypeVar

from mainspring.core.values import value
from mainspring.ports.executor import Outcome
from mainspring.ports.gateway import Lease
from mainspring.sdk.portal import Portal
from mainspring.testing.calling import Caller

T = TypeVar("T")


@value()
class Ask:
    """Work for the engine's loop."""

    work: Callable[[], Coroutine[Any, Any, Any]]


@value()
class CarryOut:
    """Attempts for the caller."""

    leases: Sequence[Lease]


@value()
class AwaitEnds:
    """Attempts that other threads and tasks carry out, whose ends the caller waits for."""

    ends: Sequence[Future[None]]


Plan = Generator[Ask | CarryOut | AwaitEnds, Any, T]


class Hands:
    """Carries out plans, in the thread of the caller.

    Args:
        portal: the engine's loop.
    """

    def __init__(self, portal: Portal, caller: Caller) -> None:
        self._portal = portal
        self._caller = caller
        self._runner: asyncio.Runner | None = None
        self._home = threading.get_ident()
        self._is_busy = False

    def close(self) -> None:
        """Close the loop on which async functions ran for callers without one."""
        if self._runner is not None and self._home == threading.get_ident():
            self._runner.close()
            self._runner = None

    def run_plan(self, make: Callable[[], Plan[T]]) -> T:
        """Carry out a plan while the calling thread waits."""
        __tracebackhide__ = True
        if not _has_loop():
            return self._run(make())
        # The loop stands still until this returns, so that its own thread cannot run any function that needs a loop.
        return _in_thread(lambda: self._run(make()))

    async def await_plan(self, make: Callable[[], Plan[T]]) -> T:
        """Carry out a plan on the running loop."""
        __tracebackhide__ = True
        plan = make()
        step: Callable[[], Any] = lambda: plan.send(None)  # noqa: E731 -- what to do next with the plan
        while True:
            try:
                todo = step()
            except StopIteration as ended:
                return ended.value  # type: ignore[no-any-return]  # what the plan returned
            try:
                result = await self._await(todo)
            except BaseException as error:  # noqa: BLE001 -- for the plan to judge
                step = _throwing(plan, error)
            else:
                step = _sending(plan, result)

    def _run(self, plan: Plan[T]) -> T:
        __tracebackhide__ = True
        step: Callable[[], Any] = lambda: plan.send(None)  # noqa: E731 -- what to do next with the plan
        while True:
            try:
                todo = step()
            except StopIteration as ended:
                return ended.value  # type: ignore[no-any-return]  # what the plan returned
            try:
                result = self._do(todo)
            except BaseException as error:  # noqa: BLE001 -- for the plan to judge
                step = _throwing(plan, error)
            else:
                step = _sending(plan, result)

    def _do(self, todo: Ask | CarryOut | AwaitEnds) -> Any:
        if isinstance(todo, Ask):
            return self._portal.call(todo.work)
        if isinstance(todo, AwaitEnds):
            return wait(todo.ends)
        if self._caller.needs_loop(todo.leases):
            return self._on_loop(todo.leases)
        return self._caller.carry_out(todo.leases)

    async def _await(self, todo: Ask | CarryOut | AwaitEnds) -> Any:
        if isinstance(todo, Ask):
            return await self._portal.call_async(todo.work)
        if isinstance(todo, AwaitEnds):
            return await asyncio.wait([asyncio.wrap_future(end) for end in todo.ends])
        return await self._caller.carry_out_async(todo.leases)

    def _on_loop(self, leases: Sequence[Lease]) -> Sequence[Outcome]:
        """Run attempts of an async function on a loop in this thread: always the same one, if it is free."""
        if self._is_busy or self._home != threading.get_ident():
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                return runner.run(self._caller.carry_out_async(leases))
        if self._runner is None:
            self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._is_busy = True
        try:
            return self._runner.run(self._caller.carry_out_async(leases), context=copy_context())
        finally:
            self._is_busy = False


def _sending(plan: Plan[Any], result: Any) -> Callable[[], Any]:
    return lambda: plan.send(result)


def _throwing(plan: Plan[Any], error: BaseException) -> Callable[[], Any]:
    return lambda: plan.throw(error)


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _in_thread(work: Callable[[], T]) -> T:
    """Run work in a thread without a loop, in a copy of the caller's context, while the caller waits."""
    done: Future[T] = Future()

    def carry_out() -> None:
        try:
            done.set_result(context.run(work))
        except BaseException as error:  # noqa: BLE001 -- it is raised where it is waited for
            done.set_exception(error)

    context = copy_context()
    threading.Thread(target=carry_out, name="mainspring-test", daemon=True).start()
    return done.result()
