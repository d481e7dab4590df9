"""Adds minutes of usage up to hours, and removes what is no longer kept."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.core.usage import UsageLine, UsageStep, sum_to_hours
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.ports.clock import Waiter
from mainspring.ports.store import Store

PERIOD = 300.0
HOUR = timedelta(hours=1)
LATE_HOURS = 3
"""Hours that are added up again after a pause: a process that could not reach the store stores its minutes late."""
SLICE = timedelta(minutes=10)
"""What is read at once, so that nothing else waits for long."""
BATCH = 1000
"""Rows that are removed in one transaction."""


class UsageHours:
    """Adds up the hour that is and the one before, if this node owns shard 0.

    Args:
        minutes, hours: how long minutes and hours are kept.
    """

    name = "usage_hours"

    def __init__(
        self, store: Store, *, ownership: Ownership, minutes: timedelta, hours: timedelta, waiter: Waiter
    ) -> None:
        self._store = store
        self._ownership = ownership
        self._minutes = max(minutes, (LATE_HOURS + 1) * HOUR)
        self._hours = hours
        self.waiter = waiter
        self._added_at: datetime | None = None

    async def tick(self, now: datetime) -> float:
        """Add up and remove. While there is more to remove than one transaction does, come back at once."""
        epoch = self._ownership.epochs.get(0)
        if epoch is None:
            self._added_at = None
            return PERIOD
        epochs = {0: epoch}
        is_late = self._added_at is None or now - self._added_at > timedelta(seconds=2 * PERIOD)
        this_hour = UsageStep.HOUR.start_of(now)
        for ago in reversed(range(LATE_HOURS + 1 if is_late else 2)):
            hours = await self._add_up(this_hour - ago * HOUR)
            if hours and not await self._store.write_usage_hours(hours, epochs=epochs):
                self._ownership.fence([0], used=epochs)
                return PERIOD
        self._added_at = now
        removed = await self._store.prune_usage(
            minutes_before=now - self._minutes, hours_before=now - self._hours, epochs=epochs, limit=BATCH
        )
        return 0.0 if removed >= BATCH else PERIOD

    async def _add_up(self, hour: datetime) -> list[UsageLine]:
        lines: list[UsageLine] = []
        for part in range(HOUR // SLICE):
            since = hour + part * SLICE
            lines += sum_to_hours(
                await self._store.list_usage(UsageStep.MINUTE, since=since, until=since + SLICE)
            )
        return sum_to_hours(lines)
