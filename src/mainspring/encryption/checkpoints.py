"""What the steps of durable functions have come to: encrypted as it is kept, decrypted as it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from mainspring.core.checkpoints import Checkpoint, CheckpointVerdict, NewCheckpoint
from mainspring.core.ids import RunId
from mainspring.encryption.fields import Place
from mainspring.encryption.run_logs import EncryptedRunLogs


class EncryptedCheckpoints(EncryptedRunLogs):
    """The values of steps. Names and numbers stay plain."""

    async def keep_checkpoints(
        self, items: Sequence[NewCheckpoint], *, now: datetime
    ) -> list[CheckpointVerdict]:
        """See `CheckpointStore`."""
        places = await self._find_places([item.run_id for item in items])
        encrypted = [self._encrypt_step(item, places.get(item.run_id)) for item in items]
        return await self._store.keep_checkpoints(encrypted, now=now)

    def _encrypt_step(self, item: NewCheckpoint, place: Place | None) -> NewCheckpoint:
        if place is None:  # there is no such run, and nothing of it may be written as it is
            return replace(item, value=None)
        value = self._fields.encrypt_step(item.value, place, item.run_id, item.name, item.number)
        return replace(item, value=value)

    async def list_checkpoints(
        self, run_id: RunId, *, after: tuple[str, int] | None = None, limit: int = 100
    ) -> list[Checkpoint]:
        """See `CheckpointStore`. Those of a run that is not on record any more are not shown.

        Raises:
            CannotDecrypt: one of them cannot be read here.
        """
        found = await self._store.list_checkpoints(run_id, after=after, limit=limit)
        if all(step.value is None for step in found):
            return found
        place = (await self._find_places([run_id])).get(run_id)
        return [] if place is None else [self._decrypt_step(step, place, run_id) for step in found]

    def _decrypt_step(self, step: Checkpoint, place: Place, run_id: RunId) -> Checkpoint:
        value = self._fields.decrypt_step(step.value, place, run_id, step.name, step.number)
        return step if value is step.value else replace(step, value=value)
