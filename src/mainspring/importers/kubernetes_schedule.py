"""Reads the schedules of Kubernetes' CronJobs by the rules of the library that Kubernetes has, robfig/cron.

They differ from Vixie's cron in the day fields: a step is a restriction, so `0 0 */2 * MON` fires on every odd day
and on every Monday.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mainspring.errors import InvalidInput
from mainspring.importers.cron_text import DAYS, HOURS, MINUTES, MONTHS, WEEKDAYS, write_days, write_values

DST = "skip/both"
"""A time that clocks skip is left out, and one that comes twice fires twice."""
_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS = (
    ("minute", MINUTES),
    ("hour", HOURS),
    ("day of month", DAYS),
    ("month", MONTHS),
    ("day of week", WEEKDAYS),
)
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMES: Mapping[str, Mapping[str, int]] = {
    "month": {name: number for number, name in enumerate(_MONTH_NAMES, start=1)},
    "day of week": {name: number for number, name in enumerate(_WEEKDAY_NAMES)},
}
_ZONE = re.compile(r"(?:CRON_)?TZ=(?P<zone>\S*)\s+(?P<rest>.*)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?(?:h|ms|m|s|us|µs|ns))+")
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?)(h|ms|m|s|us|µs|ns)")


def read_schedule(text: str, tz: str) -> dict[str, Any]:
    """Return the trigger of a schedule, in short form.

    Args:
        text: the field `schedule`.
        tz: the field `timeZone`.

    Raises:
        InvalidInput: Kubernetes would refuse it as well.
    """
    text = text.strip()
    if found := _ZONE.fullmatch(text):
        tz, text = found["zone"], found["rest"].strip()
    if text.startswith("@every "):
        return {"every": _read_every(text.removeprefix("@every ").strip())}
    words = _MACROS.get(text.lower(), text).split()
    if text.startswith("@") and len(words) == 1:
        raise InvalidInput(
            "schedule", f"Kubernetes knows no {text!r}; write one of {', '.join(_MACROS)}, @every 1h"
        )
    if len(words) != len(_FIELDS):
        raise InvalidInput(
            "schedule", f"has {len(words)} fields instead of {len(_FIELDS)}: minute hour day month weekday"
        )
    read = [_read_field(word, name, full) for word, (name, full) in zip(words, _FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = (values for values, _ in read)
    are_free = [is_free for _, is_free in read]
    # A field with `*` is no condition, whatever else it lists.
    day, weekday = write_days(
        set(DAYS) if are_free[2] else days, set(WEEKDAYS) if are_free[4] else weekdays, wants_both=False
    )
    if not are_free[2] and day == "*":  # all days, but listed: then every day fires, whatever its weekday
        weekday = "*"
    if not are_free[4] and weekday == "*":
        day = "*"
    fields = (
        write_values(minutes, MINUTES),
        write_values(hours, HOURS),
        day,
        write_values(months, MONTHS),
        weekday,
    )
    return {"cron": " ".join(fields), "tz": tz, "dst": DST}


def _read_every(text: str) -> float:
    if not _DURATION.fullmatch(text):
        raise InvalidInput("schedule", f"{text!r} is not a duration of Go's; write it like 90m or 1h30m")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    return max(1.0, float(int(seconds)))  # as the library rounds it


def _read_field(text: str, name: str, full: range) -> tuple[set[int], bool]:
    """Return the values of a field, and whether it holds a `*` or `?` without a step."""
    values: set[int] = set()
    is_free = False
    for item in filter(None, text.split(",")):
        first, slash, step_text = item.partition("/")
        step = _number(step_text, name) if slash else 1
        if step < 1:
            raise InvalidInput("schedule", f"{name}: the step of {item!r} must be 1 or more")
        ends = first.split("-")
        if len(ends) > 2:
            raise InvalidInput("schedule", f"{name}: {item!r} has too many hyphens")
        if ends[0] in {"*", "?"}:
            low, high = full[0], full[-1]
            is_free = is_free or step == 1
        else:
            low = _number(ends[0], name)
            high = _number(ends[1], name) if len(ends) == 2 else full[-1] if slash else low
        if low < full[0] or high > full[-1]:
            hint = "; Sunday is 0" if name == "day of week" else ""
            raise InvalidInput("schedule", f"{name}: {item!r} must be within {full[0]} to {full[-1]}{hint}")
        if low > high:
            raise InvalidInput(
                "schedule", f"{name}: {item!r} runs backwards; split it in two, like 22-23,0-2"
            )
        values |= set(range(low, high + 1, step))
    return values, is_free


def _number(text: str, name: str) -> int:
    number = _NAMES.get(name, {}).get(text.lower())
    if number is None and text.isascii() and text.isdigit() and len(text) < 10:
        number = int(text)
    if number is None:
        raise InvalidInput(
            "schedule",
            f"{name}: {text!r} is no number{' or name' if name in _NAMES else ''} that it can hold",
        )
    return number
