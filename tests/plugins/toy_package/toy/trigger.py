"""Trigger `step`: at every so many seconds of the clock, wherever the job was defined."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from mainspring.core.kinds import Whole
from mainspring.core.options import Option, Options
from mainspring.core.triggers import TriggerType

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Step:
    """Fires at whole multiples of a number of seconds since 1970."""

    seconds: int

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first fire strictly after an instant."""
        step = timedelta(seconds=self.seconds)
        return EPOCH + ((instant - EPOCH) // step + 1) * step

    def previous_before(self, instant: datetime) -> datetime | None:
        """Return the last fire strictly before an instant."""
        step = timedelta(seconds=self.seconds)
        return EPOCH - ((EPOCH - instant) // step + 1) * step


class StepType(TriggerType):
    """`step_seconds`."""

    name = "step"
    summary = "Fires at whole multiples of a number of seconds."
    value = Step
    options = Options(Option(name="seconds", kind=Whole(1, 3600), summary="Fire each so many seconds."))
    short: ClassVar = {"step_seconds": "seconds"}


step = StepType()
