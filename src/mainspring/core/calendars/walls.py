"""From what a clock on the wall shows to the instant at which it does, by rule V: the same as for cron expressions.

"Wall" seconds are what the clock shows, counted from 1970 as if it showed UTC. Instants are whole seconds since 1970.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mainspring.core.cron.zones import MAX_EPOCH, MIN_EPOCH, Zone

DAY = 86_400
_WIDEST = 26 * 3600
"""More than any offset from UTC."""
_START = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


def epoch_at_wall(zone: Zone, wall: int) -> int:
    """Return the instant at which a zone's clocks first show a wall time.

    A wall time that a clock change skips is shown right after the change, as a fixed time of a cron expression fires.
    """
    at = min(max(wall - _WIDEST, MIN_EPOCH), MAX_EPOCH - 1)
    while True:
        segment = zone.segment(at)
        if wall < segment.end + segment.offset or segment.end >= MAX_EPOCH:
            return max(wall - segment.offset, segment.start)
        at = segment.end


def wall_at_epoch(zone: Zone, epoch: int) -> int:
    """Return what a zone's clocks show at an instant."""
    return epoch + zone.segment(min(max(epoch, MIN_EPOCH), MAX_EPOCH - 1)).offset


def to_epoch(instant: datetime) -> int:
    """Return the whole second at or before an instant."""
    return (instant - _START) // _SECOND


def from_epoch(epoch: int) -> datetime:
    """Return the instant of a whole second, in UTC."""
    return _START + timedelta(seconds=epoch)
