"""Group commit: calls that arrive while one is under way go together in the next (design 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

from mainspring.errors import StoreUnavailable
from mainspring.ports.telemetry import SIZES, Distribution

T = TypeVar("T")
R = TypeVar("R")


_Caller: TypeAlias = tuple[Sequence[T], "asyncio.Future[Sequence[R]]"]
"""What one caller gave, and what it waits for."""


class GroupCommit(Generic[T, R]):
    """Merges concurrent batches into one call of `verb`, which returns one result per item, in order.

    Calls go one at a time, and no timer holds them back: the first goes at once, those that follow wait for its end.
    A call that fails is repeated for each caller by itself, so that an error reaches only those whose items bring it
    about (not where the store is unavailable: that concerns everybody); `verb` must bear to be repeated. A caller
    that is cancelled affects no other: the call goes on, and its own items are carried all the same.

    Args:
        most: items of several callers that go in one call; a single caller's are never divided.

    Attributes:
        sizes: of the calls, in items.
    """

    def __init__(
        self, verb: Callable[[Sequence[T]], Awaitable[Sequence[R]]], *, most: int | None = None
    ) -> None:
        self._verb = verb
        self._most = most
        self._waiting: list[_Caller[T, R]] = []
        self._carrier: asyncio.Task[None] | None = None
        self.sizes = Distribution(SIZES)

    async def __call__(self, items: Sequence[T]) -> Sequence[R]:
        """Add items to the next call and return their results."""
        if not items:
            return []
        future: asyncio.Future[Sequence[R]] = asyncio.get_running_loop().create_future()
        self._waiting.append((items, future))
        if self._carrier is None:
            self._carrier = asyncio.create_task(self._carry_all())
        return await future

    async def _carry_all(self) -> None:
        batch: list[_Caller[T, R]] = []
        try:
            while self._waiting:
                batch, self._waiting = self._divide()
                await self._carry(batch)
        finally:
            self._carrier = None
            for _, future in batch + self._waiting:  # left over only where the loop is shut down
                future.cancel()
            self._waiting = []

    def _divide(self) -> tuple[list[_Caller[T, R]], list[_Caller[T, R]]]:
        """Return who goes with the next call, and who waits for another one; first come, first served."""
        count = 0
        for position, (items, _) in enumerate(self._waiting):
            count += len(items)
            if position and self._most is not None and count > self._most:
                return self._waiting[:position], self._waiting[position:]
        return self._waiting, []

    async def _carry(self, batch: list[_Caller[T, R]]) -> None:
        everything = [item for items, _ in batch for item in items]
        self.sizes.add(len(everything))
        try:
            results = await self._verb(everything)
            if len(results) != len(everything):
                raise RuntimeError(f"{len(everything)} items brought {len(results)} results")
        except Exception as error:  # noqa: BLE001 - it is raised in those who wait
            if len(batch) > 1 and not isinstance(error, StoreUnavailable):
                for one in batch:
                    await self._carry([one])
                return
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        start = 0
        for items, future in batch:
            if not future.done():
                future.set_result(results[start : start + len(items)])
            start += len(items)
