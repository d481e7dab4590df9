"""The only module that reads clocks, sets timers, draws random numbers and makes ids.

All other code gets them through the ports in `mainspring.ports.clock`, so that tests and the simulator control time
and chance.
"""

from __future__ import annotations

import asyncio
import math
import random
import secrets
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import uuid_utils.compat

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SLEW_RATE = 0.1
"""How fast a wrong clock is corrected: seconds per second."""
_STEP_LIMIT = 0.05
"""A correction of up to this many seconds is applied at once (time still never runs backwards)."""
_SLEW_LIMIT = 60.0
"""A clock that is behind by more than this many seconds is set forward at once: the host was asleep."""
_CLOSE = 0.01
_LONGEST_START = 1.0
"""The first sample goes on until it is this close, or for this long, in seconds. Otherwise a process that starts on a
busy machine would be late by a slow answer's travel time."""
_ROUNDING = 0.001
"""Clocks that agree may seem to differ by this many seconds."""


def host_time() -> datetime:
    """Return the host's wall clock as an aware UTC time. Stores within this process use it as their clock."""
    return datetime.now(UTC)


def host_nanoseconds() -> int:
    """Return the host's wall clock in nanoseconds since 1970, for spans."""
    return time.time_ns()


def monotonic() -> float:
    """Return the host's monotonic clock in seconds."""
    return time.monotonic()


class StoreClock:
    """The store's clock, sampled and carried on by the local monotonic clock (design 5).

    Nothing may start before it is due, so this clock errs on the late side, by at most the shortest travel time of an
    answer. An answer says what the store's clock showed when it was given. The round trip is known, but not how it
    was split between the way there and the way back (ADR 0015).

    Host clocks do not matter. This clock never goes backwards. If the store's clock turns out to differ by more than a
    little, for example after a failover to another server, this clock slews. If it is minutes behind, for example
    after the host was suspended (which stops the monotonic clock), it steps, because slewing over a night takes days.

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
        """Ask the store for its time, and aim at it. The reads with the shortest round trips win.

        Returns:
            By how many seconds this clock was certainly behind the store's. If negative, by how many seconds it was
            ahead of what is certain about the store's.
        """
        lowest, highest = -math.inf, math.inf
        count, began = 0, self._monotonic()
        while count < reads or (
            self._offset is None and highest - lowest > _CLOSE and self._monotonic() - began < _LONGEST_START
        ):
            count += 1
            before = self._monotonic()
            answer = (await self._read_time() - _EPOCH).total_seconds()
            after = self._monotonic()
            lowest, highest = max(lowest, answer - after), min(highest, answer - before)
            if lowest > highest + _ROUNDING:  # the store's clock was set between two reads
                lowest, highest = answer - after, answer - before
        # Nothing changes before this point, because others may call `now` between the reads.
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
        """Return the current instant by the store's clock; never earlier than an earlier answer."""
        if self._offset is None:
            raise RuntimeError("the clock was read before its first sample")
        at = self._monotonic()
        if self._offset != self._target:
            self._slew(at)
        current = _EPOCH + timedelta(seconds=self._offset + at)
        self._latest = max(self._latest, current)
        return self._latest

    def monotonic(self) -> float:
        """Return the local monotonic clock in seconds."""
        return self._monotonic()

    def _slew(self, at: float) -> None:
        if self._offset is not None and self._offset != self._target:
            reach = (at - self._slewed_at) * _SLEW_RATE
            behind = self._target - self._offset
            self._offset = (
                self._target if abs(behind) <= reach else self._offset + math.copysign(reach, behind)
            )
            self._slewed_at = at


async def sampled_clock(read_time: Callable[[], Awaitable[datetime]]) -> StoreClock:
    """Return a store's clock that has been sampled once, so that it can tell the time.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    clock = StoreClock(read_time)
    await clock.sample()
    return clock


class LoopWaiter:
    """Waits on the running event loop for a timer or a signal, whichever comes first."""

    def __init__(self) -> None:
        self._is_signalled = False
        self._pending: asyncio.Future[None] | None = None

    async def wait(self, seconds: float) -> None:
        """Wait for a `signal` since the last wait began, for at most this many seconds."""
        if self._is_signalled:
            self._is_signalled = False
            await asyncio.sleep(0)  # do not starve other tasks, even in a storm of signals
            return
        loop = asyncio.get_running_loop()
        pending = loop.create_future()
        timer = loop.call_later(max(seconds, 0.0), _resolve, pending)
        self._pending = pending
        try:
            await pending
            # Not when the wait is cancelled: then the signal is left for the next wait.
            self._is_signalled = False
        finally:
            timer.cancel()
            self._pending = None

    def signal(self) -> None:
        """End the current wait. If there is none, the next one returns at once."""
        self._is_signalled = True
        if self._pending is not None:
            _resolve(self._pending)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class UuidSource:
    """Makes UUIDv7s, which grow with time."""

    def new_uuid(self) -> UUID:
        """Return a new UUIDv7."""
        return uuid_utils.compat.uuid7()

    def new_secret(self, size: int) -> bytes:
        """Return so many bytes that nobody can guess."""
        return secrets.token_bytes(size)


def system_random() -> random.Random:
    """Return a random source seeded by the system."""
    return random.Random()
