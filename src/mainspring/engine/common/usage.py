"""Stores what this process counts of runs, minute by minute, so that questions about the past need no other system."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import structlog

from mainspring.core.usage import NO_USAGE, QueueKey, Usage, UsageLine, UsageStep
from mainspring.errors import StoreUnavailable
from mainspring.ports.clock import Clock, Waiter
from mainspring.ports.store import Store

_log = structlog.get_logger(__name__)
PERIOD = 15.0
"""Seconds between two writes: so old is what others see of this process, at most."""
MOST_LINES = 20_000
"""What is kept of minutes that could not be stored, while the store is away. Beyond that, the oldest are given up."""

CountsOfRuns = Callable[[], Iterable[tuple[QueueKey, Usage]]]
"""Returns what was counted since the process began."""


class UsageRecorder:
    """Stores what came to the counts of this process since it stored last.

    A minute is stored several times, each time in place of the time before. So it may be repeated when an answer is
    lost, and what a process counts before it is killed is lost for a few seconds only.

    Args:
        process: what tells this process from all others on the store.
    """

    name = "usage_recorder"

    def __init__(
        self, store: Store, sources: Sequence[CountsOfRuns], *, process: str, clock: Clock, waiter: Waiter
    ) -> None:
        self._store = store
        self._sources = sources
        self._process = process
        self._clock = clock
        self.waiter = waiter
        self._before: dict[QueueKey, Usage] = {}
        self._unstored: dict[tuple[datetime, QueueKey], Usage] = {}
        self._stored: dict[QueueKey, Usage] = {}
        self._stored_minute: datetime | None = None
        self._minute: datetime | None = None

    async def tick(self, now: datetime) -> float:
        """Store what has come since the last tick."""
        # After a failover the store's clock may stand earlier: a minute that was stored would be replaced by less.
        minute = UsageStep.MINUTE.start_of(now)
        self._minute = minute if self._minute is None else max(self._minute, minute)
        self._count(self._minute)
        if self._unstored:
            lines = [
                UsageLine(at=at, tenant=key.tenant, queue=key.queue, usage=usage)
                for (at, key), usage in self._unstored.items()
            ]
            await self._store.write_usage(lines, process=self._process)
            self._note_stored()
        return PERIOD

    async def finish(self) -> None:
        """Store what has come since the last tick, or give it up if the store is away: the process ends."""
        try:
            await self.tick(self._clock.now())
        except StoreUnavailable:
            _log.warning("usage_given_up", lines=len(self._unstored))

    def _count(self, minute: datetime) -> None:
        """Add what has come to the minute that now is."""
        totals: dict[QueueKey, Usage] = {}
        for source in self._sources:
            for key, usage in source():
                totals[key] = totals.get(key, NO_USAGE) + usage
        for key, total in totals.items():
            came = total - self._before.get(key, NO_USAGE)
            if came == NO_USAGE:
                continue
            known = self._unstored.get((minute, key))
            if known is None:
                known = self._stored.get(key, NO_USAGE) if minute == self._stored_minute else NO_USAGE
            self._unstored[minute, key] = known + came
        self._before = totals
        self._give_up_some()

    def _give_up_some(self) -> None:
        surplus = len(self._unstored) - MOST_LINES
        if surplus > 0:
            for key in sorted(self._unstored)[:surplus]:
                del self._unstored[key]
            _log.warning("usage_given_up", lines=surplus)

    def _note_stored(self) -> None:
        """Remember the newest minute: more will come to it."""
        newest = max(at for at, _ in self._unstored)
        if newest != self._stored_minute:
            self._stored, self._stored_minute = {}, newest
        self._stored |= {key: usage for (at, key), usage in self._unstored.items() if at == newest}
        self._unstored = {}
