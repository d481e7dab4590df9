"""Parses an expression into bit masks, or into an error that names the field (rule V 1 to 4)."""

from __future__ import annotations

from mainspring.core.cron.fields import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    FIVE,
    MACROS,
    SIX,
    CronError,
    Field,
)
from mainspring.core.values import value

MAX_LENGTH = 256
_MAX_DIGITS = 4
_BLANKS = " \t"
_PLAIN = {
    field.name: {
        "*": sum(1 << value for value in range(field.low, field.low + field.span)),
        **{str(value): 1 << value for value in range(field.low, field.high + 1)},
    }
    for field in SIX
}
"""Ready masks for what most fields hold: `*`, or one number."""


@value(kw_only=True)
class Schedule:
    """A parsed expression: bit n of a mask is set where the value n matches.

    Attributes:
        texts: the fields as written, seconds first (`0` where there are five).
        weekdays: bit 0 is Sunday.
        month_ends: n for each `L-n` (0 for `L`).
        nearest: n for each `nW`.
        is_last_weekday: `LW`.
        last_weekdays: x for each `xL`.
        nth_weekdays: (x, n) for each `x#n`.
        is_day_and: both day fields must match (one of them begins with `*` or is `?`).
        is_wild: a time field begins with `*`, so the schedule follows real time through clock changes.
    """

    texts: tuple[str, ...]
    seconds: int
    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    month_ends: frozenset[int]
    nearest: frozenset[int]
    is_last_weekday: bool
    last_weekdays: frozenset[int]
    nth_weekdays: frozenset[tuple[int, int]]
    is_day_and: bool
    is_wild: bool


def parse(expression: str) -> Schedule:
    """Parse an expression.

    Raises:
        CronError: it breaks rule V.
    """
    texts = _split(expression)
    fields = SIX if len(texts) == 6 else FIVE
    reader = _Reader(expression)
    masks = [reader.read(field, text) for field, text in zip(fields, texts, strict=True)]
    minutes, hours, days, months, weekdays = masks[-5:]
    *times, day, _, weekday = texts
    return Schedule(
        texts=tuple(texts) if len(texts) == 6 else ("0", *texts),
        seconds=masks[0] if len(texts) == 6 else 1,
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=_sunday_is_zero(weekdays),
        month_ends=frozenset(reader.month_ends),
        nearest=frozenset(reader.nearest),
        is_last_weekday=reader.is_last_weekday,
        last_weekdays=frozenset(reader.last_weekdays),
        nth_weekdays=frozenset(reader.nth_weekdays),
        is_day_and=day.startswith(("*", "?")) or weekday.startswith(("*", "?")),
        is_wild=any(text.startswith("*") for text in times),
    )


def _split(expression: str) -> list[str]:
    if len(expression) > MAX_LENGTH:
        raise CronError("expression", expression[:MAX_LENGTH], f"longer than {MAX_LENGTH} characters")
    if not (expression.isascii() and expression.replace("\t", " ").isprintable()):
        char = next(char for char in expression if char != "\t" and not " " <= char <= "~")
        message = f"{char!r} is not allowed; write plain ASCII, with blanks between the fields"
        raise CronError("expression", expression, message)
    text = expression.strip(_BLANKS)
    if text.startswith("@"):
        text = _macro(expression, text)
    fields = [field for field in text.replace("\t", " ").split(" ") if field]
    if fields and fields[0].upper().startswith(("TZ=", "CRON_TZ=")):
        message = f"{fields[0]!r}: the zone is not part of the expression; give it as tz"
        raise CronError("expression", expression, message)
    if len(fields) not in {5, 6}:
        raise CronError("expression", expression, _count_message(expression, fields))
    return fields


def _count_message(expression: str, fields: list[str]) -> str:
    if not fields:
        return f"{expression!r} is empty; write five fields, or six with seconds first"
    right = "five are minute hour day-of-month month day-of-week, six have seconds first"
    year = "; there is no year field, use a one-off (run_at) instead" if len(fields) == 7 else ""
    return f"{expression!r} has {len(fields)} field{'s' if len(fields) > 1 else ''}; {right}{year}"


def _macro(expression: str, text: str) -> str:
    known = MACROS.get(text.lower())
    if known is not None:
        return known
    if text.lower() == "@reboot":
        message = (
            "'@reboot' is not a time; give it as the schedule of a job (schedule), which then fires at start"
        )
    elif text.lower().startswith("@every"):
        message = f"{text!r} is not cron; use an interval (every) instead"
    else:
        message = f"{text!r} is not one of {', '.join(sorted(MACROS))}"
    raise CronError("expression", expression, message)


