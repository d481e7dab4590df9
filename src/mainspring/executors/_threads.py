"""Threads for sync functions. A thread cannot be killed: one that is given up is left, and replaced."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from mainspring.executors._calls import Call, run_sync


class SyncThreads:
    """At most `slots` daemon threads, started as they are needed.

    Args:
        slots: how many sync functions run at a time.
        deliver: takes ended calls; called on the pool's threads.
    """

    def __init__(self, slots: int, deliver: Callable[[list[Call]], object]) -> None:
        self._slots = slots
        self._deliver = deliver
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running: set[Call] = set()
        self._given_up: set[Call] = set()
        self._threads = 0
        self._open_calls = 0

    def submit(self, call: Call) -> None:
        """Have a call carried out by the next free thread."""
        with self._lock:
            self._open_calls += 1
            is_short = self._threads < min(self._slots, self._open_calls)
            if is_short:
                self._threads += 1
        if is_short:
            self._start_thread()
        self._calls.put(call)

    def withdraw(self, call: Call) -> bool:
        """Keep a call from beginning; False when it has begun."""
        with self._lock:
            if call in self._running or call.is_ended:
                return False
            call.is_cancelled = True
        return True

    def give_up(self, call: Call) -> bool:
        """Take the slot away from a call; True when its thread is left behind in the function."""
        with self._lock:
            if call not in self._running:
                return False
            self._given_up.add(call)
            self._open_calls -= 1
            is_needed = self._open_calls >= self._threads
            if not is_needed:
                self._threads -= 1
        if is_needed:
            self._start_thread()
        return True

    def stop(self) -> None:
        """Let the threads end when they are free."""
        for _ in range(self._threads):
            self._calls.put(None)

    def _start_thread(self) -> None:
        threading.Thread(target=self._work, name="mainspring-job", daemon=True).start()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            with self._lock:
                if not call.is_cancelled:
                    self._running.add(call)
            call.outcome = run_sync(call)
            with self._lock:
                call.is_ended = True
                self._running.discard(call)
                if call in self._given_up:
                    self._given_up.discard(call)
                    return
                self._open_calls -= 1
            self._deliver([call])
