"""Rates: how often something may start, and the bucket of permits that keeps count."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from math import ceil, floor
from typing import Any, ClassVar

from mainspring.core.kinds import Kind, Schema
from mainspring.core.values import value
from mainspring.errors import InvalidInput

MOST_PER_PERIOD = 1_000_000
_UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_RATE = re.compile(r"([0-9]{1,7})/([smhd])", re.ASCII)


@value()
class Rate:
    """So many starts in each period."""

    count: int
    per: timedelta

    @property
    def text(self) -> str:
        """The rate as a user writes it: `10/s`."""
        unit = next(unit for unit, period in _UNITS.items() if period == self.per)
        return f"{self.count}/{unit}"

    @property
    def usual_burst(self) -> int:
        """How many permits are kept if nothing else is said: those of one second, at least one."""
        return max(ceil(self.count * timedelta(seconds=1) / self.per), 1)


def parse_rate(text: str) -> Rate:
    """Read `10/s`, `100/m`, `5/h` or `1/d`.

    Raises:
        ValueError: it has another form, or the count is out of bounds.
    """
    match = _RATE.fullmatch(text)
    if match is None or not 1 <= int(match[1]) <= MOST_PER_PERIOD:
        raise ValueError(f"must be a count from 1 to {MOST_PER_PERIOD:,} and a unit: 10/s, 100/m, 5/h or 1/d")
    return Rate(int(match[1]), _UNITS[match[2]])


@value()
class Bucket:
    """The permits of one key: they come in at its rate, and each start takes one.

    Attributes:
        burst: the most permits that are kept.
        level: how many there were at `level_at`; None if it was full.
    """

    rate: Rate
    burst: int
    level: float | None = None
    level_at: datetime | None = None

    def at(self, now: datetime) -> Bucket:
        """Return it as it is now. If the clock was further already, no permit has come in since."""
        if self.level is None or self.level_at is None:
            return Bucket(self.rate, self.burst, float(self.burst), now)
        later = max(now, self.level_at)
        come = (later - self.level_at) / self.rate.per * self.rate.count
        return Bucket(self.rate, self.burst, min(self.level + come, float(self.burst)), later)

    @property
    def permits(self) -> int:
        """How many starts it has permits for."""
        # A permit that is there but for a rounding error counts, or a claim at its very instant would get nothing.
        return self.burst if self.level is None else floor(self.level + 1e-9)

    def take(self, count: int) -> Bucket:
        """Return it without so many permits."""
        level = float(self.burst) if self.level is None else self.level
        return Bucket(self.rate, self.burst, level - count, self.level_at)

    def next_permit_at(self) -> datetime | None:
        """Return when it has a permit again; None if it has one."""
        if self.permits > 0 or self.level is None or self.level_at is None:
            return None
        wait = (1 - self.level) / self.rate.count * self.rate.per
        return self.level_at + wait + timedelta(microseconds=1)


@value()
class RateText(Kind):
    """A rate, like `10/s`."""

    metavar: ClassVar[str] = "RATE"
    is_json: ClassVar[bool] = False

    def read(self, value: object, path: str, old: Any) -> Rate:
        """Read a rate; one that was read already stays."""
        del old
        if isinstance(value, Rate):
            return value
        if not isinstance(value, str):
            raise InvalidInput(path, "must be text like 10/s, 100/m, 5/h or 1/d")
        try:
            return parse_rate(value)
        except ValueError as error:
            raise InvalidInput(path, str(error)) from None

    def store(self, value: Rate) -> str:
        """Return its text."""
        return value.text

    def load(self, plain: str) -> Rate:
        """Return the rate."""
        return parse_rate(plain)

    def schema(self) -> Schema:
        """Return a string's schema."""
        return {"type": "string", "pattern": "^[0-9]{1,7}/[smhd]$"}

    def limits(self) -> str:
        """Say its form."""
        return f"1 to {MOST_PER_PERIOD:,} for each `s`, `m`, `h` or `d`: `10/s`"
