"""Which fires of a job its calendars let through, and where they are moved to instead.

The calendars of a job make a trigger of its trigger. Without `roll`, the new one fires at what gets through
(`SievedTrigger`). With it, fires move to another date at their wall time (`RolledTrigger`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from mainspring.core.calendars.resolved import HORIZON, MOST_CHANGES, ResolvedCalendar, next_where
from mainspring.core.calendars.sets import Combined
from mainspring.core.calendars.walls import DAY, epoch_at_wall, from_epoch, to_epoch, wall_at_epoch
from mainspring.core.cron import Cron
from mainspring.core.cron.zones import Zone, load_zone
from mainspring.core.model import Roll
from mainspring.core.triggers import Trigger, UnknownTrigger

_TICK = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_LONG_DAY = timedelta(hours=28)
"""Longer than any day: in a stretch of that length, every wall time is shown."""
_STEPS_BACK = (_DAY, 8 * _DAY, 64 * _DAY, 512 * _DAY, 4096 * _DAY, HORIZON)
REACH = 366
"""Days that a fire may move, at most. Beyond that, it is left out."""
MOST_TRIES = 10_000
"""Fires that are looked at before a search gives up."""
MOST_STUCK = 100
"""Fires that no date lets through, within a search, before it gives up."""
MOST_ROLLED = 24
"""Fires within a day that a job may have whose fires move to another date."""


@dataclass(frozen=True, eq=False)
class Sieve:
    """What the calendars of a job let through: what is in one of `include`, if there are any, and in none of `exclude`.

    Attributes:
        zone: where dates and wall times are those of a fire that moves.
    """

    include: tuple[ResolvedCalendar, ...]
    exclude: tuple[ResolvedCalendar, ...]
    zone: Zone
    roll: Roll | None = None

    def excluded_by(self, instant: datetime) -> str | None:
        """Return `NAME@VERSION` of the calendar that keeps an instant out; None if none does."""
        for calendar in self.exclude:
            if calendar.contains(instant):
                return calendar.label
        if not self.include or any(calendar.contains(instant) for calendar in self.include):
            return None
        return self.include[0].label

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


@dataclass(frozen=True, slots=True)
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
        """Return the last fire that gets through, strictly before an instant; None if there is none in sight."""
        fire = self.raw.previous_before(instant)
        if fire is None or self.sieve.excluded_by(fire) is None:
            return fire
        for back in _STEPS_BACK:
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


@dataclass(frozen=True, slots=True)
class RolledTrigger:
    """Fires where its trigger does, but moves what its sieve keeps out to another date, at its wall time.

    The date is the nearest later one, or the nearest earlier one, at which that wall time gets through. Two fires that
    meet are one.

    Attributes:
        raw: the job's own trigger.
    """

    raw: Trigger
    sieve: Sieve

    def moved(self, fire: datetime) -> datetime | None:
        """Return where a fire of the job's own trigger moves to; itself if it gets through, None if it is left out."""
        if self.sieve.excluded_by(fire) is None:
            return fire
        return _move(self.sieve, fire)

    def origins(self, fire: datetime) -> Iterator[datetime]:
        """Yield the instants from which a fire would move here, the nearest first."""
        step = -DAY if self.sieve.roll is Roll.NEXT else DAY
        for instant in _same_times(self.sieve, fire, step):
            if self.sieve.excluded_by(instant) is None:
                return
            yield instant

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first fire strictly after an instant; None if there is none in sight."""
        is_next = self.sieve.roll is Roll.NEXT
        best = self._best_later(instant) if is_next else None
        fire = self.raw.next_after(instant)
        opened_at: datetime | None = None
        stuck = 0
        for _ in range(MOST_TRIES):
            if fire is None or (is_next and best is not None and fire >= best):
                break
            if (
                opened_at is not None and fire >= opened_at + _LONG_DAY
            ):  # it moves back no further than to then
                break
            target = self.moved(fire)
            if target is None:
                stuck += 1
                opens_at = self.sieve.next_open(fire)
                if opens_at is None or stuck > MOST_STUCK:
                    break
                fire = self.raw.next_after(max(fire, opens_at - timedelta(days=REACH + 2)))
                continue
            if target > instant and (best is None or target < best):
                best = target
            if not is_next and opened_at is None and self._is_long_open(fire):
                opened_at = fire
            if best is not None and fire - timedelta(days=REACH + 2) >= best:
                break
            fire = self.raw.next_after(fire)
        return best

    def _best_later(self, instant: datetime) -> datetime | None:
        """Return the earliest target after an instant, of the fires up to it."""
        best: datetime | None = None
        fire = self.raw.previous_before(instant + _TICK)
        while fire is not None and fire + timedelta(days=REACH + 2) > instant:
            target = self.moved(fire)
            if target is not None and target > instant and (best is None or target < best):
                best = target
            if self._is_long_open(fire) and fire + _LONG_DAY <= instant:
                break
            fire = self.raw.previous_before(fire)
        return best

    def previous_before(self, instant: datetime) -> datetime | None:
        """Return the last fire strictly before an instant; None if there is none in sight."""
        best = self._best_earlier(instant) if self.sieve.roll is Roll.PREVIOUS else None
        fire = self.raw.previous_before(instant)
        reach = timedelta(days=REACH + 2) if self.sieve.roll is Roll.NEXT else timedelta(0)
        for _ in range(MOST_TRIES):
            if fire is None or (best is not None and fire + reach <= best):
                break
            target = self.moved(fire)
            if target is not None and target < instant and (best is None or target > best):
                best = target
            if best is not None and reach and self._is_long_open(fire) and fire + _LONG_DAY <= best:
                break
            fire = self.raw.previous_before(fire)
        return best

    def _best_earlier(self, instant: datetime) -> datetime | None:
        """Return the latest target before an instant, of the fires from it on."""
        best: datetime | None = None
        fire = self.raw.next_after(instant - _TICK)
        opened_at: datetime | None = None
        while fire is not None and fire - timedelta(days=REACH + 2) < instant:
            if opened_at is not None and fire >= opened_at + _LONG_DAY:
                break
            target = self.moved(fire)
            if target is not None and target < instant and (best is None or target > best):
                best = target
            if opened_at is None and self._is_long_open(fire):
                opened_at = fire
            fire = self.raw.next_after(fire)
        return best

    def _is_long_open(self, instant: datetime) -> bool:
        """Say whether a whole day from this instant on gets through."""
        if self.sieve.excluded_by(instant) is not None:
            return False
        closes_at = self.sieve.next_closed(instant)
        return closes_at is None or closes_at >= instant + _LONG_DAY


@lru_cache(maxsize=8192)
def _move(sieve: Sieve, fire: datetime) -> datetime | None:
    """Return the nearest instant at a fire's wall time, on another date, that gets through."""
    step = DAY if sieve.roll is Roll.NEXT else -DAY
    for target in _same_times(sieve, fire, step):
        if sieve.excluded_by(target) is None:
            return target
    return None


