"""Definitions of calendars: what users write, checked, and what a version keeps.

A calendar is the union of its rules, without what a `minus` takes away, in a time zone of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from mainspring.core.calendars.sets import Span, ordinal_wall
from mainspring.core.calendars.walls import DAY
from mainspring.core.cron import CronError
from mainspring.core.cron.zones import load_zone
from mainspring.core.fields import check_known, kind, read_bool, read_mapping, read_text, read_word
from mainspring.core.values import value
from mainspring.errors import InvalidInput

MOST_RULES = 10_000
MOST_WEEKLY = 200
MOST_NAMES = 50
"""Calendars that one calendar may name."""
MOST_NOTE = 200
WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_MOST_VERSION = 1_000_000_000
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_WALL = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?", re.ASCII)
_TIME = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2}))?", re.ASCII)
_YEARLY = re.compile(r"([0-9]{2})-([0-9]{2})", re.ASCII)
_FIRST_YEAR, _LAST_YEAR = 1970, 9000
_FORMS = "date, from and to, yearly, weekly, union, intersect, minus"


@dataclass(frozen=True, slots=True, order=True)
class CalendarRef:
    """A calendar by its name, or one version of it by `NAME@VERSION`."""

    name: str
    version: int | None = None

    def __str__(self) -> str:
        return self.name if self.version is None else f"{self.name}@{self.version}"


@value(kw_only=True)
class CalendarRule:
    """One rule of a calendar.

    Attributes:
        plain: the rule as it is kept and shown.
        spans: wall seconds since 1970.
        weekly: seconds since Monday, 00:00.
        yearly: month and day.
        union, intersect, minus: the calendars that it names, by what is made of them.
    """

    plain: Mapping[str, Any] = field(hash=False)
    spans: tuple[Span, ...] = ()
    weekly: tuple[Span, ...] = ()
    yearly: tuple[int, int] | None = None
    union: tuple[CalendarRef, ...] = ()
    intersect: tuple[CalendarRef, ...] = ()
    minus: tuple[CalendarRef, ...] = ()


@value(kw_only=True)
class CalendarSpec:
    """A calendar as its user defines it.

    Attributes:
        tz: the zone in which dates begin and hours are told.
        is_inverted: the calendar holds just what its rules do not.
    """

    tz: str
    rules: tuple[CalendarRule, ...]
    is_inverted: bool = False

    def refs(self) -> list[CalendarRef]:
        """Return the calendars that its rules name, each once, in order."""
        named = (ref for rule in self.rules for ref in (*rule.union, *rule.intersect, *rule.minus))
        return list(dict.fromkeys(named))

    def plain(self) -> dict[str, Any]:
        """Return the full form: what is kept, and what `GET` shows."""
        return {"tz": self.tz, "rules": [dict(rule.plain) for rule in self.rules], "invert": self.is_inverted}


def read_calendar(body: Mapping[str, Any]) -> CalendarSpec:
    """Read a calendar's definition.

    Raises:
        InvalidInput: a field is wrong; its path and what would be right are in the error.
    """
    read_mapping(body, "body")
    check_known(body, ("tz", "rules", "invert"))
    tz = read_text(body.get("tz", "UTC"), "tz", longest=64)
    try:
        load_zone(tz)
    except CronError as error:
        raise InvalidInput("tz", error.message) from None
    given = body.get("rules")
    if not isinstance(given, list | tuple) or not 1 <= len(given) <= MOST_RULES:
        raise InvalidInput("rules", f"must be a list of 1 to {MOST_RULES:,} rules")
    rules = tuple(_read_rule(rule, f"rules[{number}]") for number, rule in enumerate(given))
    if sum(1 for rule in rules if rule.weekly) > MOST_WEEKLY:
        raise InvalidInput("rules", f"has more than {MOST_WEEKLY} weekly rules; one may name several days")
    if all(rule.minus for rule in rules):
        raise InvalidInput("rules", "only take away; add a rule that says from what")
    spec = CalendarSpec(tz=tz, rules=rules, is_inverted=read_bool(body.get("invert", False), "invert"))
    if len(spec.refs()) > MOST_NAMES:
        raise InvalidInput("rules", f"name more than {MOST_NAMES} calendars")
    return spec


def _read_rule(value: object, path: str) -> CalendarRule:
    rule = read_mapping(value, path)
    found = [form for form in _READERS if form in rule]
    if not found:
        raise InvalidInput(path, f"must have one of {_FORMS}")
    form = found[0]
    read, companions = _READERS[form]
    if len(found) > 1 and not (form == "weekly" and found[1:] == ["from"]):
        raise InvalidInput(f"{path}.{found[1]}", f"is a rule of its own beside {form!r}; make two rules")
    check_known(rule, (form, *companions, "note"), prefix=f"{path}.")
    note = {}
    if rule.get("note") is not None:
        note = {"note": read_text(rule["note"], f"{path}.note", longest=MOST_NOTE)}
    return read(rule, path, note)


def _read_date_rule(rule: Mapping[str, Any], path: str, note: dict[str, Any]) -> CalendarRule:
    day = _read_date(rule["date"], f"{path}.date")
    wall = ordinal_wall(day)
    return CalendarRule(plain={"date": day.isoformat(), **note}, spans=((wall, wall + DAY),))


def _read_range(rule: Mapping[str, Any], path: str, note: dict[str, Any]) -> CalendarRule:
    if "to" not in rule:
        raise InvalidInput(f"{path}.to", "is missing; it goes with from")
    low, high = rule["from"], rule["to"]
    if isinstance(low, str) and "T" in low:
        start, end = _read_wall(low, f"{path}.from"), _read_wall(high, f"{path}.to")
        span = (_wall_second(start), _wall_second(end))
        texts = (start.isoformat(), end.isoformat())
        if end <= start:
            raise InvalidInput(f"{path}.to", "must be later than from")
    else:
        first, last = _read_date(low, f"{path}.from"), _read_date(high, f"{path}.to")
        span = (ordinal_wall(first), ordinal_wall(last) + DAY)
        texts = (first.isoformat(), last.isoformat())
        if last < first:
            raise InvalidInput(f"{path}.to", "must not be before from; it is the last day")
    return CalendarRule(plain={"from": texts[0], "to": texts[1], **note}, spans=(span,))


def _read_yearly(rule: Mapping[str, Any], path: str, note: dict[str, Any]) -> CalendarRule:
    value = rule["yearly"]
    match = _YEARLY.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        try:
            day = date(2000, int(match[1]), int(match[2]))  # a leap year
        except ValueError:
            pass
        else:
            return CalendarRule(plain={"yearly": value, **note}, yearly=(day.month, day.day))
    raise InvalidInput(f"{path}.yearly", f"must be a month and a day like '12-25', not {_shown(value)}")


def _read_weekly(rule: Mapping[str, Any], path: str, note: dict[str, Any]) -> CalendarRule:
    given = rule["weekly"]
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, list | tuple) or not 1 <= len(given) <= 7:
        raise InvalidInput(f"{path}.weekly", "must be a list of days like ['SAT', 'SUN'] or ['MON-FRI']")
    texts: list[str] = []
    days: set[int] = set()
    for number, item in enumerate(given):
        text, numbers = _read_weekdays(item, f"{path}.weekly[{number}]")
        texts.append(text)
        days |= numbers
    plain: dict[str, Any] = {"weekly": texts}
    low, high = 0, DAY
    if "from" in rule or "to" in rule:
        if "from" not in rule or "to" not in rule:
            missing = "to" if "from" in rule else "from"
            raise InvalidInput(f"{path}.{missing}", "is missing; from and to go together")
        low, high = _read_time(rule["from"], f"{path}.from"), _read_time(rule["to"], f"{path}.to")
        if low in (high, DAY):
            raise InvalidInput(f"{path}.to", "must differ from from; leave both out for whole days")
        plain |= {"from": rule["from"], "to": rule["to"]}
        high += DAY if high < low else 0
    weekly = tuple((day * DAY + low, day * DAY + high) for day in sorted(days))
    return CalendarRule(plain=plain | note, weekly=weekly)


def _read_names(form: str) -> Callable[[Mapping[str, Any], str, dict[str, Any]], CalendarRule]:
    def read(rule: Mapping[str, Any], path: str, note: dict[str, Any]) -> CalendarRule:
        given = rule[form]
        if isinstance(given, str):
            given = [given]
        if not isinstance(given, list | tuple) or not 1 <= len(given) <= MOST_NAMES:
            raise InvalidInput(f"{path}.{form}", f"must be a list of 1 to {MOST_NAMES} calendars")
        refs = tuple(read_ref(item, f"{path}.{form}[{number}]") for number, item in enumerate(given))
        plain = {form: [str(ref) for ref in refs], **note}
        if form == "union":
            return CalendarRule(plain=plain, union=refs)
        if form == "intersect":
            return CalendarRule(plain=plain, intersect=refs)
        return CalendarRule(plain=plain, minus=refs)

    return read


_READERS: Mapping[
    str, tuple[Callable[[Mapping[str, Any], str, dict[str, Any]], CalendarRule], tuple[str, ...]]
] = {
    "date": (_read_date_rule, ()),
    "yearly": (_read_yearly, ()),
    "weekly": (_read_weekly, ("from", "to")),
    "union": (_read_names("union"), ()),
    "intersect": (_read_names("intersect"), ()),
    "minus": (_read_names("minus"), ()),
    "from": (_read_range, ("to",)),
}


def read_ref(value: object, path: str) -> CalendarRef:
    """Read `NAME` or `NAME@VERSION`."""
    if not isinstance(value, str):
        raise InvalidInput(path, f"must be a calendar's name, or NAME@VERSION, not {kind(value)}")
    name, at, version = value.partition("@")
    read_word(name, path)
    if not at:
        return CalendarRef(name)
    if not (version.isascii() and version.isdigit() and 1 <= int(version[:12]) <= _MOST_VERSION):
        raise InvalidInput(
            path, f"must be a calendar's name, or NAME@VERSION like {name}@1, not {_shown(value)}"
        )
    return CalendarRef(name, int(version[:12]))


def _read_date(value: object, path: str) -> date:
    if isinstance(value, str) and _DATE.fullmatch(value):
        try:
            day = date.fromisoformat(value)
        except ValueError:
            pass
        else:
            if _FIRST_YEAR <= day.year <= _LAST_YEAR:
                return day
            raise InvalidInput(path, f"must lie in the years {_FIRST_YEAR} to {_LAST_YEAR}")
    raise InvalidInput(path, f"must be a date like '2026-12-24', not {_shown(value)}")


def _read_wall(value: object, path: str) -> datetime:
    if isinstance(value, str) and _WALL.fullmatch(value):
        try:
            wall = datetime.fromisoformat(value)
        except ValueError:
            pass
        else:
            if _FIRST_YEAR <= wall.year <= _LAST_YEAR:
                return wall
    right = "a time in the calendar's zone like '2026-12-24T22:00'"
    raise InvalidInput(path, f"must be {right}, not {_shown(value)}")


def _wall_second(wall: datetime) -> int:
    return ordinal_wall(wall.date()) + wall.hour * 3600 + wall.minute * 60 + wall.second


def _read_time(value: object, path: str) -> int:
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        hour, minute, second = (int(part or 0) for part in match.groups())
        seconds = hour * 3600 + minute * 60 + second
        if minute < 60 and second < 60 and seconds <= DAY:
            return seconds
    raise InvalidInput(path, f"must be a time of day from '00:00' to '24:00', not {_shown(value)}")


def _read_weekdays(value: object, path: str) -> tuple[str, set[int]]:
    text = value.upper() if isinstance(value, str) else ""
    first, dash, last = text.partition("-")
    if first in WEEKDAYS and (last in WEEKDAYS if dash else True):
        low = WEEKDAYS.index(first)
        length = (WEEKDAYS.index(last) - low) % 7 if dash else 0
        return text, {(low + step) % 7 for step in range(length + 1)}
    raise InvalidInput(
        path, f"must be one of {', '.join(WEEKDAYS)}, or a range like MON-FRI, not {_shown(value)}"
    )


def _shown(value: object) -> str:
    return repr(value[:60]) if isinstance(value, str) else kind(value)
