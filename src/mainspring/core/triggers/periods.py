"""The dates of a calendar interval, in wall time: no zones here.

Dates are counted in days since 1970, "wall" seconds as if clocks showed UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cached_property

_DAY = 86_400
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FIRST = date(2, 1, 1).toordinal()
_LAST = date(9998, 1, 1).toordinal()
LAST = 0
"""Stands for the last of a month, where the first is 1."""


@dataclass(frozen=True)
class PeriodDates:
    """Wall times at one time of day, on certain dates of every n-th day, week, month or year from an anchor on.

    Attributes:
        unit: `day`, `week`, `month` or `year`. Weeks begin on Monday.
        count: every how many of them.
        second: the time of day, in seconds.
        anchor: a date of a period that counts; nothing fires before it.
        day: with months and years: the day of the month. In a month that is too short, its last day.
        month: with years: the month, from 1.
        weekdays: with weeks: the days, Monday is 0.
        nth_weekday: with months and years, instead of a day: which weekday of the month, as (nth, weekday); `LAST` is
            the last one.
    """

    unit: str
    count: int
    second: int
    anchor: date
    day: int = 1
    month: int = 1
    weekdays: tuple[int, ...] = ()
    nth_weekday: tuple[int, int] | None = None

    def at_or_after(self, wall: int) -> int | None:
        """Return the first wall second >= the given one; None if it lies beyond the year 9997."""
        day, second = divmod(wall, _DAY)
        start = max(day + _EPOCH_ORDINAL + (second > self.second), self.anchor.toordinal())
        number = self._number(start)
        number += (self._phase - number) % self.count
        while True:
            for found in self._dates(number):
                if found >= _LAST:
                    return None
                if found >= start:
                    return (found - _EPOCH_ORDINAL) * _DAY + self.second
            number += self.count

    def at_or_before(self, wall: int) -> int | None:
        """Return the last wall second <= the given one; None if there is none since the anchor."""
        day, second = divmod(wall, _DAY)
        end = day + _EPOCH_ORDINAL - (second < self.second)
        first = self.anchor.toordinal()
        if end < first:
            return None
        number = self._number(end)
        number -= (number - self._phase) % self.count
        while number >= self._phase:
            for found in reversed(self._dates(number)):
                if first <= found <= end:
                    return (found - _EPOCH_ORDINAL) * _DAY + self.second
            number -= self.count
        return None

    def earlier_anchor(self) -> date:
        """Return the anchor from which the same periods are counted, but from before 1970 on."""
        steps = max(0, (self._phase - self._number(_EPOCH_ORDINAL)) // self.count + 1)
        return date.fromordinal(self._first_of(self._phase - steps * self.count)) if steps else self.anchor

    @cached_property
    def _phase(self) -> int:
        return self._number(self.anchor.toordinal())

    def _number(self, ordinal: int) -> int:
        """Return the number of the period that holds a date."""
        if self.unit == "day":
            return ordinal
        if self.unit == "week":
            return (ordinal - 1) // 7  # ordinal 1 was a Monday
        day = date.fromordinal(min(max(ordinal, _FIRST), _LAST))
        return day.year if self.unit == "year" else day.year * 12 + day.month - 1

    def _first_of(self, number: int) -> int:
        """Return the first date of a period."""
        if self.unit == "day":
            return number
        if self.unit == "week":
            return number * 7 + 1
        year, month = (number, 0) if self.unit == "year" else divmod(number, 12)
        return date(year, month + 1, 1).toordinal() if year <= 9999 else _LAST

    def _dates(self, number: int) -> list[int]:
        """Return the dates of a period, in order."""
        first = self._first_of(number)
        if self.unit == "day" or first >= _LAST:
            return [first]
        if self.unit == "week":
            return [first + weekday for weekday in self.weekdays]
        year, month = (number, self.month - 1) if self.unit == "year" else divmod(number, 12)
        start = date(year, month + 1, 1).toordinal()
        return [start + self._day_of(year, month, start) - 1]

    def _day_of(self, year: int, month: int, start: int) -> int:
        """Return the day of a month, which is given from 0, and its first date."""
        is_leap = month == 1 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        length = 29 if is_leap else _LENGTHS[month]
        if self.nth_weekday is None:
            return min(self.day, length)
        nth, weekday = self.nth_weekday
        if nth != LAST:
            return 1 + (weekday - (start - 1)) % 7 + 7 * (nth - 1)
        return length - ((start - 1 + length - 1) - weekday) % 7
