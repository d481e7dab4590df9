"""Which fires of a job its calendars let through, and where they are moved to instead.

The calendars of a job make a trigger of its trigger. Without `roll`, the new one fires at what gets through
(`SievedTrigger`). With it, fires move to another date at their wall time (`RolledTrigger`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mainspring.core.calendars.resolved import MOST_CHANGES, ResolvedCalendar, next_where
from mainspring.core.calendars.sets import Combined
from mainspring.core.calendars.walls import DAY, epoch_at_wall, from_epoch, to_epoch, wall_at_epoch
from mainspring.core.cron import Cron
from mainspring.core.cron.zones import MAX_EPOCH, MIN_EPOCH, Zone, load_zone
from mainspring.core.model import Roll
from mainspring.core.triggers import Trigger, UnknownTrigger

_TICK = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_LONG_DAY = timedelta(hours=28)
"""Longer than any day: in a stretch of that length, every wall time is shown."""
_STEPS_BACK = (_DAY, 8 * _DAY, 64 * _DAY, 512 * _DAY, 4096 * _DAY)
REACH = 366
"""Days that a fire may move, at most. Beyond that, it is left out."""
MOST_TRIES = 10_000
"""Fires that are looked at before a search gives up."""
_REACH = timedelta(days=REACH + 2)
MOST_STUCK = 1000
"""Fires that no date lets through, within a search, before it gives up."""
_PROBES = tuple(timedelta(hours=hours) for hours in (0, 7, 14, 21))
"""Where a day is looked at first: hours of rest are found sooner than by a search."""
_ROUNDS = 3
_NEAR = 2 * _DAY
"""Further from a clock change, a cron expression fires at its usual wall times."""
_MOST_TIMES = 1000
"""Wall times of which dates are remembered."""
MOST_ROLLED = 24
"""Fires within a day that a job may have whose fires move to another date."""


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
        """Return the last fire that gets through, strictly before an instant; None if none is for eleven years."""
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
    meet are one. A fire moves no further than to the first date at which its wall time gets through. So a search passes
    a wall time over once it has seen one of its fires find a date on the near side.

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
        step = -1 if self.sieve.roll is Roll.NEXT else 1
        for instant in _same_times(self.sieve, fire, step):
            if self.sieve.excluded_by(instant) is None:
                return
            yield instant

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first fire strictly after an instant; None if there is none in sight."""
        is_next = self.sieve.roll is Roll.NEXT
        best = self._best_later(instant) if is_next else None
        rounds, stuck = _Rounds(self), 0
        fire = self.raw.next_after(instant)
        for _ in range(MOST_TRIES):
            if fire is None or (best is not None and fire >= (best if is_next else best + _REACH)):
                break
            target = self.moved(fire)
            is_in_time = False
            if target is not None and target > instant:
                is_in_time = True
                best = target if best is None else min(target, best)
            if best is not None:
                is_done = is_in_time or (target is None and fire >= best)
                fire = fire if is_next else rounds.pass_over(fire, is_done=is_done, bound=best)
            elif target is None:
                stuck += 1
                opens_at = self.sieve.next_open(fire)
                if opens_at is None or stuck > MOST_STUCK:
                    break
                fire = max(fire, opens_at - (_REACH if is_next else _TICK))
            fire = fire and self.raw.next_after(fire)
        return best

    def _best_later(self, instant: datetime) -> datetime | None:
        """Return the earliest target after an instant, of the fires up to it."""
        best: datetime | None = None
        rounds = _Rounds(self)
        fire = self.raw.previous_before(instant + _TICK)
        while fire is not None and fire + _REACH > instant:
            target = self.moved(fire)
            if target is not None and target > instant and (best is None or target < best):
                best = target
            fire = rounds.pass_over(fire, is_done=target is None or target <= instant, bound=instant)
            fire = fire and self.raw.previous_before(fire)
        return best

    def previous_before(self, instant: datetime) -> datetime | None:
        """Return the last fire strictly before an instant; None if there is none in sight."""
        is_next = self.sieve.roll is Roll.NEXT
        best = None if is_next else self._best_earlier(instant)
        rounds, stuck = _Rounds(self), 0
        fire = self.raw.previous_before(instant)
        for _ in range(MOST_TRIES):
            if fire is None or (best is not None and fire <= (best - _REACH if is_next else best)):
                break
            target = self.moved(fire)
            is_in_time = False
            if target is not None and target < instant:
                is_in_time = True
                best = target if best is None else max(target, best)
            if best is not None:
                is_done = is_in_time or (target is None and fire <= best)
                fire = rounds.pass_over(fire, is_done=is_done, bound=best) if is_next else fire
            elif target is None:
                stuck += 1
                if stuck > MOST_STUCK:
                    break
            fire = fire and self.raw.previous_before(fire)
        return best

    def _best_earlier(self, instant: datetime) -> datetime | None:
        """Return the latest target before an instant, of the fires from it on."""
        best: datetime | None = None
        rounds = _Rounds(self)
        fire = self.raw.next_after(instant - _TICK)
        while fire is not None and fire - _REACH < instant:
            target = self.moved(fire)
            if target is not None and target < instant and (best is None or target > best):
                best = target
            fire = rounds.pass_over(fire, is_done=target is None or target >= instant, bound=instant)
            fire = fire and self.raw.next_after(fire)
        return best

    def is_long_open(self, instant: datetime) -> bool:
        """Say whether a whole day from this instant on gets through, and so every wall time."""
        if any(self.sieve.excluded_by(instant + step) is not None for step in _PROBES):
            return False
        closes_at = self.sieve.next_closed(instant)
        return closes_at is None or closes_at >= instant + _LONG_DAY


