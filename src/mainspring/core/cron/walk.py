"""Finds the next or previous instant of a schedule in a zone (rule V 6 to 8).

Time is in whole seconds since 1970; "wall" seconds are explained in `days`.
"""

from __future__ import annotations

from mainspring.core.cron.days import YEARS, Calendar
from mainspring.core.cron.parse import Schedule
from mainspring.core.cron.zones import MAX_EPOCH, MIN_EPOCH, Segment, Zone

_LONGEST_GAP = 3 * 3600
"""A gap of this length or more is a missing day, not a clock change: its fires are not made up for (rule V 6)."""
_SEARCH = YEARS * 366 * 86_400
_FAR = 2 * 86_400
"""More than offsets and gaps can move a wall time. Segments further from the wanted time need not be searched."""


class Walker:
    """Steps through the instants of one schedule in one zone.

    Args:
        is_gap_fired: a fixed time that a clock change skips fires right after it.
        passes: for a fixed schedule, which of the two passes of a repeated wall time count: a subset of {1, 2}.
    """

    __slots__ = ("_calendar", "_is_gap_fired", "_is_once", "_is_second", "_last", "_zone")

    def __init__(self, schedule: Schedule, zone: Zone, *, is_gap_fired: bool, passes: frozenset[int]) -> None:
        self._calendar = Calendar(schedule)
        self._zone = zone
        self._is_gap_fired = is_gap_fired and not schedule.is_wild
        self._is_once = not schedule.is_wild and passes == {1}
        self._is_second = not schedule.is_wild and passes == {2}
        self._last: tuple[int, int | None] | None = None

    def can_fire(self) -> bool:
        """Say whether any day can match the schedule."""
        return self._calendar.has_days()

    def next_after(self, epoch: int) -> int | None:
        """Return the first fire > `epoch`, within a hundred years."""
        last = self._last
        # Adding a job asks twice: when the job is checked, and when its clock is set.
        if last is None or last[0] != epoch:
            last = self._last = (epoch, self._find_after(epoch))
        return last[1]

    def _find_after(self, epoch: int) -> int | None:
        at = max(epoch + 1, MIN_EPOCH)
        limit = min(at + _SEARCH, MAX_EPOCH)
        wanted: int | None = None
        searched = 0
        while at < limit:
            segment = self._zone.segment(at)
            if at == segment.start and self._fires_after_gap(segment):
                return at
            low, high = at + segment.offset, segment.end + segment.offset
            if self._is_once and low < segment.shown_until:
                low = segment.shown_until
            elif self._is_second and high > segment.shown_from:
                high = segment.shown_from
            if wanted is None or not searched <= low <= wanted:
                wanted, searched = self._calendar.at_or_after(low), low
                if wanted is None:
                    return None
            if wanted < high:
                return wanted - segment.offset
            is_long = segment.end - at >= _FAR  # else an overlap may yet show wall times before `low`
            at = max(segment.end, wanted - _FAR) if is_long else segment.end
        return None

    def previous_before(self, epoch: int) -> int | None:
        """Return the last fire < `epoch`, within a hundred years."""
        at = min(epoch, MAX_EPOCH) - 1
        limit = max(at - _SEARCH, MIN_EPOCH)
        wanted: int | None = None
        searched = 0
        while at >= limit:
            segment = self._zone.segment(at)
            low, high = segment.start + segment.offset, at + segment.offset
            if self._is_once and low < segment.shown_until:
                low = segment.shown_until
            elif self._is_second and high >= segment.shown_from:
                high = segment.shown_from - 1
            if wanted is None or not wanted <= high <= searched:
                wanted, searched = self._calendar.at_or_before(high), high
                if wanted is None:
                    return None
            if low <= wanted:
                return wanted - segment.offset
            if self._fires_after_gap(segment):
                return segment.start
            is_long = at - segment.start >= _FAR
            at = min(segment.start - 1, wanted + _FAR) if is_long else segment.start - 1
        return None

    def _fires_after_gap(self, segment: Segment) -> bool:
        """Say whether the clock change at the segment's start skipped a wall time, which fires at that start
        instead.
        """
        gap = segment.offset - segment.before
        if not self._is_gap_fired or not 0 < gap < _LONGEST_GAP:
            return False
        missed = self._calendar.at_or_after(segment.start + segment.before)
        return missed is not None and missed < segment.start + segment.offset
