"""Time limits of calls, cheap for the many that end long before their limit.

A timer per call would cost more than a short call. New calls are only noted; a sweep, four times a second while there
are any, gives a timer to those that are still under way. Calls with a short limit get theirs at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

from mainspring.executors._calls import Call

_SWEEP = 0.25
_SHORT = timedelta(seconds=2 * _SWEEP)


class Deadlines:
    """Calls back at the soft and the hard limit of each watched call that is still under way.

    Args:
        on_soft: called at the soft limit.
        on_hard: called at the hard limit.
    """

    def __init__(self, on_soft: Callable[[Call], None], on_hard: Callable[[Call], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_soft = on_soft
        self._on_hard = on_hard
        self._noted: list[Call] = []

    def watch(self, call: Call) -> None:
        """Watch a call from now on; one that is watched already keeps its limits."""
        if call.timer is not None:
            return
        context = call.context
        call.began = self._loop.time()
        if context.timeout < _SHORT or (context.soft_timeout is not None and context.soft_timeout < _SHORT):
            self._set_timer(call)
            return
        self._noted.append(call)
        if len(self._noted) == 1:
            self._loop.call_later(_SWEEP, self._sweep)

    def _sweep(self) -> None:
        noted, self._noted = self._noted, []
        for call in noted:
            if call.answer is None and not call.is_cancelled and call.timer is None:
                self._set_timer(call)

    def _set_timer(self, call: Call) -> None:
        soft, hard = call.context.soft_timeout, call.context.timeout
        if soft is not None and soft < hard:
            call.timer = self._loop.call_at(call.began + soft.total_seconds(), self._reach_soft, call)
        else:
            call.timer = self._loop.call_at(call.began + hard.total_seconds(), self._on_hard, call)

    def _reach_soft(self, call: Call) -> None:
        hard = call.context.timeout.total_seconds()
        call.timer = self._loop.call_at(call.began + hard, self._on_hard, call)
        self._on_soft(call)
