"""Kinds of values for times: durations and instants."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, ClassVar

import mainspring.core.fields as read
from mainspring.core.kinds import Kind, Schema, number_of
from mainspring.core.values import value
from mainspring.errors import InvalidInput

_REMEMBERED = 1024
"""How many durations are cached and shared: most definitions use the same few, and a scheduler holds many."""


@lru_cache(maxsize=_REMEMBERED)
def to_seconds(duration: timedelta) -> int | float:
    """Return whole seconds as an int, others as the float that converts back to the same duration."""
    whole, rest = divmod(duration, timedelta(seconds=1))
    return whole if not rest else duration / timedelta(seconds=1)


@lru_cache(maxsize=_REMEMBERED)
def from_seconds(seconds: float) -> timedelta:
    """Return the duration of this many seconds."""
    return timedelta(microseconds=round(seconds * 1_000_000))


@value()
class Duration(Kind):
    """An amount of time: seconds, or text like `90s`. In the full form it is seconds, and the field's name says so.

    Attributes:
        too_short: why values below `low` are refused, for the message.
    """

    low: timedelta = timedelta(0)
    high: timedelta = 30 * read.DAY
    too_short: str = ""
    metavar: ClassVar[str] = "DURATION"
    is_json: ClassVar[bool] = False

    def forms(self, name: str) -> tuple[str, ...]:
        """Return the name, and the name with its unit."""
        return name, f"{name}_seconds"

    def from_text(self, text: str, path: str) -> int | float | str:
        """Read a number of seconds; other text is for `read`."""
        return number_of(text)

    def read(self, value: object, path: str, old: Any) -> timedelta:
        """Read a duration."""
        del old
        low = timedelta(0) if self.too_short else self.low
        duration = read.read_duration(value, path, low=low, high=self.high)
        if duration < self.low:
            message = f"must be at least {read.show(self.low)}, not {read.show(duration)}; {self.too_short}"
            raise InvalidInput(path, message)
        return duration

    def store(self, value: timedelta) -> int | float:
        """Return its seconds."""
        return to_seconds(value)

    def load(self, plain: float) -> timedelta:
        """Return the duration of the seconds."""
        return from_seconds(plain)

    def show(self, value: timedelta) -> str:
        """Return its text."""
        return read.show(value)

    def schema(self) -> Schema:
        """Return the schema of seconds or text."""
        return {
            "anyOf": [{"type": "number"}, {"type": "string"}],
            "examples": ["90s", 90],
        }

    def stored_schema(self) -> Schema:
        """Return the schema of seconds."""
        return {"type": "number"}

    def limits(self) -> str:
        """Describe its bounds."""
        return f"{read.show(self.low)} to {read.show(self.high)}"


@value()
class Durations(Kind):
    """A list of durations."""

    most: int

    def forms(self, name: str) -> tuple[str, ...]:
        """Return the name, and the name with its unit."""
        return Duration().forms(name)

    def read(self, value: object, path: str, old: Any) -> tuple[timedelta, ...]:
        """Read a list of durations."""
        del old
        if not isinstance(value, list | tuple) or len(value) > self.most:
            raise InvalidInput(path, f"must be a list of at most {self.most} durations")
        return tuple(read.read_duration(item, f"{path}[{n}]") for n, item in enumerate(value))

    def store(self, value: tuple[timedelta, ...]) -> list[int | float]:
        """Return seconds."""
        return [to_seconds(item) for item in value]

    def load(self, plain: list[float]) -> tuple[timedelta, ...]:
        """Return the durations."""
        return tuple(from_seconds(item) for item in plain)

    def schema(self) -> Schema:
        """Return a list's schema."""
        return {"type": "array", "maxItems": self.most, "items": Duration().schema()}

    def stored_schema(self) -> Schema:
        """Return the schema of a list of seconds."""
        return {"type": "array", "maxItems": self.most, "items": Duration().stored_schema()}

    def limits(self) -> str:
        """Describe how many there may be."""
        return f"at most {self.most}, each {Duration().limits()}"


@value()
class Instant(Kind):
    """An instant: ISO 8601 with an offset; kept in UTC."""

    metavar: ClassVar[str] = "INSTANT"
    is_json: ClassVar[bool] = False

    def read(self, value: object, path: str, old: Any) -> datetime:
        """Read an instant."""
        del old
        return read.read_instant(value, path)

    def store(self, value: datetime) -> str:
        """Return its text."""
        return value.isoformat()

    def load(self, plain: str) -> datetime:
        """Return the instant."""
        return datetime.fromisoformat(plain)

    def schema(self) -> Schema:
        """Return the schema of an instant's text."""
        return {"type": "string", "format": "date-time"}

    def limits(self) -> str:
        """Describe its form."""
        return "ISO 8601 with an offset, of the years 1970 to 9000"


def write_instant(instant: datetime) -> str:
    """Return an instant in UTC for a sentence: `2026-11-25T12:00:00.000Z`."""
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")
