"""A calendar that is ready to be asked: its rules bound to its zone and to the versions of calendars that it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mainspring.core.calendars.sets import Combined, Spans, TimeSet, Weekly, Yearly
from mainspring.core.calendars.spec import CalendarRef, CalendarSpec
from mainspring.core.calendars.walls import from_epoch, to_epoch
from mainspring.core.cron.zones import Zone, load_zone
from mainspring.core.values import value

HORIZON = timedelta(days=36_600)
"""How far ahead is searched: a hundred years, as for cron expressions."""
MOST_CHANGES = 20_000
"""Changes of a calendar after which a search gives up: more than a hundred years of weekends have."""


@value()
class CalendarVersion:
    """One kept version of a calendar. It never changes.

    Attributes:
        resolved: the version of each calendar that its rules name without one, as it was the newest then.
        is_deleted: the calendar was deleted. What refers to the version by its number can still read it.
    """

    tenant: str
    name: str
    version: int
    spec: CalendarSpec
    resolved: Mapping[str, int] = field(hash=False)
    created_at: datetime
    is_deleted: bool = False

    @property
    def label(self) -> str:
        """`NAME@VERSION`."""
        return f"{self.name}@{self.version}"

    def key_of(self, ref: CalendarRef) -> tuple[str, int]:
        """Return name and version of a calendar that the rules name."""
        return ref.name, self.resolved[ref.name] if ref.version is None else ref.version

    def named(self) -> list[tuple[str, int]]:
        """Return name and version of every calendar that the rules name."""
        return [self.key_of(ref) for ref in self.spec.refs()]


@dataclass(frozen=True, slots=True, eq=False)
class ResolvedCalendar:
    """A calendar's instants, in terms of datetimes.

    Attributes:
        label: `NAME@VERSION`.
    """

    label: str
    zone: Zone
    times: TimeSet

    def contains(self, instant: datetime) -> bool:
        """Say whether an instant is in the calendar."""
        return self.times.holds(to_epoch(instant))

    def next_inside(self, instant: datetime) -> datetime | None:
        """Return the first instant in the calendar from this one on, itself included; None within a hundred years."""
        return next_where(self.times, instant, is_in=True)

    def next_outside(self, instant: datetime) -> datetime | None:
        """Return the first instant outside the calendar from this one on; None within a hundred years."""
        return next_where(self.times, instant, is_in=False)


def next_where(times: TimeSet, instant: datetime, *, is_in: bool) -> datetime | None:
    """Return the first instant from this one on that a set holds, or does not hold; None if the search gives up."""
    epoch = to_epoch(instant)
    if times.holds(epoch) is is_in:
        return instant
    limit = epoch + int(HORIZON.total_seconds())
    for _ in range(MOST_CHANGES):
        change = times.change_after(epoch)
        if change is None or change > limit:
            return None
        if times.holds(change) is is_in:
            return from_epoch(change)
        epoch = change
    return None


def resolve(
    version: CalendarVersion, find: Callable[[tuple[str, int]], ResolvedCalendar]
) -> ResolvedCalendar:
    """Make a calendar that can be asked.

    Args:
        find: returns the calendars that its rules name, by name and version.
    """
    spec, zone = version.spec, load_zone(version.spec.tz)

    def named(refs: tuple[CalendarRef, ...]) -> tuple[TimeSet, ...]:
        return tuple(find(version.key_of(ref)).times for ref in refs)

    own: list[TimeSet] = []
    if spans := [span for rule in spec.rules for span in rule.spans]:
        own.append(Spans(zone, spans))
    if weekly := [span for rule in spec.rules for span in rule.weekly]:
        own.append(Weekly(zone, weekly))
    if days := sorted({rule.yearly for rule in spec.rules if rule.yearly is not None}):
        own.append(Yearly(zone, tuple(days)))
    own += (times for rule in spec.rules for times in named(rule.union))
    every = tuple(named(rule.intersect) for rule in spec.rules if rule.intersect)
    without = tuple(times for rule in spec.rules for times in named(rule.minus))
    return ResolvedCalendar(
        version.label, zone, Combined(tuple(own), every, without, is_inverted=spec.is_inverted)
    )
