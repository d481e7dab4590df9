"""Group commit: calls that arrive while another one is under way share the next one (design 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

from mainspring.errors import StoreUnavailable
from mainspring.ports.calls import outlives_callers
from mainspring.ports.telemetry import SIZES, Distribution

T = TypeVar("T")
R = TypeVar("R")


_Caller: TypeAlias = tuple[Sequence[T], "asyncio.Future[Sequence[R]]"]
"""The items of one caller, and the results that it waits for."""


class GroupCommit(Generic[T, R]):
    """Merges concurrent batches into one call of `verb`, which returns one result per item, in order.

    Calls run one at a time, and no timer delays them: the first one starts at once, and those that follow wait until
    it ends. If a call fails, it is repeated for each caller separately, so that an error reaches only the callers whose
    items cause it. If the store is unavailable, all callers get that error instead. `verb` must be safe to repeat. If
    a caller is cancelled, the call continues with that caller's items, and no other caller is affected.

    Args:
        most: the most items of several callers in one call. The items of one caller are never split.

    Attributes:
        sizes: how many items each call had.
    """

    def __init__(
        self, verb: Callable[[Sequence[T]], Awaitable[Sequence[R]]], *, most: int | None = None
    ) -> None:
        self._verb = verb
        self._most = most
        self._waiting: list[_Caller[T, R]] = []
        self._carrier: asyncio.Task[None] | None = None
        self.sizes: Distribution = Distribution(SIZES)

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
        outlives_callers.set(True)
        batch: list[_Caller[T, R]] = []
        try:
            while self._waiting:
                batch, self._waiting = self._divide()
                await self._carry(batch)
        finally:
            self._carrier = None
            for _, future in batch + self._waiting:  # left over only if the loop is shut down
                future.cancel()
            self._waiting = []

    def _divide(self) -> tuple[list[_Caller[T, R]], list[_Caller[T, R]]]:
        """Return the callers of the next call, and those that wait for a later one, in order of arrival."""
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
                raise RuntimeError(f"{len(everything)} items gave {len(results)} results")
        except Exception as error:  # noqa: BLE001 - it is raised in the callers
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
