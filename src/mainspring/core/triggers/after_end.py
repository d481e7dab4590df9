"""After the end: fires at a fixed delay after the run of the fire before has ended."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar

from mainspring.core.fields import DAY, show
from mainspring.core.options import Option, Options
from mainspring.core.times import Duration, from_seconds
from mainspring.core.triggers.base import TriggerType
from mainspring.core.values import value


@value()
class AfterEnd:
    """Fires at instants that no rule gives: `delay` after the end of the run that the fire before has made.

    `core.ends` sets the clock when that end is known.
    """

    delay: timedelta

    def __post_init__(self) -> None:
        if self.delay <= timedelta(0):
            raise ValueError("a delay is longer than nothing")

    def next_after(self, instant: datetime) -> datetime | None:
        """Return None: when a run will end, nobody knows."""
        del instant
        return None

    def previous_before(self, instant: datetime) -> datetime | None:
        """Return None: the store keeps which fires there were."""
        del instant
        return None


class AfterEndType(TriggerType):
    """`after_end`."""

    name = "after_end"
    is_own = True
    summary = (
        "Fires at a delay after the end of the run before; first when the job is made, or at `starts_at`."
    )
    value = AfterEnd
    options: ClassVar[Options] = Options(
        Option(
            name="delay",
            kind=Duration(timedelta(seconds=1), 3650 * DAY),
            summary="Fire at a delay after the end of the run before.",
            detail="The run's end, with all its retries: so the schedule never has two runs at a time.",
            example="10m",
        ),
    )
    short: ClassVar[Mapping[str, str]] = {"after_end": "delay"}

    def tell(self, plain: Mapping[str, Any]) -> str:
        """Name the delay."""
        return f"{show(from_seconds(plain['delay_seconds']))} after the end"
