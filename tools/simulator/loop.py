"""An event loop whose time is virtual and whose handles belong to simulated processes.

Time stands still while anything can run, and jumps to the next timer when nothing can: minutes pass in milliseconds.
Each handle runs in the context in which its task was made, and the context names its process (`spawn`). So a whole
process can be paused as by SIGSTOP (its handles and timers wait, and all run at once when it resumes) or killed as by
SIGKILL (they never run again: no `finally`, no answer).
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any

from mainspring.errors import MainspringError

_process: ContextVar[Process] = ContextVar("simulated_process")


_LEFT_BY_THE_DEAD = ("was destroyed but it is pending", "exception was never retrieved")


class Stuck(MainspringError):
    """Nothing can run and no timer is set, although what the simulation waits for is not done."""


class Process:
    """One operating system process of the simulation: what lives and dies together.

    Attributes:
        name: its name in the history.
        is_dead: it was killed, or has ended.
        parked: what came due while it is paused, in order; None while it is not paused.
    """

    __slots__ = ("_context", "_loop", "is_dead", "name", "parked")

    def __init__(self, name: str, loop: VirtualLoop) -> None:
        self.name = name
        self.is_dead = False
        self._loop = loop
        self.parked: list[_Handle] | None = None
        self._context = copy_context()
        self._context.run(_process.set, self)

    @property
    def is_paused(self) -> bool:
        """Whether it is paused."""
        return self.parked is not None

    def spawn(self, work: Coroutine[Any, Any, Any], *, name: str | None = None) -> asyncio.Task[Any]:
        """Start a task of this process. Tasks that the task starts belong to the process, too."""
        return self._loop.create_task(work, name=name, context=self._context.copy())

    def kill(self) -> None:
        """End it as SIGKILL does: nothing of it runs again."""
        self.is_dead = True
        self.parked = None

    def pause(self) -> None:
        """Stop it as SIGSTOP does."""
        if self.parked is None and not self.is_dead:
            self.parked = []

    def go_on(self) -> None:
        """Resume it as SIGCONT does: what came due meanwhile runs at once, in order."""
        parked, self.parked = self.parked, None
        if parked:
            self._loop.requeue(parked)


def current_process() -> Process | None:
    """Return the simulated process that the caller belongs to."""
    return _process.get(None)


class _Handle:
    """Like asyncio's handles, without what a simulation does not need: half of all its objects are handles."""

    __slots__ = ("args", "callback", "context", "is_cancelled")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = copy_context() if context is None else context
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True
        self.args = ()

    def cancelled(self) -> bool:
        return self.is_cancelled


class VirtualLoop(asyncio.AbstractEventLoop):
    """Runs handles in the order in which they became ready. It is deterministic as long as its users are.

    Attributes:
        now: the virtual seconds that have passed.
        steps: handles run so far.
        errors: uncaught errors, as passed to `call_exception_handler`.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.errors: list[dict[str, Any]] = []
        self.now = 0.0
        self._ready: deque[_Handle] = deque()
        self._timers: list[tuple[float, int, _Handle | asyncio.Future[None]]] = []
        self._count = 0
        self._is_closed = False

    # -- running -----------------------------------------------------------------------------------------------

    def run_until_complete(self, future: Any) -> Any:
        """Run until the future is done, and return its result.

        Raises:
            Stuck: it will never be done.
        """
        task = asyncio.ensure_future(future, loop=self)
        events._set_running_loop(self)
        try:
            while not task.done():
                self._run_some()
        finally:
            events._set_running_loop(None)
        return task.result()

    def _run_some(self) -> None:
        ready = self._ready
        if not ready:
            self._jump()
        steps = 0
        while ready:
            handle = ready.popleft()
            if handle.is_cancelled:
                continue
            context = handle.context
            process = context.get(_process)
            if process is not None:
                if process.is_dead:
                    continue
                if process.parked is not None:
                    process.parked.append(handle)
                    continue
            steps += 1
            try:
                context.run(handle.callback, *handle.args)
            except Exception as error:  # noqa: BLE001 - as loops do: reported, and the next one runs
                self.call_exception_handler({"message": f"in {handle.callback!r}", "exception": error})
        self.steps += steps

    def _jump(self) -> None:
        """Go to the next instant at which something is due, and make everything ready that is due then."""
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if not timers:
            raise Stuck("nothing is ready, no timer is set, and the end was not reached")
        self.now = now = max(self.now, timers[0][0])
        while timers and timers[0][0] <= now:
            timer = heapq.heappop(timers)[2]
            if timer.cancelled():
                continue
            if isinstance(timer, _Handle):
                self._ready.append(timer)
            else:
                timer.set_result(None)

    def nap(self, seconds: float) -> asyncio.Future[None]:
        """Return what is done after some seconds: like `asyncio.sleep`, at a third of the cost."""
        future: asyncio.Future[None] = asyncio.Future(loop=self)
        self._count += 1
        heapq.heappush(self._timers, (self.now + seconds, self._count, future))
        return future

    def requeue(self, handles: list[_Handle]) -> None:
        """Make handles ready again, in order, before whatever becomes ready later."""
        self._ready.extend(handles)

    # -- what asyncio asks of a loop ---------------------------------------------------------------------------

    def time(self) -> float:
        return self.now

    def call_soon(  # type: ignore[override]  # typeshed asks for its own class, and ties the arguments
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> _Handle:
        handle = _Handle(callback, args, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]  # the same
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> _Handle:
        return self.call_soon(callback, *args, context=context)  # there is one thread

    def call_later(  # type: ignore[override]  # the same
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> _Handle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]  # the same
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> _Handle:
        handle = _Handle(callback, args, context)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]  # typeshed's generic signature differs between versions
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not any(text in str(context.get("message")) for text in _LEFT_BY_THE_DEAD):
            self.errors.append(context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._is_closed

    def is_closed(self) -> bool:
        return self._is_closed

    async def shutdown_asyncgens(self) -> None:
        """Do nothing: none are kept."""

    def close(self) -> None:
        self._is_closed = True
        self._ready.clear()
        self._timers.clear()


def make_loop() -> VirtualLoop:
    """Return a new loop. It has what tasks, futures and timers need of asyncio's loops, but no input or output."""
    return VirtualLoop()  # type: ignore[abstract]  # typeshed asks for sockets and subprocesses, too
