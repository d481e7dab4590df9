"""Counts all runs at intervals and stores the result, so that nobody who asks has to wait for a count."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import structlog

from mainspring.core.attention import LATE
from mainspring.core.census import Census, make_census
from mainspring.core.states import READY_STATES
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.errors import TookTooLong
from mainspring.ports.clock import Clock, Waiter
from mainspring.ports.store import Store
from mainspring.ports.telemetry import Measure, keep_largest

_log = structlog.get_logger(__name__)
PERIOD = 15.0
"""The seconds between two counts."""
SHARE = 100
"""A count that takes long is repeated after this many times as long: it has one hundredth of the time."""
SETTLING = timedelta(minutes=5)
"""How long after an instant nothing is committed any more that ended before it."""


class CensusTaker:
    """Counts all runs, if this node owns shard 0. Every store has one such node, and other nodes' writes are fenced.

    That node also measures what it has counted.
    """

    name = "census"

    def __init__(self, store: Store, *, clock: Clock, ownership: Ownership, waiter: Waiter) -> None:
        self._store = store
        self._clock = clock
        self._ownership = ownership
        self.waiter = waiter
        self._census: Census | None = None
        self._overdue = 0

    def measures(self) -> Iterator[Measure]:
        """Yield what the last census counted, while this node takes them."""
        census = self._census
        if census is not None and 0 in self._ownership.epochs:
            yield from measure_census(census)
            yield Measure("clocks_overdue", self._overdue)
            age = (self._clock.now() - census.taken_at).total_seconds()
            yield Measure("census_age_seconds", max(age, 0.0))

    async def tick(self, now: datetime) -> float:
        """Add what has ended for good to the tally, then count and store."""
        if 0 not in self._ownership.epochs:
            return PERIOD
        epochs = {0: self._ownership.epochs[0]}
        while await self._store.settle_ends(before=now - SETTLING, epochs=epochs):
            pass
        begun = self._clock.monotonic()
        try:
            counted = await self._store.count_all_runs(overdue_before=now - LATE)
        except TookTooLong as error:
            _log.warning("census_stopped", error=str(error))
            return PERIOD * SHARE
        took = self._clock.monotonic() - begun
        census = make_census(
            counted.live, counted.ended, counted.dead, taken_at=now, took=timedelta(seconds=took)
        )
        if await self._store.put_census(census, epochs=epochs):
            self._census, self._overdue = census, counted.overdue
        else:
            self._census = None
            self._ownership.fence([0], used=epochs)
        return max(PERIOD, SHARE * took)


def measure_census(census: Census) -> Iterator[Measure]:
    """Yield what a census counted. Of each metric, the largest `MOST_SERIES` sets of labels have their own value."""
    runs: dict[tuple[str, ...], float] = {
        (line.tenant, line.queue, line.state.value): float(line.runs) for line in census.live
    }
    for labels, value in keep_largest(runs, sum).items():
        yield Measure("queue_runs", value, labels)
    oldest: dict[tuple[str, ...], float] = {}
    for line in census.live:
        if line.state in READY_STATES:
            age = max((census.taken_at - line.earliest_ready_at).total_seconds(), 0.0)
            key = (line.tenant, line.queue)
            oldest[key] = max(oldest.get(key, 0.0), age)
    for labels, value in keep_largest(oldest, max).items():
        yield Measure("queue_oldest_seconds", value, labels)
    dead: dict[tuple[str, ...], float] = {(line.tenant, line.queue): float(line.runs) for line in census.dead}
    for labels, value in keep_largest(dead, sum).items():
        yield Measure("dead_runs", value, labels)
