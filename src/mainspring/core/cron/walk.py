"""Finds the next or previous instant of a schedule in a zone (rule V 6 to 8).

Time is in whole seconds since 1970; "wall" seconds are explained in `days`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from mainspring.core.cron.days import YEARS
from mainspring.core.cron.fields import CronError
from mainspring.core.cron.zones import MAX_EPOCH, MIN_EPOCH, Segment, Zone

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_GAPS = {"after": True, "skip": False}
_OVERLAPS = {"first": frozenset({1}), "second": frozenset({2}), "both": frozenset({1, 2})}
_VIXIE = "after/first"

_LONGEST_GAP = 3 * 3600
"""A gap of this length or more is a missing day, not a clock change: its fires are not made up for (rule V 6)."""
_SEARCH = YEARS * 366 * 86_400
_FAR = 2 * 86_400
"""More than offsets and gaps can move a wall time. Segments further from the wanted time need not be searched."""


class MetChange(NamedTuple):
    """A clock change that skips or repeats a fixed time.

    Attributes:
        at: when it happens.
        wall: the first such time, in wall seconds.
        before, after: what clocks show right before the change and at it, in wall seconds.
        fires: the instants that the time stands for; of a skipped one none, or that of the change.
    """

    at: int
    wall: int
    before: int
    after: int
    fires: tuple[int, ...]

    @property
    def is_gap(self) -> bool:
        """Clocks go ahead."""
        return self.after > self.before


class WallTimes(Protocol):
    """What names wall times: a cron expression's calendar, or that of a calendar interval."""

    def at_or_after(self, wall: int) -> int | None:
        """Return the first wall second >= the given one; None if there is none in sight."""
        ...

    def at_or_before(self, wall: int) -> int | None:
        """Return the last wall second <= the given one; None if there is none in sight."""
        ...


def read_dst(dst: str, expression: str = "") -> tuple[bool, frozenset[int]]:
    """Return whether a skipped time fires right after the gap, and which passes of a repeated one fire.

    Args:
        dst: `vixie` or `GAP/OVERLAP`.
        expression: for the error.

    Raises:
        CronError: it is neither.
    """
    gap, slash, overlap = (_VIXIE if dst == "vixie" else dst).partition("/")
    if not slash or gap not in _GAPS or overlap not in _OVERLAPS:
        right = "'vixie' nor GAP/OVERLAP with GAP after or skip, OVERLAP first, second or both"
        raise CronError("dst", expression, f"{dst[:80]!r} is neither {right}")
    return _GAPS[gap], _OVERLAPS[overlap]


class Walker:
    """Steps through the instants of one schedule in one zone.

    Args:
        is_wild: the schedule follows real time through clock changes; what follows is for fixed times.
        is_gap_fired: a fixed time that a clock change skips fires right after it.
        passes: which of the two passes of a repeated wall time count: a subset of {1, 2}.
    """

    __slots__ = ("_calendar", "_is_gap_fired", "_is_once", "_is_second", "_is_wild", "_last", "_zone")

    def __init__(
        self,
        calendar: WallTimes,
        zone: Zone,
        *,
        is_wild: bool = False,
        is_gap_fired: bool,
        passes: frozenset[int],
    ) -> None:
        self._calendar = calendar
        self._zone = zone
        self._is_gap_fired = is_gap_fired and not is_wild
        self._is_once = not is_wild and passes == {1}
        self._is_second = not is_wild and passes == {2}
        self._is_wild = is_wild
        self._last: tuple[int, int | None] | None = None

    def fire_after(self, instant: datetime) -> datetime | None:
        """Return the first fire strictly after an aware instant, in UTC.

        Raises:
            ValueError: the instant is naive.
        """
        epoch = self.next_after(floor_epoch(instant))
        return None if epoch is None else _EPOCH + timedelta(seconds=epoch)

    def fire_before(self, instant: datetime) -> datetime | None:
        """Return the last fire strictly before an aware instant, in UTC.

        Raises:
            ValueError: the instant is naive.
        """
        epoch = self.previous_before(ceil_epoch(instant))
        return None if epoch is None else _EPOCH + timedelta(seconds=epoch)

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
                if segment.start + segment.before <= high:
                    return None
                at = segment.start - 1  # clocks went back to here: before, they showed later times
                continue
            if low <= wanted:
                return wanted - segment.offset
            if self._fires_after_gap(segment):
                return segment.start
            is_long = at - segment.start >= _FAR
            at = min(segment.start - 1, wanted + _FAR) if is_long else segment.start - 1
        return None

    def met_changes(self, start: int, end: int) -> Iterator[MetChange]:
        """Yield the clock changes from one instant to another that skip or repeat a fixed time."""
        at = start
        while at < min(end, MAX_EPOCH) and not self._is_wild:
            segment = self._zone.segment(at)
            low, high = sorted((segment.start + segment.before, segment.start + segment.offset))
            wall = self._calendar.at_or_after(low) if low < high and segment.start >= start else None
            if wall is not None and wall < high:
                if segment.offset > segment.before:
                    fires: tuple[int, ...] = (segment.start,) if self._fires_after_gap(segment) else ()
                else:
                    passes = (wall - segment.before, wall - segment.offset)
                    fires = passes[:1] if self._is_once else passes[1:] if self._is_second else passes
                shown = (segment.start + segment.before, segment.start + segment.offset)
                yield MetChange(segment.start, wall, *shown, fires)
            at = segment.end

    def _fires_after_gap(self, segment: Segment) -> bool:
        """Say whether the clock change at the segment's start skipped a wall time, which fires at that start
        instead.
        """
        gap = segment.offset - segment.before
        if not self._is_gap_fired or not 0 < gap < _LONGEST_GAP:
            return False
        missed = self._calendar.at_or_after(segment.start + segment.before)
        return missed is not None and missed < segment.start + segment.offset


def floor_epoch(instant: datetime) -> int:
    """Return the whole second at or before an instant."""
    _check_aware(instant)
    return (instant - _EPOCH) // _SECOND


def ceil_epoch(instant: datetime) -> int:
    """Return the whole second at or after an instant."""
    _check_aware(instant)
    return -((_EPOCH - instant) // _SECOND)


def _check_aware(instant: datetime) -> None:
    if instant.utcoffset() is None:
        raise ValueError(f"{instant!r} is naive; give it a zone")
