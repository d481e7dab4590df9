"""Kinds of values for wall time: zones, times of day, days of months, weekdays, calendar periods, dates."""

from __future__ import annotations

import re
from datetime import date, time
from typing import Any, ClassVar, NamedTuple

from mainspring.core.cron.fields import DAY_NAMES, MONTH_NAMES
from mainspring.core.fields import kind
from mainspring.core.kinds import Kind, Schema
from mainspring.core.options import Option
from mainspring.core.triggers.periods import LAST
from mainspring.core.values import value
from mainspring.errors import InvalidInput

UNITS = {"day": 3650, "week": 520, "month": 120, "year": 10}
"""Units of calendar periods, and how many of each there may be."""
WEEK = (*DAY_NAMES[1:], DAY_NAMES[0])
"""Names of weekdays, from Monday on."""
NTHS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "last": LAST}
_PERIOD = re.compile(r"(?:([0-9]{1,4})\s*)?(day|week|month|year)s?", re.ASCII)
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?", re.ASCII)


class Period(NamedTuple):
    """So many days, weeks, months or years."""

    number: int
    unit: str

    def __str__(self) -> str:
        return f"{self.number} {self.unit}{'s' if self.number > 1 else ''}"


class Weekdays(NamedTuple):
    """Weekdays from Monday, 0; `nth` is None for those of a week, else which of the month: `LAST` is the last."""

    days: tuple[int, ...]
    nth: int | None = None

    def __str__(self) -> str:
        names = ",".join(WEEK[day] for day in self.days)
        return names if self.nth is None else f"{nth_name(self.nth)} {names}"


def nth_name(nth: int) -> str:
    """Return the word for an `nth`."""
    return next(name for name, number in NTHS.items() if number == nth)


def _shown(value: object) -> str:
    return repr(value[:60]) if isinstance(value, str) else kind(value)


@value()
class CheckedText(Kind):
    """Text that its trigger checks as a whole, and says what is wrong with it."""

    right: str
    metavar: ClassVar[str] = "TEXT"
    is_json: ClassVar[bool] = False

    def read(self, value: object, path: str, old: Any) -> str:
        """Read text."""
        del old
        if not isinstance(value, str):
            raise InvalidInput(path, f"must be {self.right}, not {kind(value)}")
        return value

    def schema(self) -> Schema:
        """Return a string's schema."""
        return {"type": "string"}

    def limits(self) -> str:
        """Say what it is."""
        return self.right


@value()
class _TextForm(Kind):
    """What is kept as text."""

    metavar: ClassVar[str] = "TEXT"
    is_json: ClassVar[bool] = False
    right: ClassVar[str]

    def store(self, value: Any) -> Any:
        """Return its text."""
        return str(value)

    def load(self, plain: Any) -> Any:
        """Read its text."""
        return self.read(plain, "", None)

    def schema(self) -> Schema:
        """Return a string's schema."""
        return {"type": "string"}

    def limits(self) -> str:
        """Say what it is."""
        return self.right


@value()
class CalendarPeriod(_TextForm):
    """A number of days, weeks, months or years."""

    right: ClassVar[str] = "text like `3 months`: up to 3650 days, 520 weeks, 120 months or 10 years"

    def read(self, value: object, path: str, old: Any) -> Period:
        """Read a period."""
        del old
        found = _PERIOD.fullmatch(value.strip().lower()) if isinstance(value, str) else None
        if found is None:
            shown = _shown(value)
            raise InvalidInput(path, f"must be days, weeks, months or years, like '3 months', not {shown}")
        count, unit = int(found[1] or 1), found[2]
        if not 1 <= count <= UNITS[unit]:
            raise InvalidInput(path, f"must be 1 to {UNITS[unit]} {unit}s, not {count}")
        return Period(count, unit)


@value()
class TimeOfDay(_TextForm):
    """A time on the clock."""

    metavar: ClassVar[str] = "TIME"
    right: ClassVar[str] = "a time like `09:00` or `17:30:15`"

    def read(self, value: object, path: str, old: Any) -> time:
        """Read a time."""
        del old
        if isinstance(value, time) and value.tzinfo is None and not value.microsecond:
            return value
        found = _TIME.fullmatch(value) if isinstance(value, str) else None
        if found is not None:
            hour, minute, second = (int(part or 0) for part in found.groups())
            if hour < 24 and minute < 60 and second < 60:
                return time(hour, minute, second)
        raise InvalidInput(path, f"must be a time of day like 09:00 or 17:30:15, not {_shown(value)}")

    def store(self, value: time) -> str:
        """Return its text, without seconds where there are none."""
        return value.isoformat() if value.second else value.isoformat("minutes")


