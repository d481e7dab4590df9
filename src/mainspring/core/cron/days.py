"""Finds the days and times of day that match a schedule, in wall time: no zones here (rule V 3 and 4).

"Wall" seconds are what a clock on the wall shows, counted from 1970 as if it showed UTC.
"""

from __future__ import annotations

from datetime import date
from functools import lru_cache

from mainspring.core.cron.parse import Schedule

_DAY = 86_400
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
YEARS = 100
"""How many years a search covers; 29 February on a given weekday can be 40 years away (rule V 8)."""
_LAST_YEAR = 9998
_FIRST_YEAR = 2


class Calendar:
    """Finds matching wall seconds.

    A month's matching days depend only on its length and its first weekday, so 28 masks hold them all.
    """

    __slots__ = ("_first", "_hours", "_last", "_masks", "_minutes", "_months", "_schedule", "_seconds")

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._seconds, self._minutes, self._hours = schedule.seconds, schedule.minutes, schedule.hours
        self._months = schedule.months
        self._first = lowest(self._hours) * 3600 + lowest(self._minutes) * 60 + lowest(self._seconds)
        self._last = highest(self._hours) * 3600 + highest(self._minutes) * 60 + highest(self._seconds)
        self._masks = _masks_for(
            schedule.days,
            schedule.weekdays,
            schedule.month_ends,
            schedule.nearest,
            schedule.is_last_weekday,
            schedule.last_weekdays,
            schedule.nth_weekdays,
            schedule.is_day_and,
        )

    def has_days(self) -> bool:
        """Say whether any day can ever match. Each month begins on every weekday within 28 years, or 40 around 2100."""
        lengths = _lengths(self._months)
        return any(self._mask(length, first) for length in lengths for first in range(7))

    def at_or_after(self, wall: int) -> int | None:
        """Return the first matching wall second >= the given one, within `YEARS`."""
        ordinal, second = divmod(wall, _DAY)
        today = date.fromordinal(ordinal + _EPOCH_ORDINAL)
        year, month, day = today.year, today.month, today.day
        start = ordinal - day  # the day before the month's first
        days = self._days(year, month, start)
        if days >> day & 1:
            time = self._time_at_or_after(second)
            if time >= 0:
                return ordinal * _DAY + time
        days = days >> day + 1 << day + 1
        for _ in range(12 * YEARS):
            if days:
                return (start + lowest(days)) * _DAY + self._first
            start += _length(year, month)
            year, month = (year + 1, 1) if month == 12 else (year, month + 1)
            if year > _LAST_YEAR:
                break
            days = self._days(year, month, start)
        return None

    def at_or_before(self, wall: int) -> int | None:
        """Return the last matching wall second <= the given one, within `YEARS`."""
        ordinal, second = divmod(wall, _DAY)
        today = date.fromordinal(ordinal + _EPOCH_ORDINAL)
        year, month, day = today.year, today.month, today.day
        start = ordinal - day
        days = self._days(year, month, start)
        if days >> day & 1:
            time = self._time_at_or_before(second)
            if time >= 0:
                return ordinal * _DAY + time
        days &= (1 << day) - 1
        for _ in range(12 * YEARS):
            if days:
                return (start + highest(days)) * _DAY + self._last
            year, month = (year - 1, 12) if month == 1 else (year, month - 1)
            if year < _FIRST_YEAR:
                break
            start -= _length(year, month)
            days = self._days(year, month, start)
        return None

    def _time_at_or_after(self, time: int) -> int:
        """Return the first matching second of the day >= the given one, or -1."""
        minute, second = divmod(time, 60)
        hour, minute = divmod(minute, 60)
        if self._hours >> hour & 1:
            if self._minutes >> minute & 1:
                seconds = self._seconds >> second
                if seconds:
                    return time + lowest(seconds)
            minutes = self._minutes >> minute + 1
            if minutes:
                return hour * 3600 + (minute + 1 + lowest(minutes)) * 60 + lowest(self._seconds)
        hours = self._hours >> hour + 1
        if not hours:
            return -1
        return (hour + 1 + lowest(hours)) * 3600 + self._first % 3600

    def _time_at_or_before(self, time: int) -> int:
        """Return the last matching second of the day <= the given one, or -1."""
        minute, second = divmod(time, 60)
        hour, minute = divmod(minute, 60)
        if self._hours >> hour & 1:
            if self._minutes >> minute & 1:
                seconds = self._seconds & (2 << second) - 1
                if seconds:
                    return hour * 3600 + minute * 60 + highest(seconds)
            minutes = self._minutes & (1 << minute) - 1
            if minutes:
                return hour * 3600 + highest(minutes) * 60 + highest(self._seconds)
        hours = self._hours & (1 << hour) - 1
        if not hours:
            return -1
        return highest(hours) * 3600 + self._last % 3600

    def _days(self, year: int, month: int, start: int) -> int:
        """Return the matching days of a month as a mask. Bit 1 is the first day; `start` is the day before it."""
        if not self._months >> month & 1:
            return 0
        # 1 January 1970, with `start` -1, was a Thursday.
        return self._mask(_length(year, month), (start + 5) % 7)

    def _mask(self, length: int, first: int) -> int:
        key = (length - 28) * 7 + first
        mask = self._masks[key]
        if mask < 0:
            mask = self._masks[key] = month_days(self._schedule, length, first)
        return mask


@lru_cache(maxsize=1024)
def _masks_for(*fields: object) -> list[int]:
    """Return the masks of schedules with these day fields.

    The schedules share one list, which fills as they are used.
    """
    del fields
    return [-1] * 28


def month_days(schedule: Schedule, length: int, first: int) -> int:
    """Compute the matching days of a month with this length that begins on this weekday (0 is Sunday)."""
    by_day = schedule.days & (2 << length) - 2
    for back in schedule.month_ends:
        if back < length:
            by_day |= 1 << length - back
    for day in schedule.nearest:
        if day <= length:  # nW needs day n in the month
            by_day |= 1 << _nearest_weekday(day, first, length)
    if schedule.is_last_weekday:
        by_day |= 1 << _nearest_weekday(length, first, length)
    by_weekday = 0
    for day in range(1, length + 1):
        weekday = (first + day - 1) % 7
        if (
            schedule.weekdays >> weekday & 1
            or (weekday in schedule.last_weekdays and day + 7 > length)
            or (weekday, (day + 6) // 7) in schedule.nth_weekdays
        ):
            by_weekday |= 1 << day
    return by_day & by_weekday if schedule.is_day_and else by_day | by_weekday


def _nearest_weekday(day: int, first: int, length: int) -> int:
    """Return the Monday to Friday nearest to a day, without leaving the month."""
    weekday = (first + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day


@lru_cache(maxsize=1024)
def _lengths(months: int) -> frozenset[int]:
    """Return the lengths that the months of a mask can have, in days."""
    lengths = {length for month, length in enumerate(_LENGTHS) if months >> month & 1}
    return frozenset(lengths | {29} if months >> 2 & 1 else lengths)


def _length(year: int, month: int) -> int:
    is_leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if is_leap else _LENGTHS[month]


def lowest(mask: int) -> int:
    """Return the number of the lowest bit that is set."""
    return (mask & -mask).bit_length() - 1


def highest(mask: int) -> int:
    """Return the number of the highest bit that is set."""
    return mask.bit_length() - 1
