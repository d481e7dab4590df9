"""Whether the store answers, for callers of whom nothing is known: however many ask, the store is asked rarely."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from mainspring.errors import StoreUnavailable

FRESH_FOR = timedelta(seconds=1)
"""How long an answer of the store stands for those that come after it."""


class StoreProbe:
    """Asks the store at most once a second, and one question at a time.

    Args:
        ping: asks the store; raises `StoreUnavailable` if it does not answer.
    """

    def __init__(self, ping: Callable[[], Awaitable[object]]) -> None:
        self._ping = ping
        self._asking = asyncio.Lock()
        self._answers = 0
        self._at: datetime | None = None
        self._error: StoreUnavailable | None = None

    async def check(self, now: datetime) -> None:
        """Return if the store answers, or did within the last second.

        Raises:
            StoreUnavailable: it does not.
        """
        seen = self._answers
        async with self._asking:
            # An answer that came while this call waited is as good as one of its own, however long it took.
            if self._answers == seen and not self._is_fresh(now):
                await self._ask(now)
        if self._error is not None:
            raise StoreUnavailable(str(self._error))

    def _is_fresh(self, now: datetime) -> bool:
        return self._at is not None and timedelta(0) <= now - self._at < FRESH_FOR

    async def _ask(self, now: datetime) -> None:
        try:
            await self._ping()
        except StoreUnavailable as error:
            self._error = error
        else:
            self._error = None
        self._at = now
        self._answers += 1