def _sunday_is_zero(mask: int) -> int:
    return (mask | mask >> 7) & 0x7F


class _Reader:
    """Reads the fields of one expression, and collects what a mask cannot hold."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self.month_ends: set[int] = set()
        self.nearest: set[int] = set()
        self.is_last_weekday = False
        self.last_weekdays: set[int] = set()
        self.nth_weekdays: set[tuple[int, int]] = set()

    def read(self, field: Field, text: str) -> int:
        """Return the field's mask."""
        plain = _PLAIN[field.name].get(text)
        if plain is not None:
            return plain
        if text == "?":
            if field not in {DAY_OF_MONTH, DAY_OF_WEEK}:
                raise self._error(field, text, "`?` is allowed in the day fields only; write *")
            text = "*"
        mask = 0
        for item in text.split(","):
            if not item:
                raise self._error(
                    field, text, "an item of the list is empty; write one comma between two items"
                )
            mask |= self._item(field, item)
        return mask

    def _item(self, field: Field, item: str) -> int:
        if field is DAY_OF_MONTH and self._special_day(item):
            return 0
        if field is DAY_OF_WEEK and self._special_weekday(item):
            return 0
        body, slash, step_text = item.partition("/")
        step = self._step(field, item, step_text) if slash else 1
        if body == "*":
            low, high = field.low, field.low + field.span - 1
        elif "-" in body:
            low_text, _, high_text = body.partition("-")
            low, high = self._value(field, low_text, item), self._value(field, high_text, item)
            if field is DAY_OF_WEEK and high == 0 and low > 0 and not high_text.isdigit():
                high = 7  # MON-SUN
            if low > high:
                right = f"{low}-{field.high},{field.low}-{high}"
                raise self._error(field, item, f"the range runs backwards; write {right}")
        else:
            low = high = self._value(field, body, item)
            if slash:
                high = field.high  # N/step is N-max/step; a week that starts later than Sunday ends with 7
        return sum(1 << value for value in range(low, high + 1, step))

    def _step(self, field: Field, item: str, text: str) -> int:
        step = self._digits(field, text, item)
        if not 1 <= step <= field.span:
            raise self._error(field, item, f"the step must be 1 to {field.span}")
        return step

    def _value(self, field: Field, text: str, item: str) -> int:
        named = field.number_of(text)
        if named is not None:
            return named
        value = self._digits(field, text, item)
        if not field.low <= value <= field.high:
            raise self._error(field, item, f"{value} is not between {field.low} and {field.high}")
        return value

    def _digits(self, field: Field, text: str, item: str) -> int:
        if not text.isdigit() or len(text) > _MAX_DIGITS:
            allowed = f" or a name like {field.names[0]}" if field.names else ""
            message = f"{text!r} is not a number of at most {_MAX_DIGITS} digits{allowed}"
            raise self._error(field, item, message)
        return int(text)

    def _special_day(self, item: str) -> bool:
        upper = item.upper()
        if upper in {"L", "LW"}:
            self.is_last_weekday |= "W" in upper
            self.month_ends |= {0} if upper == "L" else set()
        elif upper.startswith("L-"):
            offset = self._digits(DAY_OF_MONTH, upper[2:], item)
            if not 1 <= offset <= 30:
                raise self._error(
                    DAY_OF_MONTH, item, "L-n counts back 1 to 30 days from the last day, which is L"
                )
            self.month_ends.add(offset)
        elif upper.endswith("W"):
            self.nearest.add(self._value(DAY_OF_MONTH, upper[:-1], item))
        else:
            return False
        return True

    def _special_weekday(self, item: str) -> bool:
        upper = item.upper()
        if "#" in upper:
            name, _, nth_text = upper.partition("#")
            day = self._value(DAY_OF_WEEK, name, item) % 7
            if nth_text == "L":
                self.last_weekdays.add(day)
                return True
            nth = self._digits(DAY_OF_WEEK, nth_text, item)
            if not 1 <= nth <= 5:
                raise self._error(DAY_OF_WEEK, item, "x#n counts 1 to 5; write xL for the last")
            self.nth_weekdays.add((day, nth))
            return True
        if upper == "L":
            raise self._error(DAY_OF_WEEK, item, "write which day, like 5L for the last Friday of the month")
        if upper.endswith("L"):
            self.last_weekdays.add(self._value(DAY_OF_WEEK, upper[:-1], item) % 7)
            return True
        return False

    def _error(self, field: Field, item: str, message: str) -> CronError:
        return CronError(field.name, self._expression, f"{item!r}: {message}")
