"""From a schedule and a zone to the next or previous instant (rule V 4 and 6 to 8).

Time is in seconds since 1970. "Wall" seconds are those of a clock on the wall, counted as if it were UTC.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from mainspring.core.cron.parse import Schedule
from mainspring.core.cron.zones import MAX_EPOCH, MIN_EPOCH, Segment, Zone

_DAY = 86_400
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_LONGEST_GAP = 3 * 3600
"""A gap as long as this is a missing day, not a clock change: nothing is made up for (rule V 6)."""
YEARS = 100
"""How far a search goes; 29 February on a given weekday can be 40 years away (rule V 8)."""


class Calendar:
    """Which days and times of day match, with the matching days of a month kept once computed."""

    __slots__ = ("_months", "_schedule")

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._months: dict[int, int] = {}

    def has_days(self) -> bool:
        """Say whether any day can ever match, by looking at a hundred years."""
        return any(self._days(2000 + index // 12, index % 12 + 1) for index in range(12 * YEARS))

    def at_or_after(self, wall: int) -> int | None:
        """Return the first matching wall second >= the given one."""
        ordinal, second = divmod(wall, _DAY)
        today = date.fromordinal(ordinal + _EPOCH_ORDINAL)
        year, month, day = today.year, today.month, today.day
        if self._days(year, month) >> day & 1:
            time = self._time_at_or_after(second)
            if time is not None:
                return wall - second + time
        day += 1
        for _ in range(12 * YEARS):
            rest = self._days(year, month) >> day
            if rest:
                day += (rest & -rest).bit_length() - 1
                first = self._first_time()
                return (date(year, month, day).toordinal() - _EPOCH_ORDINAL) * _DAY + first
            day = 1
            year, month = (year + 1, 1) if month == 12 else (year, month + 1)
            if year > 9998:
                return None
        return None

    def at_or_before(self, wall: int) -> int | None:
        """Return the last matching wall second <= the given one."""
        ordinal, second = divmod(wall, _DAY)
        today = date.fromordinal(ordinal + _EPOCH_ORDINAL)
        year, month, day = today.year, today.month, today.day
        if self._days(year, month) >> day & 1:
            time = self._time_at_or_before(second)
            if time is not None:
                return wall - second + time
        day -= 1
        for _ in range(12 * YEARS):
            rest = self._days(year, month) & (2 << day) - 1
            if rest:
                last = self._last_time()
                return (date(year, month, rest.bit_length() - 1).toordinal() - _EPOCH_ORDINAL) * _DAY + last
            day = 31
            year, month = (year - 1, 12) if month == 1 else (year, month - 1)
            if year < 2:
                return None
        return None

    def _time_at_or_after(self, time: int) -> int | None:
        hour, rest = divmod(time, 3600)
        minute, second = divmod(rest, 60)
        schedule = self._schedule
        if schedule.hours >> hour & 1:
            if schedule.minutes >> minute & 1:
                seconds = schedule.seconds >> second
                if seconds:
                    return time + (seconds & -seconds).bit_length() - 1
            minutes = schedule.minutes >> minute + 1
            if minutes:
                minute += (minutes & -minutes).bit_length()
                return hour * 3600 + minute * 60 + _lowest(schedule.seconds)
        hours = schedule.hours >> hour + 1
        if not hours:
            return None
        hour += (hours & -hours).bit_length()
        return hour * 3600 + _lowest(schedule.minutes) * 60 + _lowest(schedule.seconds)

    def _time_at_or_before(self, time: int) -> int | None:
        hour, rest = divmod(time, 3600)
        minute, second = divmod(rest, 60)
        schedule = self._schedule
        if schedule.hours >> hour & 1:
            if schedule.minutes >> minute & 1:
                seconds = schedule.seconds & (2 << second) - 1
                if seconds:
                    return hour * 3600 + minute * 60 + seconds.bit_length() - 1
            minutes = schedule.minutes & (1 << minute) - 1
            if minutes:
                return hour * 3600 + (minutes.bit_length() - 1) * 60 + schedule.seconds.bit_length() - 1
        hours = schedule.hours & (1 << hour) - 1
        if not hours:
            return None
        return (hours.bit_length() - 1) * 3600 + self._last_time() % 3600

    def _first_time(self) -> int:
        schedule = self._schedule
        return _lowest(schedule.hours) * 3600 + _lowest(schedule.minutes) * 60 + _lowest(schedule.seconds)

    def _last_time(self) -> int:
        schedule = self._schedule
        hour, minute = schedule.hours.bit_length() - 1, schedule.minutes.bit_length() - 1
        return hour * 3600 + minute * 60 + schedule.seconds.bit_length() - 1

    def _days(self, year: int, month: int) -> int:
        """Return the matching days of a month as a mask (bit 1 is the first)."""
        if not self._schedule.months >> month & 1:
            return 0
        key = year * 12 + month
        mask = self._months.get(key)
        if mask is None:
            if len(self._months) >= 64:
                self._months.clear()
            mask = self._months[key] = month_days(self._schedule, year, month)
        return mask


def month_days(schedule: Schedule, year: int, month: int) -> int:
    """Compute the matching days of a month (rule V 3 and 4)."""
    first = date(year, month, 1)
    following = date(year + 1, 1, 1) if month == 12 else date(year, month + 1, 1)
    length = following.toordinal() - first.toordinal()
    first_weekday = first.isoweekday() % 7  # Sunday is 0
    every = (2 << length) - 2
    by_day = schedule.days & every
    for back in schedule.month_ends:
        if back < length:
            by_day |= 1 << length - back
    for day in schedule.nearest:
        if day <= length:
            by_day |= 1 << _nearest_weekday(day, first_weekday, length)
    if schedule.is_last_weekday:
        by_day |= 1 << _nearest_weekday(length, first_weekday, length)
    by_weekday = 0
    for day in range(1, length + 1):
        weekday = (first_weekday + day - 1) % 7
        if (
            schedule.weekdays >> weekday & 1
            or (weekday in schedule.last_weekdays and day + 7 > length)
            or (weekday, (day + 6) // 7) in schedule.nth_weekdays
        ):
            by_weekday |= 1 << day
    return by_day & by_weekday if schedule.is_day_and else by_day | by_weekday


def _nearest_weekday(day: int, first_weekday: int, length: int) -> int:
    weekday = (first_weekday + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


class Walker:
    """Steps through the instants of one schedule in one zone.

    Args:
        is_gap_fired: a fixed time that a clock change skips fires right after it.
        passes: which of the two passes of a repeated wall time count, of {1, 2}, for a fixed schedule.
    """

    __slots__ = ("_calendar", "_first", "_is_gap_fired", "_second", "_zone")

    def __init__(self, schedule: Schedule, zone: Zone, *, is_gap_fired: bool, passes: frozenset[int]) -> None:
        self._calendar = Calendar(schedule)
        self._zone = zone
        self._is_gap_fired = is_gap_fired and not schedule.is_wild
        self._first = schedule.is_wild or 1 in passes
        self._second = schedule.is_wild or 2 in passes

    def can_fire(self) -> bool:
        """Say whether the schedule has any day at all."""
        return self._calendar.has_days()

    def next_after(self, epoch: int) -> int | None:
        """Return the first fire > `epoch`."""
        epoch = max(epoch + 1, MIN_EPOCH)
        limit = min(epoch + YEARS * 366 * _DAY, MAX_EPOCH)
        wanted: int | None = None
        for segment in self._forward(epoch, limit):
            start = max(epoch, segment.start)
            if start == segment.start and self._fires_after_gap(segment):
                return start
            low, high = self._allowed(segment)
            low = max(low, start + segment.offset)
            if wanted is None or wanted < low or segment.before > segment.offset:
                wanted = self._calendar.at_or_after(low)
                if wanted is None:
                    return None
            if wanted < high:
                return wanted - segment.offset
        return None

    def previous_before(self, epoch: int) -> int | None:
        """Return the last fire < `epoch`."""
        epoch = min(epoch - 1, MAX_EPOCH - 1)
        limit = max(epoch - YEARS * 366 * _DAY, MIN_EPOCH)
        wanted: int | None = None
        for segment in self._backward(epoch, limit):
            low, high = self._allowed(segment)
            high = min(high - 1, min(epoch, segment.end - 1) + segment.offset)
            if wanted is None or wanted > high or segment.after < segment.offset:
                wanted = self._calendar.at_or_before(high)
                if wanted is None:
                    return None
            if wanted >= low and high >= low:
                return wanted - segment.offset
            if segment.start <= epoch and self._fires_after_gap(segment):
                return segment.start
        return None

    def _fires_after_gap(self, segment: Segment) -> bool:
        gap = segment.offset - segment.before
        if not self._is_gap_fired or not 0 < gap < _LONGEST_GAP:
            return False
        missed = self._calendar.at_or_after(segment.start + segment.before)
        return missed is not None and missed < segment.start + segment.offset

    def _allowed(self, segment: Segment) -> tuple[int, int]:
        """Return the wall seconds [low, high) of a segment that may fire, by the passes that count."""
        low, high = segment.start + segment.offset, segment.end + segment.offset
        if not self._second:
            low = max(low, segment.start + segment.before)
        if not self._first:
            high = min(high, segment.end + segment.after)
        return low, high

    def _forward(self, epoch: int, limit: int) -> Iterator[Segment]:
        while epoch < limit:
            segment = None
            for segment in self._zone.segments(epoch):
                if segment.end > epoch:
                    yield segment
            assert segment is not None
            epoch = segment.end

    def _backward(self, epoch: int, limit: int) -> Iterator[Segment]:
        while epoch >= limit:
            segments = self._zone.segments(epoch)
            for segment in reversed(segments):
                if segment.start <= epoch:
                    yield segment
            epoch = segments[0].start - 1