@value()
class _NumberOrWord(Kind):
    """A number, or a word that stands for one; kept as a number."""

    is_json: ClassVar[bool] = False

    def from_text(self, text: str, path: str) -> int | str:
        """Read digits; a word is for `read`."""
        del path
        return int(text) if text.isascii() and text.isdigit() and len(text) < 4 else text

    def stored_schema(self) -> Schema:
        """Return a number's schema."""
        return {"type": "integer"}


@value()
class DayOfMonth(_NumberOrWord):
    """A day of the month; 31 is the last one of every month."""

    metavar: ClassVar[str] = "DAY"

    def read(self, value: object, path: str, old: Any) -> int:
        """Read a number or `last`."""
        del old
        if value == "last":
            return 31
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 31:
            shown = str(value) if isinstance(value, int) and abs(value) < 10**9 else _shown(value)
            raise InvalidInput(path, f"must be a day from 1 to 31, or 'last', not {shown}")
        return value

    def schema(self) -> Schema:
        """Return the schema of a number or the word."""
        return {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 31}, {"const": "last"}]}

    def limits(self) -> str:
        """Say its bounds."""
        return "1 to 31, or `last`"


@value()
class MonthOfYear(_NumberOrWord):
    """A month by number or name, kept as a number."""

    metavar: ClassVar[str] = "MONTH"

    def read(self, value: object, path: str, old: Any) -> int:
        """Read a number or a name."""
        del old
        if isinstance(value, str) and value[:3].upper() in MONTH_NAMES and value.isalpha():
            return MONTH_NAMES.index(value[:3].upper()) + 1
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 12:
            shown = str(value) if isinstance(value, int) and abs(value) < 10**9 else _shown(value)
            raise InvalidInput(path, f"must be a month from 1 to 12, or a name like MAR, not {shown}")
        return value

    def schema(self) -> Schema:
        """Return the schema of a number or a name."""
        return {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 12}, {"type": "string"}]}

    def limits(self) -> str:
        """Say its bounds."""
        return "1 to 12, or `JAN` to `DEC`"


@value()
class WeekdayNames(_TextForm):
    """Weekdays of a week, or one of a month."""

    metavar: ClassVar[str] = "DAY"
    right: ClassVar[str] = (
        "`MON` or `MON,THU` with weeks; `first MON` to `fourth MON`, or `last MON`, otherwise"
    )

    def read(self, value: object, path: str, old: Any) -> Weekdays:
        """Read names."""
        del old
        if isinstance(value, str) and len(value) <= 60:
            words = value.upper().replace(",", " ").split()
            nth = NTHS.get(words[0].lower()) if words else None
            names = words[1:] if nth is not None else words
            if names and all(name in WEEK for name in names) and (nth is None or len(names) == 1):
                return Weekdays(tuple(sorted({WEEK.index(name) for name in names})), nth)
        shown = _shown(value)
        raise InvalidInput(path, f"must be like 'MON', 'MON,THU', 'first MON' or 'last FRI', not {shown}")


@value()
class CalendarDate(_TextForm):
    """A date."""

    metavar: ClassVar[str] = "DATE"
    right: ClassVar[str] = "a date like `2026-12-24`, of the years 1970 to 9000"

    def read(self, value: object, path: str, old: Any) -> date:
        """Read a date."""
        del old
        try:
            if (
                isinstance(value, str)
                and len(value) == 10
                and 1970 <= (day := date.fromisoformat(value)).year <= 9000
            ):
                return day
        except ValueError:
            pass
        raise InvalidInput(path, f"must be a date like 2026-12-24, of 1970 to 9000, not {_shown(value)}")


TZ = Option(
    name="tz",
    kind=CheckedText("an IANA name like Europe/Berlin"),
    summary="The time zone of wall times, like Europe/Berlin.",
    default="UTC",
    elsewhere="write an instant's offset in run_at",
    example="Europe/Berlin",
)
DST = Option(
    name="dst",
    kind=CheckedText("'vixie' or GAP/OVERLAP"),
    summary="What becomes of fixed times when clocks change: vixie, or GAP/OVERLAP.",
    default="vixie",
    example="skip/both",
)
