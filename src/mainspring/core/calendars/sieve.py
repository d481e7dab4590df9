"""Which fires of a job its calendars let through.

The calendars of a job make a trigger of its trigger. Without `roll`, the new one fires at what gets through
(`SievedTrigger`). With it, fires move to another date (`rolling.RolledTrigger`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mainspring.core.calendars.resolved import MOST_CHANGES, ResolvedCalendar, next_where
from mainspring.core.calendars.sets import Combined
from mainspring.core.cron.zones import Zone, load_zone
from mainspring.core.model import Roll
from mainspring.core.triggers import Trigger, zone_name
from mainspring.core.values import value

_TICK = timedelta(microseconds=1)
_DAY = timedelta(days=1)
STEPS_BACK = (_DAY, 8 * _DAY, 64 * _DAY, 512 * _DAY, 4096 * _DAY)
"""How far a search goes back at a time, when nothing gets through for long."""
MOST_TRIES = 10_000
"""Fires that are looked at before a search gives up."""


@dataclass(frozen=True, eq=False)
class Sieve:
    """What the calendars of a job let through: what is in one of `include`, if there are any, and in none of `exclude`.

    Attributes:
        zone: where dates and wall times are those of a fire that moves.
        closed: of a wall time, the numbers of dates at which it is known not to get through; see `_move`.
    """

    include: tuple[ResolvedCalendar, ...]
    exclude: tuple[ResolvedCalendar, ...]
    zone: Zone
    roll: Roll | None = None
    closed: dict[tuple[int, timedelta], tuple[int, int]] = field(default_factory=dict)

    def excluded_by(self, instant: datetime) -> str | None:
        """Return `NAME@VERSION` of the calendar that keeps an instant out; None if none does."""
        for calendar in self.exclude:
            if calendar.contains(instant):
                return calendar.label
        if not self.include or any(calendar.contains(instant) for calendar in self.include):
            return None
        return self.include[0].label

    @property
    def labels(self) -> tuple[str, ...]:
        """What it includes, then what it excludes, each as `NAME@VERSION`."""
        return tuple(calendar.label for calendar in (*self.include, *self.exclude))

    def _times(self) -> Combined:
        without = tuple(calendar.times for calendar in self.exclude)
        if self.include:
            return Combined(tuple(calendar.times for calendar in self.include), without=without)
        return Combined(without, is_inverted=True)

    def next_open(self, instant: datetime) -> datetime | None:
        """Return the first instant from this one on that gets through; None if the search gives up."""
        return next_where(self._times(), instant, is_in=True)

    def next_closed(self, instant: datetime) -> datetime | None:
        """Return the first instant from this one on that does not get through; None if the search gives up."""
        return next_where(self._times(), instant, is_in=False)


def make_sieve(
    trigger: Trigger,
    include: tuple[ResolvedCalendar, ...],
    exclude: tuple[ResolvedCalendar, ...],
    roll: Roll | None,
) -> Sieve:
    """Make a sieve. The wall time of a fire is that of the trigger's zone, else of the first calendar's."""
    name = zone_name(trigger)
    zone = load_zone(name) if name is not None else (*include, *exclude)[0].zone
    return Sieve(include, exclude, zone, roll)


@value()
class SievedTrigger:
    """Fires where its trigger does, at instants that its sieve lets through.

    Attributes:
        raw: the job's own trigger.
    """

    raw: Trigger
    sieve: Sieve

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first fire that gets through, strictly after an instant; None if there is none in sight."""
        fire = self.raw.next_after(instant)
        for _ in range(MOST_TRIES):
            if fire is None or self.sieve.excluded_by(fire) is None:
                return fire
            opens_at = self.sieve.next_open(fire)
            if opens_at is None:
                return None
            fire = self.raw.next_after(opens_at - _TICK)
        return None

    def previous_before(self, instant: datetime) -> datetime | None:
        """Return the last fire that gets through, strictly before an instant; None if none is for eleven years."""
        fire = self.raw.previous_before(instant)
        if fire is None or self.sieve.excluded_by(fire) is None:
            return fire
        for back in STEPS_BACK:
            for opens_at, closes_at in reversed(self._openings(fire, back)):
                found = self.raw.previous_before(closes_at)
                if found is not None and found >= opens_at:
                    return found
        return None

    def _openings(self, fire: datetime, back: timedelta) -> list[tuple[datetime, datetime]]:
        """Return the stretches that get through, of the time before a fire that does not."""
        found: list[tuple[datetime, datetime]] = []
        try:
            opens_at = self.sieve.next_open(fire - back)
        except OverflowError:
            return found
        while opens_at is not None and opens_at < fire and len(found) < MOST_CHANGES:
            closes_at = self.sieve.next_closed(opens_at)
            assert closes_at is not None, "the fire itself does not get through"
            found.append((opens_at, closes_at))
            opens_at = self.sieve.next_open(closes_at)
        return found
