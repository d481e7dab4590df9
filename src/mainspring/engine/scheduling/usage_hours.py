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
"""Hours before this one that are added up again each time: a process that could not reach the store stores its minutes
late. What comes later still is in the minutes alone."""
SLICE = timedelta(minutes=10)
"""What is read at once, so that nothing else waits for long."""
BATCH = 1000
"""Rows that are removed in one transaction."""


class UsageHours:
    """Adds up the hour that is and those before, if this node owns shard 0; at first from the last one on record on.

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
        self._is_new = True

    async def tick(self, now: datetime) -> float:
        """Add up, then remove what is over, as many transactions as that takes."""
        epoch = self._ownership.epochs.get(0)
        if epoch is None:
            self._is_new = True
            return PERIOD
        epochs = {0: epoch}
        hour = await self._first_hour(now)
        while hour <= now:
            hours = await self._add_up(hour)
            if hours and not await self._store.write_usage_hours(hours, epochs=epochs):
                self._ownership.fence([0], used=epochs)
                return PERIOD
            hour += HOUR
        self._is_new = False
        minutes, hours_before = now - self._minutes, now - self._hours
        while await self._store.prune_usage(
            minutes_before=minutes, hours_before=hours_before, epochs=epochs, limit=BATCH
        ):
            pass
        return PERIOD

    async def _first_hour(self, now: datetime) -> datetime:
        """Return the first hour to add up: after a time without an owner, there may be many."""
        usual = UsageStep.HOUR.start_of(now) - LATE_HOURS * HOUR
        if not self._is_new:
            return usual
        known = await self._store.list_usage(UsageStep.HOUR, since=now - self._minutes, until=usual)
        return min(usual, known[-1].at) if known else usual

    async def _add_up(self, hour: datetime) -> list[UsageLine]:
        lines: list[UsageLine] = []
        for part in range(HOUR // SLICE):
            since = hour + part * SLICE
            lines += sum_to_hours(
                await self._store.list_usage(UsageStep.MINUTE, since=since, until=since + SLICE)
            )
        return sum_to_hours(lines)
