"""One duty, one service: `tick`, then wait, until told to stop."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Protocol

import structlog

from mainspring.errors import StoreUnavailable
from mainspring.ports.clock import Clock, RandomSource, Waiter

_log = structlog.get_logger(__name__)
_FIRST_BACKOFF = 0.2
_LAST_BACKOFF = 5.0


class Service(Protocol):
    """A long-lived duty of the engine."""

    @property
    def name(self) -> str:
        """What logs call it."""
        ...

    @property
    def waiter(self) -> Waiter:
        """What it waits on between ticks; whoever has news for it signals here."""
        ...

    async def tick(self, now: datetime) -> float:
        """Do what is due at `now`; return the seconds until the next tick unless a signal comes first."""
        ...


class ServiceRunner:
    """Runs one service: the loop is tick, then wait on the service's waiter, and nothing else.

    A tick that fails is logged and repeated after a growing, jittered pause: a service outlives an outage of the
    store. `start` and `stop` may each be called any number of times.
    """

    def __init__(self, service: Service, *, clock: Clock, random: RandomSource) -> None:
        self._service = service
        self._clock = clock
        self._random = random
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False

    def start(self) -> None:
        """Begin ticking on the running event loop."""
        if self._task is None:
            self._is_stopping = False
            self._task = asyncio.create_task(self._run(), name=self._service.name)

    async def stop(self) -> None:
        """Let the present tick finish, then end."""
        task, self._task = self._task, None
        if task is None:
            return
        self._is_stopping = True
        self._service.waiter.signal()
        await task

    async def _run(self) -> None:
        failures = 0
        while not self._is_stopping:
            try:
                delay = await self._service.tick(self._clock.now())
                failures = 0
            except StoreUnavailable as error:
                delay = self._backoff(failures)
                failures += 1
                _log.warning("store_unavailable", service=self._service.name, error=str(error))
            except Exception:  # noqa: BLE001 - a service outlives a bug in one tick; the log has its trace
                delay = self._backoff(failures)
                failures += 1
                _log.exception("tick_failed", service=self._service.name)
            if not self._is_stopping:
                await self._service.waiter.wait(delay)

    def _backoff(self, failures: int) -> float:
        pause: float = min(_FIRST_BACKOFF * 2.0 ** min(failures, 10), _LAST_BACKOFF)
        return pause * (0.5 + self._random.random() / 2)
