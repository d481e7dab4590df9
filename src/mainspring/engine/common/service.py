"""One duty, one service: `tick`, then wait, until it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

import structlog

from mainspring.errors import StoreUnavailable
from mainspring.ports.clock import Clock, RandomSource, Waiter
from mainspring.ports.telemetry import SECONDS, Distribution, Measure

_log = structlog.get_logger(__name__)
_FIRST_BACKOFF = 0.2
_LAST_BACKOFF = 5.0


class Service(Protocol):
    """A long-lived duty of the engine."""

    @property
    def name(self) -> str:
        """The name in logs and measures."""
        ...

    @property
    def waiter(self) -> Waiter:
        """What the service waits on between ticks. Signal it when there is news for the service."""
        ...

    async def tick(self, now: datetime) -> float:
        """Do what is due at `now`. Return the seconds until the next tick, unless a signal comes first."""
        ...


class _Loop:
    """The loop of one start. It has its own stop flag, so that a later start cannot revive it."""

    __slots__ = ("is_stopping",)

    def __init__(self) -> None:
        self.is_stopping = False


class ServiceRunner:
    """Runs one service: the loop calls `tick`, then waits on the service's waiter, and does nothing else.

    A tick that fails is logged and repeated after a growing, jittered pause, so a service survives an outage of the
    store. `start` and `stop` may be called any number of times, in any order and at the same time. There is never more
    than one loop, and `stop` returns when the loop that it found running has ended.
    """

    def __init__(self, service: Service, *, clock: Clock, random: RandomSource) -> None:
        self._service = service
        self._clock = clock
        self._random = random
        self._current: _Loop | None = None
        self._newest: asyncio.Task[None] | None = None
        self._ticks = Distribution(SECONDS)
        self._failures = 0

    def measures(self) -> Iterator[Measure]:
        """Yield how long the service's ticks took, and how many failed."""
        labels = (self._service.name,)
        yield Measure("service_tick_seconds", self._ticks.read(), labels)
        yield Measure("service_failures_total", self._failures, labels)

    def start(self) -> None:
        """Begin ticking on the running event loop."""
        if self._current is None:
            self._current = _Loop()
            run = self._run(self._current, after=self._newest)
            self._newest = asyncio.create_task(run, name=self._service.name)

    async def stop(self) -> None:
        """Let the current tick finish, then end the loop."""
        task, loop = self._newest, self._current
        if loop is not None:
            self._current = None
            loop.is_stopping = True
            self._service.waiter.signal()
        if task is not None:
            await task

    async def _run(self, loop: _Loop, *, after: asyncio.Task[None] | None) -> None:
        if after is not None:
            await asyncio.wait([after])
        failures = 0
        while not loop.is_stopping:
            begun = self._clock.monotonic()
            try:
                delay = await self._service.tick(self._clock.now())
                failures = 0
            except StoreUnavailable as error:
                delay = self._backoff(failures)
                failures += 1
                _log.warning("store_unavailable", service=self._service.name, error=str(error))
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                # Not the service was cancelled, but something that the tick waited for.
                delay = self._backoff(failures)
                failures += 1
                _log.exception("tick_failed", service=self._service.name)
            except Exception:  # noqa: BLE001 - a service survives a bug in one tick; the log has its trace
                delay = self._backoff(failures)
                failures += 1
                _log.exception("tick_failed", service=self._service.name)
            self._ticks.add(self._clock.monotonic() - begun)
            self._failures += failures > 0
            if not loop.is_stopping:
                await self._service.waiter.wait(delay)

    def _backoff(self, failures: int) -> float:
        pause: float = min(_FIRST_BACKOFF * 2.0 ** min(failures, 10), _LAST_BACKOFF)
        return pause * (0.5 + self._random.random() / 2)
