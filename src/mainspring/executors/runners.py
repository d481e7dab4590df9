"""Runners decide where functions run: on the caller's own loop, or on threads away from the worker's heartbeat."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Protocol

from mainspring.executors._calls import FunctionCall, run_sync
from mainspring.executors._driver import Driver
from mainspring.executors._threads import SyncThreads

_log = logging.getLogger(__name__)
_STOP_GRACE = 1.0

Deliver = Callable[[list[FunctionCall]], None]


class Runner(Protocol):
    """Runs calls somewhere, and hands the ended ones back on the control loop.

    Every method is called on the control loop's thread.

    Attributes:
        stalled_loops: how many job loops were blocked by user code and had to be replaced.
    """

    stalled_loops: int

    def start(self, deliver: Deliver, tell_room: Callable[[], object]) -> None:
        """Get ready. Both callbacks are called on the control loop.

        Args:
            deliver: takes ended calls.
            tell_room: called when there may be room again although no call has ended, because a thread came back.
        """
        ...

    def submit(self, call: FunctionCall) -> None:
        """Begin a call soon."""
        ...

    def cancel(self, call: FunctionCall) -> None:
        """Ask a call to end. A call that has not begun never will."""
        ...

    def withdraw(self, call: FunctionCall) -> bool:
        """Keep a call of a sync function from beginning. Return False if it has begun, so that it cannot be stopped."""
        ...

    def give_up(self, call: FunctionCall) -> bool:
        """Stop waiting for a call. Return True if it is still running and was left behind."""
        ...

    def room(self) -> int | None:
        """Return how many more sync functions can begin without waiting; None means no limit."""
        ...

    async def stop(self) -> None:
        """End what is left, and release the threads."""
        ...


class InlineRunner:
    """Runs everything on the control loop itself, without threads: for simulation and tests.

    A sync function blocks the loop while it runs, so no time limit can reach it.
    """

    def __init__(self) -> None:
        self.stalled_loops: int = 0  # its only loop is the caller's, which is never replaced
        self._loop: asyncio.AbstractEventLoop | None = None
        self._driver: Driver | None = None
        self._deliver: Deliver | None = None

    def start(self, deliver: Deliver, tell_room: Callable[[], object]) -> None:
        del tell_room  # there are no threads
        self._loop = asyncio.get_running_loop()
        self._deliver = deliver
        self._driver = Driver(self._loop, deliver)

    def submit(self, call: FunctionCall) -> None:
        assert self._loop is not None
        assert self._driver is not None
        if call.function.is_async:
            self._driver.receive((call,))
        else:
            self._loop.call_soon(self._run_sync, call)

    def cancel(self, call: FunctionCall) -> None:
        assert self._driver is not None
        call.is_cancelled = True
        self._driver.cancel(call)

    def withdraw(self, call: FunctionCall) -> bool:
        call.is_cancelled = True
        return not call.is_ended

    def give_up(self, call: FunctionCall) -> bool:
        call.is_cancelled = True
        return not call.is_ended and call.task is not None

    def room(self) -> None:
        return None

    async def stop(self) -> None:
        if self._driver is not None:
            await self._driver.stop(_STOP_GRACE)

    def _run_sync(self, call: FunctionCall) -> None:
        assert self._deliver is not None
        call.outcome = run_sync(call)
        call.is_ended = True
        self._deliver([call])


class LoopThreadRunner:
    """Runs async functions on an event loop in a thread of its own, and sync functions in a pool of threads.

    User code that blocks its loop does not block the worker's. All calls submitted within one turn of the control
    loop cross to the job thread with one wake-up, and come back in the same way.

    Args:
        threads: how many sync functions run at a time.
    """

    def __init__(self, *, threads: int = 32) -> None:
        self._limit = threads
        self._control: asyncio.AbstractEventLoop | None = None
        self._deliver: Deliver | None = None
        self._jobs: _JobLoop | None = None
        self._retired: list[_JobLoop] = []
        self._threads: SyncThreads | None = None
        self._waiting: list[FunctionCall] = []
        self.stalled_loops: int = 0

    def start(self, deliver: Deliver, tell_room: Callable[[], object]) -> None:
        self._control = asyncio.get_running_loop()
        self._deliver = deliver
        self._threads = SyncThreads(self._limit, self._bring_back, partial(self._on_control, tell_room))
        self._jobs = _JobLoop(self._bring_back)

    def submit(self, call: FunctionCall) -> None:
        if not call.function.is_async:
            assert self._threads is not None
            call.is_on_thread = True
            self._threads.submit(call)
            return
        self._waiting.append(call)
        if len(self._waiting) == 1:
            assert self._control is not None
            self._control.call_soon(self._hand_over)

    def cancel(self, call: FunctionCall) -> None:
        call.is_cancelled = True
        if isinstance(call.home, _JobLoop):
            call.home.cancel(call)

    def withdraw(self, call: FunctionCall) -> bool:
        assert self._threads is not None
        return self._threads.withdraw(call)

    def give_up(self, call: FunctionCall) -> bool:
        call.is_cancelled = True
        if not call.function.is_async:
            assert self._threads is not None
            return self._threads.give_up(call)
        if call.is_ended:
            return False
        if not call.is_cancel_seen and call.home is self._jobs:
            self._replace_loop()
        return call.task is not None or not call.is_cancel_seen

    def room(self) -> int:
        assert self._threads is not None, "start() comes first"
        return self._threads.room()

    async def stop(self) -> None:
        if self._threads is not None:
            self._threads.stop()
        if self._jobs is not None:
            await self._jobs.stop()
        for retired in self._retired:
            retired.abandon()

    def _hand_over(self) -> None:
        assert self._jobs is not None
        calls, self._waiting = self._waiting, []
        for call in calls:
            call.home = self._jobs
        self._jobs.receive(calls)

    def _bring_back(self, calls: list[FunctionCall]) -> None:
        """Bring ended calls to the control loop. Called on job threads."""
        self._on_control(self._ended, calls)

    def _on_control(self, tell: Callable[..., object], *args: object) -> None:
        assert self._control is not None
        try:
            self._control.call_soon_threadsafe(tell, *args)
        except RuntimeError:
            _log.debug("a job ended after the worker's loop was closed")

    def _ended(self, calls: list[FunctionCall]) -> None:
        assert self._deliver is not None
        self._deliver(calls)

    def _replace_loop(self) -> None:
        """Replace the job loop: it did not even see a cancellation, because user code blocks it.

        Later jobs get the new one.
        """
        assert self._jobs is not None
        _log.warning("a job blocks the event loop of async functions; it is replaced")
        self.stalled_loops += 1
        self._retired.append(self._jobs)
        self._jobs = _JobLoop(self._bring_back)


class _JobLoop:
    """A daemon thread with an event loop of its own (uvloop if installed)."""

    def __init__(self, bring_back: Callable[[list[FunctionCall]], object]) -> None:
        self._loop = _new_loop()
        self._driver = Driver(self._loop, bring_back)
        self._is_stopping = False
        self._thread = threading.Thread(target=self._work, name="mainspring-job-loop", daemon=True)
        self._thread.start()

    def receive(self, calls: list[FunctionCall]) -> None:
        self._loop.call_soon_threadsafe(self._driver.receive, calls)

    def cancel(self, call: FunctionCall) -> None:
        self._loop.call_soon_threadsafe(self._driver.cancel, call)

    def abandon(self) -> None:
        """Let the loop end when it can. Do not wait."""
        self._is_stopping = True
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def stop(self) -> None:
        """Cancel what still runs, and end the thread if that is possible."""
        stopping = asyncio.run_coroutine_threadsafe(self._wind_up(), self._loop)
        await asyncio.wait((asyncio.wrap_future(stopping),), timeout=_STOP_GRACE + 1)
        self.abandon()
        await asyncio.to_thread(self._thread.join, _STOP_GRACE)
        if not self._thread.is_alive():
            self._loop.close()

    async def _wind_up(self) -> None:
        await self._driver.stop(_STOP_GRACE)
        await self._loop.shutdown_asyncgens()

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._is_stopping:
            try:
                self._loop.run_forever()
            except BaseException:  # noqa: BLE001 -- SystemExit in a task that a job started and left
                _log.exception("a task left behind by a job tried to end the process")


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    make: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return make()
