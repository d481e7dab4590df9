"""At start: fires once each time the scheduler comes up from nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from mainspring.core.options import Options
from mainspring.core.triggers.base import TriggerType
from mainspring.core.values import value


@value()
class AtStart:
    """Fires at instants that no rule gives: whenever the first scheduler of a cluster starts, its clock is set."""

    def next_after(self, instant: datetime) -> datetime | None:
        """Return None: when the next start comes, nobody knows."""
        del instant
        return None

    def previous_before(self, instant: datetime) -> datetime | None:
        """Return None: the store keeps which starts there were."""
        del instant
        return None


class AtStartType(TriggerType):
    """`at_start`. Its short form is `schedule: "@reboot"`."""

    name = "at_start"
    is_own = True
    summary = "Fires once each time the scheduler starts: the first server, after none was running."
    value = AtStart
    options: ClassVar[Options] = Options()
    is_recurring = False

    def tell(self, plain: Mapping[str, Any]) -> str:
        """Say that it goes with starts."""
        del plain
        return "at each start"
