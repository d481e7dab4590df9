"""The fields of a cron expression and what each may hold (rule V 1 and 2)."""

from __future__ import annotations

from mainspring.core.values import value

MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
DAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@value()
class Field:
    """One field: its name in messages, its range, and the names that stand for numbers.

    Attributes:
        high: the largest number that may be written (7 for the day of the week).
        span: how many different values there are, which is also the largest step.
    """

    name: str
    low: int
    high: int
    span: int
    names: tuple[str, ...] = ()

    def number_of(self, text: str) -> int | None:
        """Return the number that a three-letter name stands for; None if it is not one of this field's names."""
        upper = text.upper()
        return self.names.index(upper) + self.low if upper in self.names else None


SECOND = Field("second", 0, 59, 60)
MINUTE = Field("minute", 0, 59, 60)
HOUR = Field("hour", 0, 23, 24)
DAY_OF_MONTH = Field("day of month", 1, 31, 31)
MONTH = Field("month", 1, 12, 12, MONTH_NAMES)
DAY_OF_WEEK = Field("day of week", 0, 7, 7, DAY_NAMES)

FIVE = (MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK)
SIX = (SECOND, *FIVE)

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class CronError(ValueError):
    """An expression, its zone or its DST rule is refused.

    Attributes:
        field: which part is wrong: a field's name, `expression`, `tz` or `dst`.
        expression: the text that was given, shortened if it is too long.
        message: what is wrong and what would be right, without the field.
    """

    def __init__(self, field: str, expression: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.expression = expression
        self.message = message

    def __reduce__(self) -> tuple[type[CronError], tuple[str, str, str]]:
        return CronError, (self.field, self.expression, self.message)