class _Rounds:
    """Tells which fires a search, from one to the next, may pass over.

    A cron expression fires at the same wall times on each of its dates. When all of them are done on three dates in a
    row, all others are: of these dates, one may be seen in part, and one may have other times because clocks change.
    What is left are fires that a clock change moves, so the search goes on at the next change.

    With any trigger, a whole day that gets through ends a search on its far side.
    """

    __slots__ = ("_day", "_done", "_is_all", "_is_back", "_is_regular", "_opened", "_streak", "_trigger")

    def __init__(self, trigger: RolledTrigger) -> None:
        self._trigger = trigger
        self._is_back = trigger.sieve.roll is Roll.NEXT
        self._is_regular = isinstance(trigger.raw, Cron)
        self._done: set[int] = set()
        self._day: int | None = None
        self._is_all = True
        self._streak = 0
        self._opened: datetime | None = None

    def pass_over(self, fire: datetime, *, is_done: bool, bound: datetime) -> datetime | None:
        """Note a fire, and return the instant beyond which the search goes on; None if no other fire is needed.

        Args:
            is_done: no fire at its wall time that comes later in the search needs to be looked at.
            bound: what moves to beyond it, seen from here, is not wanted.
        """
        if not self._is_regular:
            return None if self._is_cut_off(fire, bound) else fire
        day, time = divmod(wall_at_epoch(self._trigger.sieve.zone, to_epoch(fire)), DAY)
        if day != self._day:
            self._streak = self._streak + 1 if self._day is not None and self._is_all else 0
            self._day, self._is_all = day, True
        if is_done:
            self._done.add(time)
        self._is_all = self._is_all and time in self._done
        return fire if self._streak < _ROUNDS else self._near_change(fire)

    def _near_change(self, fire: datetime) -> datetime | None:
        """Return an instant ahead of the next clock change in the search, or the fire if it is as close already."""
        segment = self._trigger.sieve.zone.segment(to_epoch(fire))
        if self._is_back:
            return min(fire, from_epoch(segment.start) + _NEAR) if segment.start > MIN_EPOCH else None
        return max(fire, from_epoch(segment.end) - _NEAR) if segment.end < MAX_EPOCH else None

    def _is_cut_off(self, fire: datetime, bound: datetime) -> bool:
        """Say whether what comes next in the search moves no further than into a day that gets through as a whole."""
        trigger = self._trigger
        if self._is_back:
            return fire + _LONG_DAY <= bound and trigger.is_long_open(fire)
        if self._opened is None and fire >= bound and trigger.is_long_open(fire):
            self._opened = fire
        return self._opened is not None and fire >= self._opened + _LONG_DAY


def _move(sieve: Sieve, fire: datetime) -> datetime | None:
    """Return the nearest instant at a fire's wall time, on another date, that gets through.

    Of each wall time, the dates that were looked at last are remembered: fires one day apart look at the same ones.
    """
    sign = 1 if sieve.roll is Roll.NEXT else -1
    epoch = to_epoch(fire)
    rest = fire - from_epoch(epoch)
    date, time = divmod(wall_at_epoch(sieve.zone, epoch), DAY)
    start = date * sign  # the dates that come closer have higher numbers, either way
    low, high = sieve.closed.get((time, rest), (0, -1))
    number = start + 1
    target: datetime | None = None
    while number <= start + REACH:
        if low <= number <= high:
            number = high + 1
            continue
        at = from_epoch(epoch_at_wall(sieve.zone, number * sign * DAY + time)) + rest
        if sieve.excluded_by(at) is None:
            target = at
            break
        number += 1
    if len(sieve.closed) >= _MOST_TIMES:
        sieve.closed.clear()
    sieve.closed[time, rest] = (start, number - 1)
    return target


def _same_times(sieve: Sieve, fire: datetime, step: int) -> Iterator[datetime]:
    """Yield the instants at a fire's wall time on the dates after it, or before it."""
    rest = fire - from_epoch(to_epoch(fire))
    wall = wall_at_epoch(sieve.zone, to_epoch(fire))
    for _ in range(REACH):
        wall += step * DAY
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


def labels_of(trigger: Trigger | None) -> tuple[str, ...]:
    """Return the calendars of a job's trigger, as its sieve names them; none if it has none."""
    return trigger.sieve.labels if isinstance(trigger, SievedTrigger | RolledTrigger) else ()


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
