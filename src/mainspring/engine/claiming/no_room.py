"""Remembers for which quarantined runs there was no room under their limits, so that nobody keeps trying."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from mainspring.core.ids import LaneId

IDLE_PERIOD = timedelta(seconds=2)
"""How long idle workers leave such runs alone."""
LONGEST_DRAIN_PERIOD = timedelta(minutes=5)
"""How long busy workers are not asked to drain for such runs, at most. It begins with twice the period of idle ones,
and doubles each time. A worker that drains leaves its slots empty, and may have the very run that has the place."""


@dataclass(slots=True)
class _Tried:
    idle_at: datetime
    drain_at: datetime
    period: timedelta


class NoRoom:
    """The lanes whose quarantined runs found no room at the last try. It is a hint: the store decides."""

    def __init__(self) -> None:
        self._lanes: dict[LaneId, _Tried] = {}

    def note(self, lanes: Iterable[LaneId], now: datetime) -> None:
        """Note that an idle worker got nothing of these lanes."""
        for lane_id in lanes:
            known = self._lanes.get(lane_id)
            period = min(2 * (IDLE_PERIOD if known is None else known.period), LONGEST_DRAIN_PERIOD)
            self._lanes[lane_id] = _Tried(now + IDLE_PERIOD, now + period, period)

    def forget(self, lanes: Iterable[LaneId]) -> None:
        """Note that a quarantined run of these lanes has started, or that they have none any more."""
        for lane_id in lanes:
            self._lanes.pop(lane_id, None)

    def may_try(self, lane_id: LaneId, seen_at: datetime) -> bool:
        """Say whether idle workers are to try a lane again, as of the last look at it."""
        known = self._lanes.get(lane_id)
        return known is None or known.idle_at <= seen_at

    def may_drain(self, lane_id: LaneId, seen_at: datetime) -> bool:
        """Say whether busy workers may be asked to drain for a lane."""
        known = self._lanes.get(lane_id)
        return known is None or known.drain_at <= seen_at
