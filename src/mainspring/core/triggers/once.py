"""Once: a single instant."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar

from mainspring.core.options import Option, Options, Path
from mainspring.core.triggers.base import Trigger, TriggerType
from mainspring.core.triggers.moments import MomentText
from mainspring.core.values import value
from mainspring.errors import InvalidInput


@value()
class Once:
    """Fires at one instant and never again."""

    at: datetime

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the instant if it lies in the future."""
        return self.at if self.at > instant else None

    def previous_before(self, instant: datetime) -> datetime | None:
        """Return the instant if it has passed."""
        return self.at if self.at < instant else None


class OnceType(TriggerType):
    """`run_at`."""

    name = "once"
    is_own = True
    summary = "Fires at one instant and never again."
    value = Once
    options: ClassVar[Options] = Options(
        Option(
            name="at",
            kind=MomentText(),
            summary="Fire once, at this instant: ISO 8601, local time with a zone, or like 'in 10m'.",
            detail="It must lie in the future. A local time that clocks skip is the instant right after the gap, and "
            "one that comes twice is the first.",
            example="2026-11-21T09:00:00+01:00",
        ),
    )
    short: ClassVar[Mapping[str, str]] = {"run_at": "at"}
    is_recurring = False

    def make(self, values: Mapping[str, Any], path: Path, *, now: datetime, old: Trigger | None) -> Once:
        """Make a trigger; an instant that has passed is right only where the job has it already."""
        at = values["at"]
        once = Once(now + at if isinstance(at, timedelta) else at)
        if once.at <= now and old != once:
            message = f"{once.at.isoformat()} has passed; give an instant after {now.isoformat()}"
            raise InvalidInput(path("at"), message)
        return once

    def load(self, plain: Mapping[str, Any]) -> Once:
        """Read the full form."""
        return Once(datetime.fromisoformat(plain["at"]))

    def tell(self, plain: Mapping[str, Any]) -> str:
        """Name the instant."""
        return f"at {plain['at']}"
