"""Group commit: calls that arrive while one is under way go together in the next (design 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Combiner(Generic[T, R]):
    """Merges concurrent batches into one call of `verb`, which returns one result per item, in order.

    No task and no timer of its own: whoever comes first after a call has ended carries the next one for all.
    An error reaches everybody whose items were in that call.
    """

    def __init__(self, verb: Callable[[Sequence[T]], Awaitable[Sequence[R]]]) -> None:
        self._verb = verb
        self._lock = asyncio.Lock()
        self._waiting: list[tuple[Sequence[T], asyncio.Future[Sequence[R]]]] = []

    async def __call__(self, items: Sequence[T]) -> Sequence[R]:
        """Add items to the next call and return their results."""
        if not items:
            return []
        future: asyncio.Future[Sequence[R]] = asyncio.get_running_loop().create_future()
        self._waiting.append((items, future))
        async with self._lock:
            if not future.done():
                await self._carry()
        return future.result()

    async def _carry(self) -> None:
        batch, self._waiting = self._waiting, []
        everything = [item for items, _ in batch for item in items]
        try:
            results = await self._verb(everything)
        except BaseException as error:
            for _, future in batch:
                if isinstance(error, Exception):
                    future.set_exception(error)
                    future.exception()  # seen: a waiter that was cancelled meanwhile will not look
                else:
                    future.cancel()
            raise
        start = 0
        for items, future in batch:
            future.set_result(results[start : start + len(items)])
            start += len(items)
