"""What became of runs, minute by minute and hour by hour, as each process has counted it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from mainspring.core.usage import UsageLine, UsageStep
from mainspring.ports.store.nodes import Epochs


class UsageStore(Protocol):
    """The minutes of each process, and the hours of all together."""

    async def write_usage(self, lines: Sequence[UsageLine], *, process: str) -> None:
        """Store minutes of one process. A minute that it has stored before is replaced, so a call may be repeated."""
        ...

    async def list_usage(
        self,
        step: UsageStep,
        *,
        since: datetime,
        until: datetime,
        tenant: str | None = None,
        queues: Sequence[str] | None = None,
    ) -> list[UsageLine]:
        """Return what began from `since` to before `until`, by time, tenant and queue; of all processes together.

        Args:
            tenant: None is all tenants.
            queues: None is all queues.
        """
        ...

    async def write_usage_hours(self, lines: Sequence[UsageLine], *, epochs: Epochs) -> bool:
        """Store hours, in place of those of the same time. Return False, and store nothing, without shard 0's epoch."""
        ...

    async def prune_usage(
        self, *, minutes_before: datetime, hours_before: datetime, epochs: Epochs, limit: int
    ) -> int:
        """Remove what began before; return how many rows went: at most `limit` minutes, and as many hours."""
        ...
