"""Recurrence rules (RRULE), as they are written: daily at most."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import NoReturn

from mainspring.core.calendars.spec import WEEKDAYS
from mainspring.core.values import value
from mainspring.importers.ics.lines import IcsLine

_FREQUENCIES = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
_TOO_OFTEN = ("SECONDLY", "MINUTELY", "HOURLY")
_DAYS = {name[:2]: number for number, name in enumerate(WEEKDAYS)}
_BY_DAY = re.compile(r"([+-]?[0-9]{1,2})?(MO|TU|WE|TH|FR|SA|SU)", re.ASCII)
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}", re.ASCII)
_MOST = {"BYMONTH": 12, "BYMONTHDAY": 31, "BYYEARDAY": 366, "BYWEEKNO": 53, "BYSETPOS": 366}
_PARTS = frozenset({"FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", *_MOST})
_NOT_WITH = {
    "BYMONTHDAY": ("WEEKLY",),
    "BYYEARDAY": ("DAILY", "WEEKLY", "MONTHLY"),
    "BYWEEKNO": ("DAILY", "WEEKLY", "MONTHLY"),
}


@value(kw_only=True)
class Recurrence:
    """A rule as it is read. Empty sets say nothing.

    Attributes:
        until: as it is written; None if it is not given.
        by_day: weekdays from 0, Monday; with a number, those of them that count in the month or year, else 0.
        week_start: the weekday with which weeks begin.
    """

    line: IcsLine
    frequency: str
    interval: int = 1
    count: int | None = None
    until: str | None = None
    week_start: int = 0
    by_day: frozenset[tuple[int, int]] = frozenset()
    by: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def numbers(self, part: str) -> frozenset[int]:
        """Return the numbers of BYMONTH and others."""
        return self.by.get(part, frozenset())


def read_recurrence(line: IcsLine) -> Recurrence:
    """Read a rule.

    Raises:
        InvalidInput: it is wrong, or recurs more than once a day.
    """
    parts: dict[str, str] = {}
    for text in line.value.upper().rstrip(";").split(";"):
        name, is_given, value = text.partition("=")
        if name in {"BYHOUR", "BYMINUTE", "BYSECOND"}:
            line.refuse(f"{name} is not supported: an event may recur once a day at most")
        if name not in _PARTS or not is_given or name in parts:
            line.refuse(f"must be like FREQ=YEARLY;COUNT=3, each part once; {text[:60]!r} does not fit")
        parts[name] = value
    frequency = parts.get("FREQ", "")
    if frequency in _TOO_OFTEN:
        line.refuse(f"FREQ={frequency} is not supported: an event may recur once a day at most")
    if frequency not in _FREQUENCIES:
        line.refuse(f"FREQ must be one of {', '.join(_FREQUENCIES)}")
    if "COUNT" in parts and "UNTIL" in parts:
        line.refuse("has COUNT and UNTIL; only one of them may be given")
    by = {name: _read_numbers(line, name, parts[name], most) for name, most in _MOST.items() if name in parts}
    for name in by:
        if frequency in _NOT_WITH.get(name, ()):
            line.refuse(f"{name} does not go with FREQ={frequency}")
    week_start = parts.get("WKST", "MO")
    if week_start not in _DAYS:
        line.refuse(f"WKST must be one of {', '.join(_DAYS)}")
    rule = Recurrence(
        line=line,
        frequency=frequency,
        interval=_read_count(line, "INTERVAL", parts.get("INTERVAL", "1")),
        count=_read_count(line, "COUNT", parts["COUNT"]) if "COUNT" in parts else None,
        until=parts.get("UNTIL"),
        week_start=_DAYS[week_start],
        by_day=_read_days(line, parts["BYDAY"]) if "BYDAY" in parts else frozenset(),
        by=by,
    )
    _check_days(rule)
    return rule


def _check_days(rule: Recurrence) -> None:
    has_numbers = any(number for number, _ in rule.by_day)
    if has_numbers and (rule.frequency not in {"MONTHLY", "YEARLY"} or rule.numbers("BYWEEKNO")):
        rule.line.refuse("BYDAY with numbers goes with months and years only")
    if rule.numbers("BYSETPOS") and len(rule.by) == 1 and not rule.by_day:
        rule.line.refuse("BYSETPOS needs another part, like BYDAY, of which it picks")


def _read_numbers(line: IcsLine, name: str, text: str, most: int) -> frozenset[int]:
    found: set[int] = set()
    lowest = 1 if name == "BYMONTH" else -most
    for part in text.split(","):
        number = int(part) if _NUMBER.fullmatch(part) else 0
        if not lowest <= number <= most or number == 0:
            _refuse_part(line, name, f"numbers from {lowest} to {most}, without 0", part)
        found.add(number)
    return frozenset(found)


def _read_days(line: IcsLine, text: str) -> frozenset[tuple[int, int]]:
    found: set[tuple[int, int]] = set()
    for part in text.split(","):
        match = _BY_DAY.fullmatch(part)
        number = int(match[1] or 0) if match else 0
        if match is None or abs(number) > 53 or (match[1] and not number):
            _refuse_part(line, "BYDAY", "days like MO, 2TU or -1FR", part)
        found.add((number, _DAYS[match[2]]))
    return frozenset(found)


def _read_count(line: IcsLine, name: str, text: str) -> int:
    number = int(text) if _NUMBER.fullmatch(text) else 0
    if number < 1:
        _refuse_part(line, name, "a whole number from 1 to 999999999", text)
    return number


def _refuse_part(line: IcsLine, name: str, right: str, given: str) -> NoReturn:
    line.refuse(f"{name} must be {right}, not {given[:60]!r}")
