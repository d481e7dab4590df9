"""Takes turns: one at a time asks the store for the calls that wait."""

from __future__ import annotations

import asyncio
from types import TracebackType


class AskingTurn:
    """A lock that tells whether anybody has it or waits for it. It is given in order of arrival."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._count = 0

    @property
    def is_taken(self) -> bool:
        """Whether one would have to wait for it."""
        return self._count > 0

    async def __aenter__(self) -> None:
        self._count += 1
        try:
            await self._lock.acquire()
        except BaseException:
            self._count -= 1
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()
        self._count -= 1
