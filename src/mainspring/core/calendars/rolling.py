"""Where fires are moved to when a job's calendars keep them out: to another date, at their wall time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from mainspring.core.calendars.openings import REACH, REACH_TIME, OpeningsAhead, OpeningsBehind
from mainspring.core.calendars.sieve import MOST_TRIES, Sieve
from mainspring.core.calendars.walls import DAY, epoch_at_wall, from_epoch, to_epoch, wall_at_epoch
from mainspring.core.cron import Cron
from mainspring.core.cron.zones import MAX_EPOCH, MIN_EPOCH
from mainspring.core.model import Roll
from mainspring.core.triggers import Trigger
from mainspring.core.values import value

_TICK = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_LONG_DAY = timedelta(hours=28)
"""Longer than any day: in a stretch of that length, every wall time is shown."""
_PROBES = tuple(timedelta(hours=hours) for hours in (0, 7, 14, 21))
"""Where a day is looked at first: hours of rest are found sooner than by a search."""
_ROUNDS = 3
_NEAR = 2 * _DAY
"""Further from a clock change, a cron expression fires at its usual wall times."""
_MOST_TIMES = 1000
"""Wall times of which dates are remembered."""
MOST_ROLLED = 24
"""Fires within a day that a job may have whose fires move to another date."""


@value()
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
        rounds, openings = _Rounds(self), OpeningsAhead(self.sieve, instant)
        fire = self.raw.next_after(instant)
        for _ in range(MOST_TRIES):
            if fire is None or (best is not None and fire >= (best if is_next else best + REACH_TIME)):
                break
            target = self.moved(fire)
            is_in_time = False
            if target is not None and target > instant:
                is_in_time = True
                best = target if best is None else min(target, best)
            if best is None:
                fire = openings.skip_from(fire)
            elif not is_next:
                is_done = is_in_time or (target is None and fire >= best)
                fire = rounds.pass_over(fire, is_done=is_done, bound=best)
            fire = fire and self.raw.next_after(fire)
        return best

    def _best_later(self, instant: datetime) -> datetime | None:
        """Return the earliest target after an instant, of the fires up to it."""
        best: datetime | None = None
        rounds = _Rounds(self)
        fire = self.raw.previous_before(instant + _TICK)
        while fire is not None and fire + REACH_TIME > instant:
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
        rounds, openings = _Rounds(self), OpeningsBehind(self.sieve, instant)
        fire = self.raw.previous_before(instant)
        for _ in range(MOST_TRIES):
            if fire is None or (best is not None and fire <= (best - REACH_TIME if is_next else best)):
                break
            target = self.moved(fire)
            is_in_time = False
            if target is not None and target < instant:
                is_in_time = True
                best = target if best is None else max(target, best)
            if best is None:
                fire = openings.skip_from(fire)
            elif is_next:
                is_done = is_in_time or (target is None and fire <= best)
                fire = rounds.pass_over(fire, is_done=is_done, bound=best)
            fire = fire and self.raw.previous_before(fire)
        return best

    def _best_earlier(self, instant: datetime) -> datetime | None:
        """Return the latest target before an instant, of the fires from it on."""
        best: datetime | None = None
        rounds = _Rounds(self)
        fire = self.raw.next_after(instant - _TICK)
        while fire is not None and fire - REACH_TIME < instant:
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

    Of each wall time, the dates that were looked at last are remembered: fires one day apart look at the same ones. The
    fire's own date is not: clocks may show its wall time twice there, and another fire may move to the first of them.
    """
    sign = 1 if sieve.roll is Roll.NEXT else -1
    epoch = to_epoch(fire)
    rest = fire - from_epoch(epoch)
    date, time = divmod(wall_at_epoch(sieve.zone, epoch), DAY)
    first = date * sign + 1  # the dates that come closer have higher numbers, either way
    low, high = sieve.closed.get((time, rest), (0, -1))
    number = first
    target: datetime | None = None
    while number < first + REACH:
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
    sieve.closed[time, rest] = (first, number - 1)
    return target


def _same_times(sieve: Sieve, fire: datetime, step: int) -> Iterator[datetime]:
    """Yield the instants at a fire's wall time on the dates after it, or before it."""
    rest = fire - from_epoch(to_epoch(fire))
    wall = wall_at_epoch(sieve.zone, to_epoch(fire))
    for _ in range(REACH):
        wall += step * DAY
        yield from_epoch(epoch_at_wall(sieve.zone, wall)) + rest


def is_too_frequent(trigger: Trigger, first: datetime) -> bool:
    """Say whether a trigger fires so often that its fires must not move: more than 24 times in the day from `first`."""
    fire: datetime | None = first
    for _ in range(MOST_ROLLED):
        fire = trigger.next_after(fire) if fire is not None else None
    return fire is not None and fire < first + _DAY
