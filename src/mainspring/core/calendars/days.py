"""Tells which days a calendar holds, for people."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from mainspring.core.calendars.resolved import ResolvedCalendar
from mainspring.core.calendars.sets import ordinal_wall, wall_date
from mainspring.core.calendars.walls import DAY, epoch_at_wall, to_epoch, wall_at_epoch
from mainspring.core.values import value
from mainspring.errors import InvalidInput

MOST_DAYS = 3700
"""Days that are looked at for one answer: ten years."""
_USUAL = timedelta(days=365)
_MOST_HOURS = 48
"""Stretches of one day that are shown."""


@value(kw_only=True)
class CalendarDay:
    """A date that a calendar holds, wholly or in part.

    Attributes:
        hours: from when to when, as clocks in the calendar's zone show it; empty for a whole day.
    """

    day: date
    hours: tuple[tuple[str, str], ...] = ()


def list_days(
    calendar: ResolvedCalendar, from_date: date | None, to_date: date | None, *, now: datetime
) -> list[CalendarDay]:
    """Return the dates from one to another, both included, that a calendar holds at least in part.

    Args:
        from_date: None is today in the calendar's zone.
        to_date: None is a year later.
        now: the instant of the request.

    Raises:
        InvalidInput: the range is empty or too long.
    """
    first = from_date or wall_date(wall_at_epoch(calendar.zone, to_epoch(now)))
    last = to_date or first + _USUAL
    if last < first:
        raise InvalidInput("to", "must not be before from")
    if (last - first).days >= MOST_DAYS:
        raise InvalidInput("to", f"must be at most {MOST_DAYS} days after from")
    found: list[CalendarDay] = []
    for number in range((last - first).days + 1):
        day = first + timedelta(days=number)
        wall = ordinal_wall(day)
        low, high = (epoch_at_wall(calendar.zone, each) for each in (wall, wall + DAY))
        spans = _stretches(calendar, low, high)
        if spans == [(low, high)] and low < high:
            found.append(CalendarDay(day=day))
        elif spans:
            hours = tuple((_clock(calendar, a), _clock(calendar, b, is_end=b == high)) for a, b in spans)
            found.append(CalendarDay(day=day, hours=hours))
    return found


def _stretches(calendar: ResolvedCalendar, low: int, high: int) -> list[tuple[int, int]]:
    """Return what the calendar holds of the instants from `low` up to `high`."""
    found: list[tuple[int, int]] = []
    at: int | None = low
    while at is not None and at < high and len(found) < _MOST_HOURS:
        change = calendar.times.change_after(at)
        end = high if change is None else min(change, high)
        if calendar.times.holds(at):
            if found and found[-1][1] == at:
                found[-1] = (found[-1][0], end)
            else:
                found.append((at, end))
        at = change
    return found


def _clock(calendar: ResolvedCalendar, epoch: int, *, is_end: bool = False) -> str:
    if is_end:
        return "24:00"
    second = wall_at_epoch(calendar.zone, epoch) % DAY
    text = f"{second // 3600:02}:{second // 60 % 60:02}"
    return f"{text}:{second % 60:02}" if second % 60 else text
