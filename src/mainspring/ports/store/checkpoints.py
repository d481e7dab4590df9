"""What the steps of durable functions have come to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from mainspring.core.checkpoints import Checkpoint, CheckpointVerdict, NewCheckpoint
from mainspring.core.ids import RunId


class CheckpointStore(Protocol):
    """Checkpoints of runs. What a worker writes is fenced by its lease. They outlast their attempt, and go when the
    run is over and its history is.
    """

    async def keep_checkpoints(
        self, items: Sequence[NewCheckpoint], *, now: datetime
    ) -> list[CheckpointVerdict]:
        """Keep what steps have come to, each if its run is RUNNING under exactly its lease.

        What is kept stands: one of the same run, name and number changes nothing, and is KNOWN. A run that has come
        to something counts its crashes from zero again.
        """
        ...

    async def list_checkpoints(
        self, run_id: RunId, *, after: tuple[str, int] | None = None, limit: int = 100
    ) -> list[Checkpoint]:
        """Return a page of what is kept of a run, by name and number.

        Args:
            after: the name and number of the last one of the page before.
        """
        ...

    async def prune_checkpoints(self, *, before: datetime, limit: int) -> int:
        """Remove what was kept before this instant of runs that are over. Return how much went."""
        ...
