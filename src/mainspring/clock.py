"""The one module that reads clocks, makes timers, draws random numbers and makes ids.

Everything else gets them through the ports in `mainspring.ports.clock`, so that tests and the simulator can own
time and chance.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import uuid_utils.compat

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SLEW_RATE = 0.1
"""How fast a wrong clock is corrected: seconds per second."""
_STEP_LIMIT = 0.05
"""A correction up to this many seconds is made at once (time still never runs backwards)."""
_SLEW_LIMIT = 60.0
"""A clock that is behind by more than this many seconds is set forward at once: the host slept."""
_ROUNDING = 0.001
"""By so many seconds clocks that agree may seem to differ."""


def host_time() -> datetime:
    """Return the host's wall clock, aware UTC: the clock of stores that live in this process."""
    return datetime.now(UTC)


def monotonic() -> float:
    """Return the host's monotonic clock in seconds."""
    return time.monotonic()


class StoreClock:
    """The store's clock, sampled and carried on by the local monotonic clock (design 5).

    It is late rather than early, by no more than the shortest trip of an answer, as nothing may start before it is
    due: an answer tells what the store's clock had reached when it was given, and how long the way there and back
    took together, never how that time was shared out (ADR 0015).

    Host clocks do not matter. It never goes backwards, and slews when the store's clock turns out to differ by more
    than a little, as after a failover to another server. Only where it is minutes behind, as after the host was
    suspended (which stops the monotonic clock), it steps: slewing over a night would take days.

    Args:
        read_time: asks the store for its time.
        monotonic: the local monotonic clock.
    """

    def __init__(
        self, read_time: Callable[[], Awaitable[datetime]], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._read_time = read_time
        self._monotonic = monotonic
        self._offset: float | None = None  # seconds since the epoch minus the monotonic clock
        self._target = 0.0
        self._slewed_at = 0.0
        self._latest = _EPOCH

    async def sample(self, *, reads: int = 3) -> float:
        """Ask the store for its time and aim at it; the reads with the shortest ways there and back win.

        Returns:
            By how many seconds this clock was surely behind the store's, or (negative) ahead of what is sure of it.
        """
        lowest, highest = -math.inf, math.inf
        for _ in range(reads):
            before = self._monotonic()
            answer = (await self._read_time() - _EPOCH).total_seconds()
            after = self._monotonic()
            lowest, highest = max(lowest, answer - after), min(highest, answer - before)
            if lowest > highest + _ROUNDING:  # it was set between two reads
                lowest, highest = answer - after, answer - before
        # Nothing is touched before this: `now` is asked between the reads, too.
        at = self._monotonic()
        self._slew(at)
        is_known = self._offset is not None and lowest <= self._target <= highest + _ROUNDING
        target = self._target if is_known else lowest
        offset = target if self._offset is None else self._offset
        behind = target - offset
        is_step = abs(behind) <= _STEP_LIMIT or behind > _SLEW_LIMIT
        self._offset = target if is_step else offset
        self._target = target
        self._slewed_at = at
        return behind

    def now(self) -> datetime:
        """Return the present instant by the store's clock; never earlier than an answer given before."""
        if self._offset is None:
            raise RuntimeError("the clock was asked before its first sample")
        at = self._monotonic()
        self._slew(at)
        self._latest = max(self._latest, _EPOCH + timedelta(seconds=self._offset + at))
        return self._latest

    def monotonic(self) -> float:
        """Return seconds of the local monotonic clock."""
        return self._monotonic()

    def _slew(self, at: float) -> None:
        if self._offset is not None and self._offset != self._target:
            reach = (at - self._slewed_at) * _SLEW_RATE
            behind = self._target - self._offset
            self._offset = (
                self._target if abs(behind) <= reach else self._offset + math.copysign(reach, behind)
            )
            self._slewed_at = at


class LoopWaiter:
    """A waiter on the running event loop: a timer or a signal, whichever comes first."""

    def __init__(self) -> None:
        self._is_signalled = False
        self._pending: asyncio.Future[None] | None = None

    async def wait(self, seconds: float) -> None:
        """Return when `signal` was called since the last wait began, or after so many seconds."""
        if self._is_signalled:
            self._is_signalled = False
            await asyncio.sleep(0)  # never starve the others, even under a storm of signals
            return
        loop = asyncio.get_running_loop()
        pending = loop.create_future()
        timer = loop.call_later(max(seconds, 0.0), _resolve, pending)
        self._pending = pending
        try:
            await pending
            # Not where the wait is cancelled: a signal is then left to the next one.
            self._is_signalled = False
        finally:
            timer.cancel()
            self._pending = None

    def signal(self) -> None:
        """End the present wait, or the next one at once."""
        self._is_signalled = True
        if self._pending is not None:
            _resolve(self._pending)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class UuidSource:
    """Makes UUIDv7s, growing with time."""

    def new_uuid(self) -> UUID:
        """Return a fresh UUIDv7."""
        return uuid_utils.compat.uuid7()


def system_random() -> random.Random:
    """Return a random source seeded by the system."""
    return random.Random()
