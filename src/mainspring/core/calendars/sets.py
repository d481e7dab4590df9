"""Sets of instants: spans, weekly hours and yearly dates, and what is made of other sets.

A set answers two questions: whether an instant is in it, and when that may change next. Everything else follows. An
instant is in whole seconds since 1970; every boundary lies on one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache
from typing import Protocol

from mainspring.core.calendars.walls import DAY, epoch_at_wall, wall_at_epoch
from mainspring.core.cron.zones import Zone
from mainspring.core.values import value

WEEK = 7 * DAY
_MONDAY = 4 * DAY
"""Wall seconds of the first Monday after 1 January 1970, a Thursday."""
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_YEARS = 8
"""Within so many years comes the next 29 February."""
_LAST_YEAR = 9990
Span = tuple[int, int]
"""Wall seconds: from the first one up to, but without, the second."""


class TimeSet(Protocol):
    """A set of instants."""

    def holds(self, epoch: int) -> bool:
        """Say whether an instant is in the set."""
        ...

    def change_after(self, epoch: int) -> int | None:
        """Return the next instant, strictly after this one, at which `holds` may change; None if it never does."""
        ...


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, those that touch or overlap made one."""
    merged: list[Span] = []
    for low, high in sorted(spans):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        elif low < high:
            merged.append((low, high))
    return merged


def ordinal_wall(day: date) -> int:
    """Return the wall second at which a date begins."""
    return (day.toordinal() - _EPOCH_ORDINAL) * DAY


def wall_date(wall: int) -> date:
    """Return the date of a wall second."""
    return date.fromordinal(wall // DAY + _EPOCH_ORDINAL)


class Spans:
    """Stretches of wall time in a zone: dates, ranges of dates, and ranges of hours.

    Each lasts from the first time that the clocks show its start to the first time that they show its end.
    """

    __slots__ = ("_epochs", "_highs", "_lows", "_zone")

    def __init__(self, zone: Zone, spans: Iterable[Span]) -> None:
        self._zone = zone
        self._epochs: dict[int, int] = {}  # of the bounds that were asked for
        merged = merge_spans(spans)
        self._lows = [low for low, _ in merged]
        self._highs = [high for _, high in merged]

    def _epoch(self, wall: int) -> int:
        epoch = self._epochs.get(wall)
        if epoch is None:
            epoch = self._epochs[wall] = epoch_at_wall(self._zone, wall)
        return epoch

    def _count(self, epoch: int) -> int:
        """Return how many spans have begun."""
        return bisect_right(self._lows, epoch, key=self._epoch)

    def holds(self, epoch: int) -> bool:
        """Say whether an instant is in one of the spans."""
        begun = self._count(epoch)
        return begun > 0 and epoch < self._epoch(self._highs[begun - 1])

    def change_after(self, epoch: int) -> int | None:
        """Return the next start or end of a span."""
        begun = self._count(epoch)
        if begun and epoch < (end := self._epoch(self._highs[begun - 1])):
            return end
        return self._epoch(self._lows[begun]) if begun < len(self._lows) else None


class Weekly:
    """Hours of the week in a zone.

    Args:
        spans: seconds since Monday, 00:00. One that goes beyond the week's end goes on in the next week.
    """

    __slots__ = ("_is_always", "_spans", "_zone")

    def __init__(self, zone: Zone, spans: Iterable[Span]) -> None:
        self._zone = zone
        self._spans = tuple(merge_spans(spans))
        self._is_always = _covers_week(self._spans)

    def _near(self, epoch: int) -> Spans:
        """Return the spans of the week before, of this one, and of the next."""
        first = (wall_at_epoch(self._zone, epoch) - _MONDAY) // WEEK - 1
        return _weeks(self._zone, self._spans, first)

    def holds(self, epoch: int) -> bool:
        """Say whether an instant is in one of the spans."""
        return self._is_always or self._near(epoch).holds(epoch)

    def change_after(self, epoch: int) -> int | None:
        """Return the next start or end of a span."""
        return None if self._is_always or not self._spans else self._near(epoch).change_after(epoch)


@lru_cache(maxsize=4096)
def _weeks(zone: Zone, spans: tuple[Span, ...], first: int) -> Spans:
    starts = [_MONDAY + number * WEEK for number in range(first, first + 4)]
    return Spans(zone, [(start + low, start + high) for start in starts for low, high in spans])


def _covers_week(spans: Sequence[Span]) -> bool:
    """Say whether the spans, with what of them goes on in the next week, leave no second out."""
    wrapped = [(low - WEEK, high - WEEK) for low, high in spans]
    return any(low <= 0 and high >= WEEK for low, high in merge_spans([*wrapped, *spans]))


@value()
class Yearly:
    """Dates of each year in a zone, as (month, day). 29 February is there in leap years only."""

    zone: Zone
    days: tuple[tuple[int, int], ...]

    def _near(self, epoch: int) -> Spans:
        year = wall_date(wall_at_epoch(self.zone, epoch)).year
        return _years(self.zone, self.days, year)

    def holds(self, epoch: int) -> bool:
        """Say whether an instant lies on one of the dates."""
        return self._near(epoch).holds(epoch)

    def change_after(self, epoch: int) -> int | None:
        """Return the next start or end of one of the dates."""
        return self._near(epoch).change_after(epoch)


@lru_cache(maxsize=1024)
def _years(zone: Zone, days: tuple[tuple[int, int], ...], year: int) -> Spans:
    """Return the dates of the year before, of this one, and of enough years to come."""
    walls = [
        ordinal_wall(date(each, month, day))
        for each in range(max(year - 1, 1), min(year + _YEARS, _LAST_YEAR) + 1)
        for month, day in days
        if (month, day) != (2, 29) or is_leap(each)
    ]
    return Spans(zone, [(wall, wall + DAY) for wall in walls])


def is_leap(year: int) -> bool:
    """Say whether a year has a 29 February."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


@dataclass(frozen=True)
class Combined:
    """What is in one of some sets or in all of some others, but in none of those that are taken away.

    Attributes:
        anyone: what is in one of these is in the set.
        every: what is in all sets of one of these groups is in the set.
        without: what is in one of these is not in the set.
        is_inverted: the set holds just what it would not hold otherwise.
    """

    anyone: tuple[TimeSet, ...]
    every: tuple[tuple[TimeSet, ...], ...] = ()
    without: tuple[TimeSet, ...] = ()
    is_inverted: bool = False

    @cached_property
    def _parts(self) -> tuple[TimeSet, ...]:
        return (*self.anyone, *(part for group in self.every for part in group), *self.without)

    def holds(self, epoch: int) -> bool:
        """Say whether an instant is in the set."""
        is_in = any(part.holds(epoch) for part in self.anyone) or any(
            all(part.holds(epoch) for part in group) for group in self.every
        )
        if is_in and any(part.holds(epoch) for part in self.without):
            is_in = False
        return is_in is not self.is_inverted

    def change_after(self, epoch: int) -> int | None:
        """Return the next instant at which one of the parts may change."""
        changes = [change for part in self._parts if (change := part.change_after(epoch)) is not None]
        return min(changes, default=None)
