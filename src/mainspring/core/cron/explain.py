"""A schedule in plain English."""

from __future__ import annotations

from collections.abc import Callable

from mainspring.core.cron.parse import Schedule

_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTH_NAMES = (
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
_SPANS = {"second": 60, "minute": 60, "hour": 24}
_MANY = 8
"""More times of day than this are described as hours and minutes, not listed as clock times."""


def explain(schedule: Schedule) -> str:
    """Return one sentence without a full stop, such as `at 09:00, on Monday through Friday`."""
    parts = [_times(schedule), _days(schedule)]
    months = _values(schedule.months, 1, 12)
    if months is None and not parts[1] and _is_clock(parts[0]):
        parts.append("every day")
    if months:
        parts.append("in " + _join(_runs(months, lambda month: MONTH_NAMES[month - 1])))
    return ", ".join(part for part in parts if part)


def _is_clock(times: str) -> bool:
    return times.startswith("at ") and ":" in times


def _times(schedule: Schedule) -> str:
    seconds, minutes, hours = _bits(schedule.seconds), _bits(schedule.minutes), _bits(schedule.hours)
    if len(seconds) * len(minutes) * len(hours) <= _MANY:
        tail = [""] if seconds == [0] else [f":{second:02}" for second in seconds]
        return "at " + _join(
            [f"{hour:02}:{minute:02}{end}" for hour in hours for minute in minutes for end in tail]
        )
    if seconds == [0]:
        return _within("minute", minutes, "hour", hours)
    if len(minutes) == 60:
        rest = _during("hour", hours)
        return _within("second", seconds, "minute", minutes) + (f", {rest}" if rest else "")
    parts = [_unit("second", seconds), _during("minute", minutes), _during("hour", hours)]
    return ", ".join(part for part in parts if part)


def _within(name: str, values: list[int], outer: str, outers: list[int]) -> str:
    """Describe the values of a unit within values of the next larger unit."""
    text, span = _unit(name, values), _SPANS[outer]
    if text.startswith("every"):
        rest = _during(outer, outers)
        return f"{text}, {rest}" if rest else text
    if len(outers) == span:
        return f"{text} of every {outer}"
    step = outers[1] - outers[0] if len(outers) > 1 else span
    if span % step == 0 and outers == list(range(0, span, step)):
        return f"{text}, every {step} {outer}s"
    return f"{text} of {_named(outer, outers)}"


def _unit(name: str, values: list[int]) -> str:
    span = _SPANS[name]
    if len(values) == span:
        return f"every {name}"
    step = values[1] - values[0] if len(values) > 1 else 0
    # Only a step that divides the span is even. The last step of */7 is shorter, so its values are listed.
    if step > 1 and span % step == 0 and values == list(range(values[0], span, step)):
        start = f" from {name} {values[0]}" if values[0] else ""
        return f"every {step} {name}s{start}"
    return f"at {_named(name, values)}"


def _during(name: str, values: list[int]) -> str:
    return "" if len(values) == _SPANS[name] else f"during {_named(name, values)}"


def _named(name: str, values: list[int]) -> str:
    return f"{name}{'s' if len(values) > 1 else ''} {_join(_runs(values, str))}"


def _days(schedule: Schedule) -> str:
    by_day = _month_days(schedule)
    by_weekday = _weekdays(schedule)
    if by_day and by_weekday:
        if schedule.is_day_and:
            return f"on {by_weekday}, but only on {by_day}"
        return f"on {by_day} or on {by_weekday}"
    if schedule.is_day_and and (by_day or by_weekday):
        return f"on {by_day or by_weekday}"
    return ""  # one field allows every day, and either field is enough


def _month_days(schedule: Schedule) -> str:
    items = []
    days = _values(schedule.days, 1, 31)
    if days is None:
        return ""
    if days:
        items.append(_named("day", days))
    ends = sorted(schedule.month_ends)
    items += ["the last day" if back == 0 else _before_last(back) for back in ends]
    items += [f"the weekday nearest to day {day}" for day in sorted(schedule.nearest)]
    if schedule.is_last_weekday:
        items.append("the last weekday")
    return f"{_join(items)} of the month" if items else ""


def _before_last(back: int) -> str:
    return f"the day {back} day{'s' if back > 1 else ''} before the last"


def _weekdays(schedule: Schedule) -> str:
    items = []
    days = _values(schedule.weekdays, 0, 6)
    if days is None:
        return ""
    if days:
        items += _runs(days, lambda day: _DAYS[day])
    items += [f"the last {_DAYS[day]} of the month" for day in sorted(schedule.last_weekdays)]
    items += [f"the {_NTH[nth]} {_DAYS[day]} of the month" for day, nth in sorted(schedule.nth_weekdays)]
    return _join(items) if items else ""


def _bits(mask: int) -> list[int]:
    return [value for value in range(mask.bit_length()) if mask >> value & 1]


def _values(mask: int, low: int, high: int) -> list[int] | None:
    """Return the values of a mask; None if it has all values."""
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
