"""Interval: at equal distances from an anchor."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar

from mainspring.core.fields import DAY
from mainspring.core.options import Option, Options, Path
from mainspring.core.times import Duration, Instant, from_seconds
from mainspring.core.triggers.base import Trigger, TriggerType
from mainspring.core.values import value
from mainspring.errors import InvalidInput


@value()
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


class IntervalType(TriggerType):
    """`every`."""

    name = "interval"
    is_own = True
    summary = "Fires at the anchor plus every multiple of the interval, so it does not drift."
    value = Interval
    options: ClassVar[Options] = Options(
        Option(
            name="every",
            kind=Duration(timedelta(seconds=1), 3650 * DAY),
            summary="Fire at an interval.",
            example="90s",
        ),
        Option(
            name="anchor",
            kind=Instant(),
            summary="The instant from which intervals are counted.",
            detail="By default that of the job's creation, or of the edit that changed the interval. One so late "
            "that the job would never fire is refused.",
            default=None,
            is_nullable=True,
        ),
    )
    short: ClassVar[Mapping[str, str]] = {"every": "every"}

    def make(self, values: Mapping[str, Any], path: Path, *, now: datetime, old: Trigger | None) -> Interval:
        """Make a trigger. Without an anchor, the same interval keeps its own, and another counts from the request."""
        every, anchor = values["every"], values["anchor"]
        if anchor is None:
            anchor = old.anchor if isinstance(old, Interval) and old.every == every else now
        interval = Interval(every, anchor)
        if interval.next_after(now) is None:
            raise InvalidInput(path("anchor"), "lies so far ahead that the job would never fire")
        return interval

    def beginning(self, values: Mapping[str, Any], starts_at: datetime) -> Mapping[str, Any]:
        """Count from the first instant that is allowed, if nothing else is said: it is the first fire."""
        if values["anchor"] is not None:
            return values
        return {**values, "anchor": starts_at - values["every"]}

    def load(self, plain: Mapping[str, Any]) -> Interval:
        """Read the full form."""
        return Interval(from_seconds(plain["every_seconds"]), datetime.fromisoformat(plain["anchor"]))

    def tell(self, plain: Mapping[str, Any]) -> str:
        """Name the interval."""
        return f"every {plain['every_seconds']:g} s"
