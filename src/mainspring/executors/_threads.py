"""Threads for sync functions. A thread cannot be killed: one whose call is given up is left behind and replaced."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable

from mainspring.executors._calls import FunctionCall, run_sync

_LEAST_SPARE = 32
"""At least this many threads may be left behind before places are lost, even if few calls run at a time."""
_log = logging.getLogger(__name__)
_monotonic = time.monotonic  # noqa: TID251 -- says when code began in a real thread, which no simulation has


class SyncThreads:
    """Daemon threads for sync functions, started on demand. At most `limit` calls run at a time.

    A thread that is left behind in a function whose time was up is replaced. That holds for as many threads as
    `limit`, and at least for 32. Each further one takes a place away until its function returns. So a function that
    always hangs costs a bounded number of threads, not the whole process.

    Args:
        limit: how many sync functions run at a time.
        deliver: takes ended calls; called on the pool's threads.
        tell_return: called when a thread that was left behind comes back; called on that thread.
    """

    def __init__(
        self, limit: int, deliver: Callable[[list[FunctionCall]], object], tell_return: Callable[[], object]
    ) -> None:
        self._limit = limit
        self._spare = max(limit, _LEAST_SPARE)
        self._deliver = deliver
        self._tell_return = tell_return
        self._calls: queue.SimpleQueue[FunctionCall | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running: set[FunctionCall] = set()
        self._left_behind: set[FunctionCall] = set()
        self._threads = 0  # not counting those left behind
        self._open_calls = 0  # running or waiting for a thread, not counting those given up

    def room(self) -> int:
        """Return how many more calls can begin at once."""
        with self._lock:
            return max(0, self._places() - self._open_calls)

    def submit(self, call: FunctionCall) -> None:
        """Run a call on the next free thread. `call.began` says when its code began.

        Raises:
            RuntimeError: there is no thread, and none can be started.
        """
        with self._lock:
            self._open_calls += 1
            try:
                self._start_missing()
            except RuntimeError:
                self._open_calls -= 1
                raise
        self._calls.put(call)

    def withdraw(self, call: FunctionCall) -> bool:
        """Keep a call from beginning. Return False if it has begun."""
        with self._lock:
            if call in self._running or call.is_ended:
                return False
            call.is_cancelled = True
        return True

    def give_up(self, call: FunctionCall) -> bool:
        """Take its place away from a call. Return True if its thread is left behind in the function."""
        with self._lock:
            if call not in self._running:
                return False
            self._left_behind.add(call)
            self._open_calls -= 1
            self._threads -= 1
            if len(self._left_behind) == self._spare + 1:
                _log.warning(
                    "%d functions are still running after their time was up; each further one takes a thread away",
                    len(self._left_behind),
                )
            if self._open_calls > self._threads:
                self._replace()
        return True

    def stop(self) -> None:
        """Let the threads end when they are free."""
        with self._lock:
            threads = self._threads
        for _ in range(threads):
            self._calls.put(None)

    def _places(self) -> int:
        return max(0, self._limit - max(0, len(self._left_behind) - self._spare))

    def _start_missing(self) -> None:
        """Start a thread if a call would have to wait for one and the limit allows it.

        The system may refuse a thread. Then the present number becomes the limit, and the call waits; its time has
        not begun.
        """
        if self._threads >= min(self._places(), self._open_calls):
            return
        try:
            threading.Thread(target=self._work, name="mainspring-job", daemon=True).start()
        except RuntimeError as error:
            if not self._threads:
                raise
            self._limit = self._threads
            _log.warning("no more than %d threads for sync functions: %s", self._threads, error)
        else:
            self._threads += 1

    def _replace(self) -> None:
        try:
            self._start_missing()
        except RuntimeError as error:  # the next thread to come back, or the next call, handles what waits
            _log.warning("no thread for sync functions can be started: %s", error)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            with self._lock:
                if not call.is_cancelled:
                    call.began = _monotonic()
                    self._running.add(call)
            call.outcome = run_sync(call)
            if self._note_end(call):
                self._deliver([call])
            else:
                is_needed = self._come_back()
                self._tell_return()
                if not is_needed:
                    return

    def _note_end(self, call: FunctionCall) -> bool:
        """Note the end of a call. Return whether anyone still waits for it."""
        with self._lock:
            call.is_ended = True
            self._running.discard(call)
            if call in self._left_behind:
                self._left_behind.discard(call)
                return False
            self._open_calls -= 1
            return True

    def _come_back(self) -> bool:
        """Take this thread, which was left behind, back into the pool if calls wait for one. Return whether it was."""
        with self._lock:
            if self._threads >= min(self._places(), self._open_calls):
                return False
            self._threads += 1
            return True
