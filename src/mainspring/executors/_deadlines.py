"""Time limits of calls, cheap for the many calls that end long before their limit.

A timer per call would cost more than a short call does. So new calls are only noted. While there are any, a sweep
runs four times a second, and gives a timer to those still under way. Calls with a short limit get theirs at once.

A call's time begins when its code does. While a call waits for a thread, its limit does not run: if its timer goes
off then, it is set again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

from mainspring.executors._calls import FunctionCall

_SWEEP = 0.25
_SHORT = timedelta(seconds=2 * _SWEEP)


class Deadlines:
    """Calls back at the soft and the hard limit of each watched call that is still under way.

    Args:
        on_soft: called at the soft limit.
        on_hard: called at the hard limit.
    """

    def __init__(
        self, on_soft: Callable[[FunctionCall], None], on_hard: Callable[[FunctionCall], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_soft = on_soft
        self._on_hard = on_hard
        self._noted: list[FunctionCall] = []

    def watch(self, call: FunctionCall) -> None:
        """Watch a call from when its code begins. A call that is already watched keeps its limits."""
        if call.timer is not None:
            return
        context = call.context
        if not call.is_on_thread:
            call.began = self._loop.time()
        if context.timeout < _SHORT or (context.soft_timeout is not None and context.soft_timeout < _SHORT):
            self._set_first_timer(call)
            return
        self._noted.append(call)
        if len(self._noted) == 1:
            self._loop.call_later(_SWEEP, self._sweep)

    def _sweep(self) -> None:
        noted, self._noted = self._noted, []
        for call in noted:
            if call.answer is None and not call.is_cancelled and call.timer is None:
                self._set_first_timer(call)

    def _set_first_timer(self, call: FunctionCall) -> None:
        soft, hard = call.context.soft_timeout, call.context.timeout
        if soft is not None and soft < hard:
            self._set_timer(call, soft, self._reach_soft)
        else:
            self._set_timer(call, hard, self._on_hard)

    def _set_timer(self, call: FunctionCall, limit: timedelta, reach: Callable[[FunctionCall], None]) -> None:
        counted_from = self._loop.time() if call.began is None else call.began
        at = counted_from + limit.total_seconds()
        call.timer = self._loop.call_at(at, self._end_wait, call, counted_from, limit, reach)

    def _end_wait(
        self, call: FunctionCall, counted_from: float, limit: timedelta, reach: Callable[[FunctionCall], None]
    ) -> None:
        if call.began is None or call.began > counted_from:
            self._set_timer(call, limit, reach)  # it had to wait for its thread, or still waits
        else:
            reach(call)

    def _reach_soft(self, call: FunctionCall) -> None:
        self._set_timer(call, call.context.timeout, self._on_hard)
        self._on_soft(call)
