"""Reads what became of runs of late, for the rules of alerts that judge by it."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.core.objectives import Objective
from mainspring.core.usage import QueueKey, Usage, UsageLine, UsageStep
from mainspring.core.usage_facts import DAY, HOUR, UsageSeen, gather
from mainspring.ports.store import Store

MINUTE = timedelta(minutes=1)
LATE = 3 * MINUTE
"""Minutes that are read again: processes store each 15 seconds, and some a little later."""
_HOURS_EVERY = timedelta(minutes=5)
_SLICES = {UsageStep.MINUTE: 10 * MINUTE, UsageStep.HOUR: 6 * HOUR}
"""What is read at once, so that nothing else waits for long."""

_Lines = dict[QueueKey, list[tuple[datetime, Usage]]]


class RecentUsage:
    """Keeps the last hour by the minute, and what rules need beyond by the hour.

    The store is asked once a minute, for the minutes that are new; the hours are read each five minutes. What it keeps
    can be lost: it is read again.

    Attributes:
        objectives: those of all tenants, as they were read with the usage.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._minute: datetime | None = None
        self._minutes: list[UsageLine] = []
        self._hours_at: datetime | None = None
        self._hours: _Lines = {}
        self._longest = timedelta(0)
        self._seen: UsageSeen | None = None
        self.objectives: list[Objective] = []

    async def read(self, now: datetime, *, longest: timedelta = DAY) -> UsageSeen:
        """Return the usage of late.

        Args:
            longest: how far back hours are needed.

        Raises:
            StoreUnavailable: the store could not be read. The next call tries again.
        """
        minute = UsageStep.MINUTE.start_of(now)
        if self._seen is not None and minute == self._minute and longest <= self._longest:
            return self._seen
        begin = minute - HOUR
        since = begin
        if self._minute is not None and begin < self._minute <= minute:
            since = max(begin, self._minute - LATE)
        lines = await self._read(UsageStep.MINUTE, since, minute + MINUTE)
        kept = [line for line in self._minutes if begin <= line.at < since]
        is_old = self._hours_at is None or not self._hours_at <= now < self._hours_at + _HOURS_EVERY
        if is_old or longest > self._longest:
            hours = await self._read(UsageStep.HOUR, UsageStep.HOUR.start_of(now - longest), now)
            self._hours, self._hours_at, self._longest = gather(hours), now, longest
        self.objectives = await self._store.list_objectives()
        self._minutes, self._minute = kept + lines, minute
        self._seen = UsageSeen(gather(self._minutes), self._hours)
        return self._seen

    async def _read(self, step: UsageStep, since: datetime, until: datetime) -> list[UsageLine]:
        lines: list[UsageLine] = []
        while since < until:
            end = min(since + _SLICES[step], until)
            lines += await self._store.list_usage(step, since=since, until=end)
            since = end
        return lines
