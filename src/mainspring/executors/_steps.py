"""Takes the steps of durable functions to the engine, from whatever event loop a function runs on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from mainspring.core.checkpoints import Checkpoint, NewCheckpoint
from mainspring.errors import Conflict, StoreUnavailable, Unreachable
from mainspring.executors._step_batches import StepBatches, is_stale
from mainspring.ports.checkpoints import CheckpointGateway, KeptStepPage
from mainspring.ports.executor import AttemptContext

T = TypeVar("T")
_PAUSES = (0.2, 0.5, 1.0, 2.0)
"""Seconds after which the engine is asked again that could not be reached; the last of them again and again."""


class AttemptSteps:
    """Implements `StepKeeper` on a gateway.

    Args:
        loop: the worker's loop, on which the gateway lives.
    """

    def __init__(self, gateway: CheckpointGateway, loop: asyncio.AbstractEventLoop) -> None:
        self._gateway = gateway
        self._batches = StepBatches(gateway)
        self._loop = loop

    async def keep(
        self, context: AttemptContext, name: str, number: int, value: bytes | None, *, is_error: bool
    ) -> datetime:
        """Keep what a step has come to; see `StepKeeper`."""
        new = NewCheckpoint(context.run_id, context.token, context.session_id, name, number, is_error, value)
        kept = await self._call(partial(self._batches.keep, new))
        if is_stale(kept):
            raise Conflict("lease", "the attempt does not hold this run any more, so its steps are not kept")
        return kept.at

    async def read(self, context: AttemptContext) -> tuple[list[Checkpoint], datetime]:
        """Return all steps that attempts before have kept; see `StepKeeper`."""
        found: list[Checkpoint] = []
        while True:
            after = (found[-1].name, found[-1].number) if found else None
            page = await self._call(partial(self._list, context, after))
            found += page.steps
            if page.is_last:
                return found, page.at

    async def _list(self, context: AttemptContext, after: tuple[str, int] | None) -> KeptStepPage:
        return await self._gateway.list_checkpoints(
            context.session_id, context.run_id, context.token, after=after
        )

    async def _call(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_insist(ask), self._loop))


async def _insist(ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Ask until there is an answer. Who gives up the attempt cancels this."""
    tries = 0
    while True:
        try:
            return await ask()
        except (StoreUnavailable, Unreachable):
            pause = _PAUSES[min(tries, len(_PAUSES) - 1)]
            await asyncio.wait((asyncio.get_running_loop().create_future(),), timeout=pause)
            tries += 1