def _same_times(sieve: Sieve, fire: datetime, step: int) -> Iterator[datetime]:
    """Yield the instants at a fire's wall time on the dates after it, or before it."""
    rest = fire - from_epoch(to_epoch(fire))
    wall = wall_at_epoch(sieve.zone, to_epoch(fire))
    for _ in range(REACH):
        wall += step
        yield from_epoch(epoch_at_wall(sieve.zone, wall)) + rest


def with_calendars(trigger: Trigger | None, sieve: Sieve | None) -> Trigger | None:
    """Return the trigger of a job with its calendars. A trigger of an unknown type stays as it is."""
    if trigger is None or sieve is None or isinstance(trigger, UnknownTrigger):
        return trigger
    return SievedTrigger(trigger, sieve) if sieve.roll is None else RolledTrigger(trigger, sieve)


def own_trigger(trigger: Trigger) -> Trigger:
    """Return a job's own trigger: of one with calendars, the one beneath."""
    return trigger.raw if isinstance(trigger, SievedTrigger | RolledTrigger) else trigger


def clock_trigger(trigger: Trigger) -> Trigger:
    """Return the trigger whose fires a job's clock goes through: also those that calendars keep out, as records."""
    return trigger.raw if isinstance(trigger, SievedTrigger) else trigger


def make_sieve(
    trigger: Trigger,
    include: tuple[ResolvedCalendar, ...],
    exclude: tuple[ResolvedCalendar, ...],
    roll: Roll | None,
) -> Sieve:
    """Make a sieve. The wall time of a fire is that of the cron expression's zone, else of the first calendar's."""
    zone = load_zone(trigger.tz) if isinstance(trigger, Cron) else (*include, *exclude)[0].zone
    return Sieve(include, exclude, zone, roll)


def is_too_frequent(trigger: Trigger, first: datetime) -> bool:
    """Say whether a trigger fires so often that its fires must not move: more than 24 times in the day from `first`."""
    fire: datetime | None = first
    for _ in range(MOST_ROLLED):
        fire = trigger.next_after(fire) if fire is not None else None
    return fire is not None and fire < first + _DAY
