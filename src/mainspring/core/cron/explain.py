"""A schedule in plain English."""

from __future__ import annotations

from collections.abc import Callable

from mainspring.core.cron.parse import Schedule

_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_NTH = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth"}
_MANY = 8
"""From so many times of day on, hours and minutes are told apart instead of as clock times."""


def explain(schedule: Schedule) -> str:
    """Return one sentence without a full stop, as `at 09:00, on Monday through Friday`."""
    parts = [_times(schedule), _days(schedule)]
    months = _values(schedule.months, 1, 12)
    if months:
        parts.append("in " + _join(_runs(months, lambda month: _MONTHS[month - 1])))
    return ", ".join(part for part in parts if part)


def _times(schedule: Schedule) -> str:
    seconds = _bits(schedule.seconds)
    minutes, hours = _bits(schedule.minutes), _bits(schedule.hours)
    if len(seconds) * len(minutes) * len(hours) <= _MANY:
        has_seconds = seconds != [0]
        times = [
            f"{hour:02}:{minute:02}" + (f":{second:02}" if has_seconds else "")
            for hour in hours
            for minute in minutes
            for second in seconds
        ]
        return "at " + _join(times)
    parts = []
    if seconds != [0]:
        parts.append(_unit("second", seconds, 60))
    if len(minutes) < 60 or seconds == [0]:
        parts.append(_unit("minute", minutes, 60))
    if len(hours) < 24:
        parts.append(_unit("hour", hours, 24))
    return ", ".join(parts)


def _unit(name: str, values: list[int], span: int) -> str:
    if len(values) == span:
        return f"every {name}"
    step = values[1] - values[0] if len(values) > 1 else 0
    is_even = step > 1 and values == list(range(values[0], span, step))
    if is_even and values[0] == 0:
        return (
            f"every {step} {name}s" if span % step == 0 else f"every {step} {name}s, anew each {_UPPER[name]}"
        )
    if is_even:
        return f"every {step} {name}s from {name} {values[0]}"
    return f"at {name} " + _join(_runs(values, str))


_UPPER = {"second": "minute", "minute": "hour", "hour": "day"}


def _days(schedule: Schedule) -> str:
    by_day = _month_days(schedule)
    by_weekday = _weekdays(schedule)
    if by_day and by_weekday:
        return f"{by_day} {'when it is also' if schedule.is_day_and else 'or'} {by_weekday}"
    if schedule.is_day_and:
        return by_day or by_weekday
    return ""  # one side is every day, and either is enough


def _month_days(schedule: Schedule) -> str:
    items = []
    days = _values(schedule.days, 1, 31)
    if days is None:
        return ""
    if days:
        items.append("day " + _join(_runs(days, str)))
    ends = sorted(schedule.month_ends)
    items += ["the last day" if back == 0 else f"{back} days before the last day" for back in ends]
    items += [f"the weekday nearest to day {day}" for day in sorted(schedule.nearest)]
    if schedule.is_last_weekday:
        items.append("the last weekday")
    return f"on {_join(items)} of the month" if items else ""


def _weekdays(schedule: Schedule) -> str:
    items = []
    days = _values(schedule.weekdays, 0, 6)
    if days is None:
        return ""
    if days:
        items += _runs(days, lambda day: _DAYS[day])
    items += [f"the last {_DAYS[day]} of the month" for day in sorted(schedule.last_weekdays)]
    items += [f"the {_NTH[nth]} {_DAYS[day]} of the month" for day, nth in sorted(schedule.nth_weekdays)]
    return "on " + _join(items) if items else ""


def _bits(mask: int) -> list[int]:
    return [value for value in range(mask.bit_length()) if mask >> value & 1]


def _values(mask: int, low: int, high: int) -> list[int] | None:
    """Return the values of a mask; None when it is every one."""
    values = _bits(mask)
    return None if values == list(range(low, high + 1)) else values


def _runs(values: list[int], name: Callable[[int], str]) -> list[str]:
    """Write three or more values in a row as `a through c`."""
    runs: list[list[int]] = []
    for value in values:
        if runs and runs[-1][-1] == value - 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    texts = []
    for run in runs:
        if len(run) > 2:
            texts.append(f"{name(run[0])} through {name(run[-1])}")
        else:
            texts += [name(value) for value in run]
    return texts


def _join(items: list[str]) -> str:
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]
