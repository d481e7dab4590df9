"""The dates on which an event recurs.

The work is counted, and bounded for a whole file: each period and each date that is looked at counts. dateutil could do
the same, but it does not stop at UNTIL while nothing matches: a daily rule for 30 February takes it seconds.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator
from datetime import date, timedelta

from mainspring.importers.ics.lines import IcsLine
from mainspring.importers.ics.recurrence import Recurrence

_MOST_STEPS = 500_000
"""About a second's work. 10,000 dates of usual rules take a tenth of it."""
_STEPS_OF_PERIOD = 4
_DAY = timedelta(days=1)
_LAST_YEAR = date.max.year - 1


class ExpansionSteps:
    """The work that the rules of one file may still make."""

    __slots__ = ("_left",)

    def __init__(self, most: int = _MOST_STEPS) -> None:
        self._left = most

    def take(self, count: int, line: IcsLine) -> None:
        """Count work on a rule.

        Raises:
            InvalidInput: it is too much.
        """
        self._left -= count
        if self._left < 0:
            line.refuse("with this rule, the events of the file take too long to expand; export fewer years")


def recur(rule: Recurrence, start: date, last: date, steps: ExpansionSteps) -> Iterator[date]:
    """Yield the dates on which an event recurs, in order, the start first: it counts even if the rule does not name it.

    Args:
        last: the last date to return.
        steps: what the rules of the file may still take.
    """
    yield start
    given = 1
    for dates in _periods(rule, start, last, steps):
        for day in dates:
            if day <= start:
                continue
            if day > last or (rule.count is not None and given >= rule.count):
                return
            given += 1
            yield day
        if rule.count is not None and given >= rule.count:
            return


def _periods(rule: Recurrence, start: date, last: date, steps: ExpansionSteps) -> Iterator[list[date]]:
    """Yield the dates of each period, in order."""
    make = _MAKERS[rule.frequency]
    for first in _firsts(rule, start, last):
        candidates = make(rule, first, start)
        steps.take(_STEPS_OF_PERIOD + len(candidates), rule.line)
        dates = sorted(day for day in candidates if _is_kept(rule, day))
        positions = rule.numbers("BYSETPOS")
        if positions and dates:
            size = len(dates)
            dates = [day for at, day in enumerate(dates) if at + 1 in positions or at - size in positions]
        yield dates


def _firsts(rule: Recurrence, start: date, last: date) -> Iterator[date]:
    """Yield the first date of each period that counts."""
    if rule.frequency in {"DAILY", "WEEKLY"}:
        length = rule.interval * (7 if rule.frequency == "WEEKLY" else 1)
        back = (start.weekday() - rule.week_start) % 7 if rule.frequency == "WEEKLY" else 0
        number = max(start.toordinal() - back, 1)
        while number <= last.toordinal():
            yield date.fromordinal(number)
            number += length
        return
    months = rule.interval * (12 if rule.frequency == "YEARLY" else 1)
    month = start.year * 12 + (start.month - 1 if rule.frequency == "MONTHLY" else 0)
    while month // 12 <= min(last.year, _LAST_YEAR):
        yield date(month // 12, month % 12 + 1, 1)
        month += months


def _make_week(rule: Recurrence, first: date, start: date) -> list[date]:
    weekdays = {day for _, day in rule.by_day} or {start.weekday()}
    return [first + _DAY * ((day - rule.week_start) % 7) for day in weekdays]


def _make_month(rule: Recurrence, first: date, start: date) -> list[date]:
    if (months := rule.numbers("BYMONTH")) and first.month not in months:
        return []
    if by_day := rule.numbers("BYMONTHDAY"):
        return _days_of_month(first, by_day)
    return _all_days(first) if rule.by_day else _days_of_month(first, frozenset({start.day}))


def _make_year(rule: Recurrence, first: date, start: date) -> list[date]:
    numbers = rule.numbers("BYMONTHDAY")
    is_broad = bool(rule.by_day or rule.numbers("BYYEARDAY") or rule.numbers("BYWEEKNO"))
    months = sorted(rule.numbers("BYMONTH"))
    if not months:
        months = list(range(1, 13)) if is_broad or numbers else [start.month]
    if not numbers and not is_broad:
        numbers = frozenset({start.day})
    found: list[date] = []
    for month in months:
        begin = first.replace(month=month)
        found += _days_of_month(begin, numbers) if numbers else _all_days(begin)
    if rule.numbers("BYWEEKNO") and not rule.by_day:
        found = [day for day in found if day.weekday() == start.weekday()]
    return found


_MAKERS = {
    "DAILY": lambda _rule, first, _start: [first],
    "WEEKLY": _make_week,
    "MONTHLY": _make_month,
    "YEARLY": _make_year,
}


def _all_days(first: date) -> list[date]:
    number = first.toordinal()
    return [date.fromordinal(number + step) for step in range(monthrange(first.year, first.month)[1])]


def _days_of_month(first: date, numbers: frozenset[int]) -> list[date]:
    length = monthrange(first.year, first.month)[1]
    days = {number if number > 0 else length + 1 + number for number in numbers}
    return [first.replace(day=day) for day in days if 1 <= day <= length]


def _is_kept(rule: Recurrence, day: date) -> bool:
    """Say whether a date of a period fits all parts of a rule."""
    by = rule.by
    if "BYMONTH" in by and day.month not in by["BYMONTH"]:
        return False
    if "BYMONTHDAY" in by:
        length = monthrange(day.year, day.month)[1]
        if by["BYMONTHDAY"].isdisjoint({day.day, day.day - length - 1}):
            return False
    if "BYYEARDAY" in by:
        at, length = _place_in_year(day)
        if by["BYYEARDAY"].isdisjoint({at, at - length - 1}):
            return False
    if "BYWEEKNO" in by and by["BYWEEKNO"].isdisjoint(_weeks(day, rule.week_start)):
        return False
    return not rule.by_day or not rule.by_day.isdisjoint(_weekday_forms(rule, day))


def _place_in_year(day: date) -> tuple[int, int]:
    at = day.timetuple().tm_yday
    return at, date(day.year, 12, 31).timetuple().tm_yday


def _weekday_forms(rule: Recurrence, day: date) -> set[tuple[int, int]]:
    """Return how BYDAY may name a date: `2TU`, `-4TU` and `TU`, of its month or of its year."""
    if rule.frequency == "MONTHLY" or "BYMONTH" in rule.by:
        at, length = day.day, monthrange(day.year, day.month)[1]
    else:
        at, length = _place_in_year(day)
    weekday = day.weekday()
    return {(0, weekday), ((at - 1) // 7 + 1, weekday), (-((length - at) // 7) - 1, weekday)}


def _weeks(day: date, week_start: int) -> set[int]:
    """Return the number of a date's week, and the same counted from the year's last week: the first has four days."""
    begin = day.toordinal() - (day.weekday() - week_start) % 7
    year = date.fromordinal(min(begin + 3, date.max.toordinal())).year
    first, following = _first_week(year, week_start), _first_week(year + 1, week_start)
    number = (begin - first) // 7 + 1
    return {number, number - (following - first) // 7 - 1}


def _first_week(year: int, week_start: int) -> int:
    """Return the number of the day with which the first week of a year begins."""
    fourth = date(year, 1, 4)
    return fourth.toordinal() - (fourth.weekday() - week_start) % 7
