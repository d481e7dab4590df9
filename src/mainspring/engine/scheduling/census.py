"""Counts all runs at intervals and stores the result, so that nobody who asks has to wait for a count."""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog

from mainspring.core.census import make_census
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.errors import TookTooLong
from mainspring.ports.clock import Clock, Waiter
from mainspring.ports.store import Store

_log = structlog.get_logger(__name__)
PERIOD = 15.0
"""The seconds between two counts."""
SHARE = 100
"""A count that takes long is repeated after this many times as long: it has one hundredth of the time."""
SETTLING = timedelta(minutes=5)
"""How long after an instant nothing is committed any more that ended before it."""


class CensusTaker:
    """Counts all runs, if this node owns shard 0. Every store has one such node, and other nodes' writes are fenced."""

    name = "census"

    def __init__(self, store: Store, *, clock: Clock, ownership: Ownership, waiter: Waiter) -> None:
        self._store = store
        self._clock = clock
        self._ownership = ownership
        self.waiter = waiter

    async def tick(self, now: datetime) -> float:
        """Add what has ended for good to the tally, then count and store."""
        if 0 not in self._ownership.epochs:
            return PERIOD
        epochs = {0: self._ownership.epochs[0]}
        while await self._store.settle_ends(before=now - SETTLING, epochs=epochs):
            pass
        begun = self._clock.monotonic()
        try:
            counted = await self._store.count_all_runs()
        except TookTooLong as error:
            _log.warning("census_stopped", error=str(error))
            return PERIOD * SHARE
        took = self._clock.monotonic() - begun
        census = make_census(counted.live, counted.ended, taken_at=now, took=timedelta(seconds=took))
        if not await self._store.put_census(census, epochs=epochs):
            self._ownership.fence([0], used=epochs)
        return max(PERIOD, SHARE * took)
