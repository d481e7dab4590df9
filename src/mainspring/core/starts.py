"""Decides what the start of a cluster writes to the clock of a job whose trigger is at start (ADR 0058)."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.core.clocks import NextFire
from mainspring.core.failures import gap_reason
from mainspring.core.values import value

_TICK = timedelta(microseconds=1)
REASON_NEXT_START = "next_start"
"""Of a fire at start that was not made before the cluster started again."""


@value()
class StartedClock:
    """A clock after a start.

    Attributes:
        gaps: fires that are not made, each with its reason.
    """

    next_fire: NextFire | None
    fired_through: datetime | None
    gaps: tuple[tuple[datetime, str], ...] = ()


def start_clock(
    *,
    next_fire_at: datetime | None,
    fired_through: datetime | None,
    is_paused: bool,
    pause_note: str | None,
    now: datetime,
) -> StartedClock:
    """Set a clock for a start at `now`: its fire is due at once, unless the job is paused.

    A fire of the start before that is not made yet gives way: a job runs once when the cluster is up. The instant is
    later than all before it, even if the store's clock was set back, because it names the fire.
    """
    gaps: tuple[tuple[datetime, str], ...] = ()
    if next_fire_at is not None:
        gaps = ((next_fire_at, REASON_NEXT_START),)
        fired_through = next_fire_at if fired_through is None else max(fired_through, next_fire_at)
    start_at = now if fired_through is None else max(now, fired_through + _TICK)
    if is_paused:
        return StartedClock(None, start_at, (*gaps, (start_at, gap_reason(pause_note))))
    return StartedClock(NextFire(start_at, start_at), fired_through, gaps)
