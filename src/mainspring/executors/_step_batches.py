"""Steps that end while others are being kept go to the engine together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from mainspring.core.checkpoints import CheckpointVerdict, NewCheckpoint
from mainspring.core.ids import SessionId
from mainspring.errors import InvalidInput
from mainspring.ports.checkpoints import CheckpointGateway, KeptSteps

MOST_TOGETHER = 500
"""Steps in one call, at most."""
_Waiting = tuple[NewCheckpoint, "asyncio.Future[KeptSteps]"]


class StepBatches:
    """Merges steps into calls of a gateway, one at a time. No timer delays them: the first one goes at once.

    Use it on one event loop. If a call fails because of one of its steps, each is sent by itself, so that only that
    one's attempt hears of it. Any other error goes to all.
    """

    def __init__(self, gateway: CheckpointGateway) -> None:
        self._gateway = gateway
        self._waiting: list[_Waiting] = []
        self._carrier: asyncio.Task[None] | None = None

    async def keep(self, step: NewCheckpoint) -> KeptSteps:
        """Have a step kept, and return the answer to it alone. Whoever is cancelled leaves the others as they are.

        Raises:
            InvalidInput: the step cannot be kept.
            StoreUnavailable, Unreachable: it did not work now.
        """
        future: asyncio.Future[KeptSteps] = asyncio.get_running_loop().create_future()
        self._waiting.append((step, future))
        if self._carrier is None:
            self._carrier = asyncio.create_task(self._carry_all())
        return await future

    async def _carry_all(self) -> None:
        batch: list[_Waiting] = []
        try:
            while self._waiting:
                batch = self._take()
                await self._carry(batch)
        finally:
            self._carrier = None
            for _, future in (*batch, *self._waiting):  # left over only if the loop is shut down
                future.cancel()
            self._waiting = []

    def _take(self) -> list[_Waiting]:
        """Take what the next call is to have: of one session, and of those that still wait."""
        alive = [one for one in self._waiting if not one[1].done()]
        session_id = alive[0][0].session_id if alive else None
        batch = [one for one in alive if one[0].session_id == session_id][:MOST_TOGETHER]
        taken = {id(future) for _, future in batch}
        self._waiting = [one for one in alive if id(one[1]) not in taken]
        return batch

    async def _carry(self, batch: Sequence[_Waiting]) -> None:
        if not batch:
            return
        try:
            kept = await self._gateway.keep_checkpoints(_session_of(batch), [step for step, _ in batch])
        except InvalidInput as error:
            if len(batch) > 1:
                for one in batch:
                    await self._carry([one])
            else:
                _fail(batch, error)
        except Exception as error:  # noqa: BLE001 -- whoever waits gets it
            _fail(batch, error)
        else:
            for (_, future), verdict in zip(batch, kept.verdicts, strict=True):
                _answer(future, KeptSteps((verdict,), kept.at))


def is_stale(kept: KeptSteps) -> bool:
    """Say whether the one step of an answer was refused, because its attempt has lost its run."""
    return kept.verdicts[0] is CheckpointVerdict.STALE


def _session_of(batch: Sequence[_Waiting]) -> SessionId:
    return batch[0][0].session_id


def _answer(future: asyncio.Future[KeptSteps], kept: KeptSteps) -> None:
    if not future.done():
        future.set_result(kept)


def _fail(batch: Sequence[_Waiting], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
