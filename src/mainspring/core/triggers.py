"""Triggers: pure rules that give the next instant after another (design 1, 5).

A trigger keeps no position. A job's position is data in its clock row.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from mainspring.core.cron import Cron


@dataclass(frozen=True, slots=True)
class Once:
    """Fires at one instant and never again."""

    at: datetime

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the instant if it lies in the future."""
        return self.at if self.at > instant else None

    def previous_before(self, instant: datetime) -> datetime | None:
        """Return the instant if it has passed."""
        return self.at if self.at < instant else None


@dataclass(frozen=True, slots=True)
class Interval:
    """Fires at `anchor + n * every`, n >= 1: anchored, so it does not drift when a fire is late.

    Attributes:
        anchor: the instant from which multiples are counted (by default the job's creation).
    """

    every: timedelta
    anchor: datetime

    def __post_init__(self) -> None:
        if self.every <= timedelta(0):
            raise ValueError("an interval is longer than nothing")

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first multiple strictly after the instant."""
        steps = max((instant - self.anchor) // self.every + 1, 1)
        try:
            return self.anchor + steps * self.every
        except OverflowError:  # past the year 9999
            return None

    def previous_before(self, instant: datetime) -> datetime | None:
        """Return the last multiple strictly before the instant."""
        steps = -((self.anchor - instant) // self.every) - 1
        return self.anchor + steps * self.every if steps >= 1 else None


Trigger = Once | Interval | Cron
"""The values of `JobSpec.trigger`. Each has `next_after` and `previous_before`, both strict."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
