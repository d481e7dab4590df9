"""Reads the triggers of APScheduler 3, and asks them for their fires."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from datetime import UTC, date, datetime, timedelta
from typing import Any

from mainspring.errors import InvalidInput
from mainspring.importers.cron_text import DAYS, HOURS, MINUTES, MONTHS, WEEKDAYS, write_days, write_values
from mainspring.importers.zones import name_zone

_POSITIONS = ("#1", "#2", "#3", "#4", "#5", "L")
_DAY_NAMES = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_RANGES = {
    "second": MINUTES,
    "minute": MINUTES,
    "hour": HOURS,
    "day": DAYS,
    "month": MONTHS,
    "day_of_week": WEEKDAYS,
}
_MOST_STEPS = 100_000
DST = "after/both"
"""A wall time that comes twice fires twice."""


def read_trigger(trigger: Any) -> dict[str, Any]:
    """Return a trigger as fields of a definition.

    Raises:
        InvalidInput: it says what Mainspring's triggers cannot say.
    """
    from apscheduler.triggers.combining import AndTrigger, OrTrigger
    from apscheduler.triggers.cron import CronTrigger
    from apscheduler.triggers.date import DateTrigger
    from apscheduler.triggers.interval import IntervalTrigger

    kind = type(trigger)
    if kind is DateTrigger:
        return {"run_at": trigger.run_date.isoformat()}
    if kind is IntervalTrigger:
        return _read_interval(trigger)
    if kind is CronTrigger:
        return _read_cron(trigger)
    if kind.__name__ == "CalendarIntervalTrigger":
        return _read_calendar_interval(trigger)
    if kind is OrTrigger:
        return {"any_of": [read_trigger(one) for one in trigger.triggers]}
    if kind is AndTrigger:
        raise InvalidInput(
            "trigger", "fires only where several triggers agree: write it as one cron, or use a calendar"
        )
    message = f"is a {kind.__module__}.{kind.__qualname__}; only APScheduler's own triggers can be imported"
    raise InvalidInput("trigger", message)


def jitter_of(trigger: Any) -> float | None:
    """Return the jitter of a trigger or its parts, in seconds; the largest if there are several."""
    parts = [jitter_of(one) for one in getattr(trigger, "triggers", ())]
    found = [each for each in (getattr(trigger, "jitter", None), *parts) if each]
    return max(found, default=None)


def ask_fires(trigger: Any, now: datetime, count: int) -> tuple[datetime, ...]:
    """Return the next fires after an instant, as a scheduler gets them that was not late; without jitter."""
    one = _without_jitter(trigger)
    fires: list[datetime] = []
    last: datetime | None = None
    for _ in range(_MOST_STEPS):
        fire = one.get_next_fire_time(last, now if last is None else max(now, last.astimezone(UTC)))
        # In UTC, because the two instants of a wall time that comes twice would count as equal.
        if (
            fire is None
            or len(fires) == count
            or (last is not None and fire.astimezone(UTC) <= last.astimezone(UTC))
        ):
            break
        if fire.astimezone(UTC) > now:
            fires.append(fire.astimezone(UTC))
        last = fire
    return tuple(fires)


def _without_jitter(trigger: Any) -> Any:
    one = copy(trigger)
    if hasattr(one, "jitter"):
        one.jitter = None
    if hasattr(one, "triggers"):
        one.triggers = [_without_jitter(each) for each in one.triggers]
    return one


def _read_interval(trigger: Any) -> dict[str, Any]:
    every: timedelta = trigger.interval
    start = trigger.start_date.astimezone(UTC)
    full = {
        "type": "interval",
        "every_seconds": every.total_seconds(),
        "anchor": (start - every).isoformat(),  # the first fire is the start itself
    }
    return {"trigger": full | _window(None, trigger.end_date)}


def _window(start: datetime | None, end: datetime | None) -> dict[str, Any]:
    bounds = {"starts_at": start, "ends_at": end}
    return {field: at.isoformat() for field, at in bounds.items() if at is not None}


def _read_cron(trigger: Any) -> dict[str, Any]:
    fields = {one.name: one.expressions for one in trigger.fields}
    if any(type(each).__name__ != "AllExpression" or each.step for each in fields["week"]):
        raise InvalidInput("week", "weeks of the year cannot be had; use an interval of weeks, or a calendar")
    values = {name: _values(fields[name], name) for name in _RANGES}
    day, weekday = _days(fields["day"], values["day"], values["day_of_week"])
    texts = [
        write_values(values["minute"], MINUTES),
        write_values(values["hour"], HOURS),
        day,
        write_values(values["month"], MONTHS),
        weekday,
    ]
    if values["second"] != {0}:
        texts.insert(0, write_values(values["second"], MINUTES))
    start, end = _years(fields["year"], trigger.timezone)
    starts = [each for each in (start, trigger.start_date) if each is not None]
    ends = [each for each in (end, trigger.end_date) if each is not None]
    window = _window(max(starts, default=None), min(ends, default=None))
    return {"cron": " ".join(texts), "tz": name_zone(trigger.timezone), "dst": DST, **window}


def _values(expressions: Iterable[Any], name: str) -> set[int]:
    """Return the values that a field lists as numbers or names; weekdays are numbered as cron does."""
    full = _RANGES[name]
    values: set[int] = set()
    for each in expressions:
        if type(each).__name__ in {"WeekdayPositionExpression", "LastDayOfMonthExpression"}:
            continue
        low = getattr(each, "first", None)
        high = getattr(each, "last", None)
        low = full[0] if low is None else low
        values |= set(range(low, (full[-1] if high is None else high) + 1, each.step or 1))
    return {(value + 1) % 7 for value in values} if name == "day_of_week" else values


def _days(expressions: Iterable[Any], days: set[int], weekdays: set[int]) -> tuple[str, str]:
    """Return the two day fields."""
    named, has_last = [], False
    for each in expressions:
        if type(each).__name__ == "WeekdayPositionExpression":
            named.append(f"{_DAY_NAMES[each.weekday]}{_POSITIONS[each.option_num]}")
        has_last = has_last or type(each).__name__ == "LastDayOfMonthExpression"
    if not named and not has_last:
        return write_days(days, weekdays, wants_both=True)
    if len(weekdays) < len(WEEKDAYS):
        raise InvalidInput(
            "day", "a position in the month beside day_of_week cannot be had: leave one of them out"
        )
    if len(days) == len(DAYS):
        return "*", "*"
    numbers, _ = write_days(days, set(WEEKDAYS), wants_both=False) if days else ("", "*")
    listed = ",".join(
        filter(None, [",".join(map(str, sorted(days))) if "*" in numbers else numbers, "L" * has_last])
    )
    return listed or "*", ",".join(named) or "*"


def _years(expressions: Iterable[Any], zone: Any) -> tuple[datetime | None, datetime | None]:
    """Return the first and the last instant of the years of a field."""
    parts = list(expressions)
    if any(type(each).__name__ == "AllExpression" and not each.step for each in parts):
        return None, None
    if len(parts) != 1 or parts[0].step or parts[0].first is None:
        raise InvalidInput("year", "must be one year, or years in a row like 2026-2028")
    last = parts[0].last
    end = None if last is None else datetime(last, 12, 31, 23, 59, 59, tzinfo=zone)
    return datetime(parts[0].first, 1, 1, tzinfo=zone), end


def _read_calendar_interval(trigger: Any) -> dict[str, Any]:
    months = trigger.years * 12 + trigger.months
    days = trigger.weeks * 7 + trigger.days
    if months and days:
        raise InvalidInput("trigger", "months and days in one interval cannot be had; choose one of them")
    start: date = trigger.start_date
    if months and start.day > 28:
        message = f"leaves out months without a day {start.day}; here it would be their last day. Choose a day up to 28"
        raise InvalidInput("start_date", message)
    count, unit = (months, "month") if months else (days, "day")
    full = {
        "type": "calendar_interval",
        "every": f"{count} {unit}{'' if count == 1 else 's'}",
        "at": trigger._time.strftime("%H:%M:%S"),
        "tz": name_zone(trigger.timezone),
        "dst": "skip/first",
        "anchor": start.isoformat(),
    }
    if months:
        full["day"] = start.day
    end = trigger.end_date
    last = (
        None if end is None else datetime(end.year, end.month, end.day, 23, 59, 59, tzinfo=trigger.timezone)
    )
    return {"trigger": full | _window(None, last)}
