"""Timers of flows: at which instants a flow has a turn, though no mail came."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import IntEnum

from mainspring.core.values import value

WHOLE = -1
"""The step of a timer that is about the flow as a whole."""


class TimerKind(IntEnum):
    """What happens at an instant. The numbers are kept.

    - `DEADLINE`: nothing more starts, and what is live is cancelled.
    - `WAKE`: a step has waited as long as it was to.
    - `TIMEOUT`: a step has waited too long for an answer.
    """

    DEADLINE = 0
    WAKE = 1
    TIMEOUT = 2


@value()
class FlowTimer:
    """An instant at which a flow has a turn.

    Attributes:
        step: whose timer it is; `WHOLE` if it is the flow's.
    """

    at: datetime
    kind: TimerKind
    step: int = WHOLE


Timers = tuple[FlowTimer, ...]
"""Those of a flow, the first one first."""


def earliest(timers: Timers) -> datetime | None:
    """Return when a flow wakes next; None if it only waits for mail."""
    return timers[0].at if timers else None


def sort_timers(timers: Sequence[FlowTimer]) -> Timers:
    """Return timers in the order in which they are kept."""
    return tuple(sorted(timers, key=_order))


def _order(timer: FlowTimer) -> tuple[datetime, int, int]:
    return timer.at, timer.kind, timer.step


def split_due(timers: Timers, now: datetime) -> tuple[Timers, Timers]:
    """Return the timers that are due, and those that are not yet."""
    count = sum(timer.at <= now for timer in timers)
    return timers[:count], timers[count:]
