"""When flows of a node's shards wake, so that the store is not asked each time."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from mainspring.ports.store.flows import FlowStore, WokenFlow

LOOK_PERIOD = 1.0
"""Seconds between two looks at timers. A timer that others set, and that is due sooner, may wake its flow so late."""


class FlowAlarms:
    """Finds the flows whose timers are due.

    A look finds those that wake until the next one, too. So between looks nobody asks, unless one is due.
    """

    def __init__(self) -> None:
        self._look_at = -1.0e9
        self._next: datetime | None = None
        self._shards: frozenset[int] = frozenset()

    async def read_due(
        self, store: FlowStore, shards: Collection[int], *, now: datetime, at: float, limit: int
    ) -> list[WokenFlow] | None:
        """Return flows whose first timer is due, `limit` of them if there may be more; None if there was no look.

        Args:
            at: now, in monotonic seconds.
        """
        if self._shards != shards:
            self._shards, self._look_at = frozenset(shards), at
        if at < self._look_at and (self._next is None or self._next > now):
            return None
        until = now + timedelta(seconds=LOOK_PERIOD)
        found = await store.read_woken(sorted(shards), until=until, limit=limit)
        self._look_at = at + LOOK_PERIOD
        self._next = None
        self.note(one.wake_at for one in found if one.wake_at > now)
        return [one for one in found if one.wake_at <= now]

    def note(self, wakes: Iterable[datetime | None]) -> None:
        """Note when flows wake next, as this node has written it."""
        for wake_at in wakes:
            if wake_at is not None and (self._next is None or wake_at < self._next):
                self._next = wake_at

    def seconds_left(self, now: datetime, most: float) -> float:
        """Return the seconds until a flow wakes, as far as is known; `most` at most."""
        if self._next is None:
            return most
        return min(max((self._next - now).total_seconds(), 0.0), most)
