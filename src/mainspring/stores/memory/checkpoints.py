"""What the steps of durable functions have come to, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.checkpoints import Checkpoint, CheckpointVerdict, NewCheckpoint
from mainspring.core.fencing import is_held
from mainspring.core.ids import RunId
from mainspring.core.states import LIVE_STATES
from mainspring.stores.memory.tables import Tables

Checkpoints = dict[RunId, dict[tuple[str, int], Checkpoint]]


class MemoryCheckpointStore:
    """`CheckpointStore` in memory."""

    _checkpoints: Checkpoints
    _tables: Tables

    async def keep_checkpoints(
        self, items: Sequence[NewCheckpoint], *, now: datetime
    ) -> list[CheckpointVerdict]:
        return [self._keep_step(item, now) for item in items]

    def _keep_step(self, item: NewCheckpoint, now: datetime) -> CheckpointVerdict:
        run = self._tables.runs.get(item.run_id)
        if run is None or not is_held(run, item.token, item.session_id):
            return CheckpointVerdict.STALE
        run.quarantined_crashes = 0
        kept = self._checkpoints.setdefault(item.run_id, {})
        if (item.name, item.number) in kept:
            return CheckpointVerdict.KNOWN
        kept[item.name, item.number] = Checkpoint(
            item.name, item.number, item.token, item.is_error, item.value, now
        )
        return CheckpointVerdict.KEPT

    async def list_checkpoints(
        self, run_id: RunId, *, after: tuple[str, int] | None = None, limit: int = 100
    ) -> list[Checkpoint]:
        kept = self._checkpoints.get(run_id, {})
        return [one for key, one in sorted(kept.items()) if after is None or key > after][:limit]

    async def prune_checkpoints(self, *, before: datetime, limit: int) -> int:
        old = sorted(
            (one.kept_at, run_id, key)
            for run_id, kept in self._checkpoints.items()
            if not self._is_under_way(run_id)
            for key, one in kept.items()
            if one.kept_at < before
        )[:limit]
        for _, run_id, key in old:
            del self._checkpoints[run_id][key]
            if not self._checkpoints[run_id]:
                del self._checkpoints[run_id]
        return len(old)

    def _is_under_way(self, run_id: RunId) -> bool:
        run = self._tables.runs.get(run_id)
        return run is not None and run.state in LIVE_STATES
