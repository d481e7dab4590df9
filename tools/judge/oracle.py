"""Computes fire times in the slow and plain way. It shares no code with the planner or the cron engine.

For an expression, it tests every second; for an interval, it adds the intervals up; for a calendar interval, it looks
at every day. It understands only what the workloads use: numbers, `*`, ranges, steps and lists in UTC. Anything else is
refused with a `ValueError`, because an oracle that guesses makes false accusations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mainspring.core.cron import Cron
from mainspring.core.triggers import Interval, Once, Trigger

if TYPE_CHECKING:
    from mainspring.core.model import Roll  # earlier releases, whose workers import this, do not have it


@dataclass(frozen=True, slots=True)
class ClosedFires:
    """A trigger with a calendar that keeps its fires out of some windows: from an instant up to, but without, another.

    A calendar is read in a way of its own here, too: it is nothing but such windows, in UTC.

    Attributes:
        roll: what is kept out moves day by day, later or earlier, until it is in no window. None: it is left out.
    """

    own: Trigger
    windows: tuple[tuple[datetime, datetime], ...]
    roll: Roll | None = None

    def next_after(self, instant: datetime) -> datetime | None:
        """Refuse: an oracle is asked for all fires of a period."""
        raise NotImplementedError

    def previous_before(self, instant: datetime) -> datetime | None:
        """Refuse likewise."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Starts:
    """The trigger of a job at start, with the instants at which the cluster started."""

    instants: tuple[datetime, ...]

    def next_after(self, instant: datetime) -> datetime | None:
        """Refuse: an oracle is asked for all fires of a period."""
        raise NotImplementedError

    def previous_before(self, instant: datetime) -> datetime | None:
        """Refuse likewise."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Ends:
    """The trigger of a job that fires at a delay after the end of the run before, with its fires on record.

    It stays the same by another delay: an edit that meets a fire that is due leaves it to the new version.
    """

    delay: timedelta = field(compare=False)
    instants: tuple[datetime, ...]

    def next_after(self, instant: datetime) -> datetime | None:
        """Refuse: an oracle is asked for all fires of a period."""
        raise NotImplementedError

    def previous_before(self, instant: datetime) -> datetime | None:
        """Refuse likewise."""
        raise NotImplementedError


def is_closed(trigger: Trigger | None, at: datetime) -> bool:
    """Say whether a calendar keeps a fire out, and it does not move."""
    return isinstance(trigger, ClosedFires) and trigger.roll is None and _is_in(trigger.windows, at)


def is_moved(trigger: Trigger | None, at: datetime) -> bool:
    """Say whether a fire is there only because a calendar has moved another one."""
    return isinstance(trigger, ClosedFires) and not expected_fires(trigger.own, at - _TICK, at)


def every_fire(trigger: Trigger | None, after: datetime, through: datetime) -> list[datetime]:
    """Return what `expected_fires` does, and the fires that a calendar keeps out, if they do not move."""
    if isinstance(trigger, ClosedFires) and trigger.roll is None:
        trigger = trigger.own
    return expected_fires(trigger, after, through)


def _is_in(windows: tuple[tuple[datetime, datetime], ...], at: datetime) -> bool:
    return any(low <= at < high for low, high in windows)


_TICK = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_FURTHEST = 366
"""Days that a fire moves, at most."""
_SECOND = timedelta(seconds=1)
_BOUNDS = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def expected_fires(trigger: Trigger | None, after: datetime, through: datetime) -> list[datetime]:
    """Return every instant t of a trigger with `after < t <= through`, in order."""
    if trigger is None or through <= after:
        return []
    if isinstance(trigger, ClosedFires):
        if trigger.roll is not None:
            return _move_all(trigger, after, through)
        return [at for at in expected_fires(trigger.own, after, through) if not is_closed(trigger, at)]
    if isinstance(trigger, Once):
        return [trigger.at] if after < trigger.at <= through else []
    if isinstance(trigger, Starts | Ends):
        return [at for at in trigger.instants if after < at <= through]
    if isinstance(trigger, Interval):
        return _add_up(trigger, after, through)
    if isinstance(trigger, Cron):
        return _try_seconds(trigger, after, through)
    return _composed(trigger, after, through)


def _composed(trigger: Any, after: datetime, through: datetime) -> list[datetime]:
    """Return the fires of triggers that earlier releases, whose workers import this, do not have."""
    kind = type(trigger).__name__
    if kind == "AnyOf":
        return sorted({at for part in trigger.triggers for at in expected_fires(part, after, through)})
    if kind == "Windowed":
        low, high = trigger.starts_at or after, trigger.ends_at or through
        return [at for at in expected_fires(trigger.raw, after, through) if low <= at <= high]
    if kind == "CalendarInterval":
        return _look_at_days(trigger, after, through)
    raise ValueError(f"the oracle knows no {kind}")


def _look_at_days(trigger: Any, after: datetime, through: datetime) -> list[datetime]:
    if trigger.tz != "UTC" or trigger.every.unit not in {"day", "week"}:
        raise ValueError("the oracle knows days and weeks in UTC only")
    found = []
    day = after.astimezone(UTC).date()
    while day <= through.date():
        at = datetime.combine(day, trigger.at, UTC)
        if after < at <= through and _is_day_of(trigger, day):
            found.append(at)
        day += _DAY
    return found


def _is_day_of(trigger: Any, day: date) -> bool:
    if day < trigger.anchor:
        return False
    if trigger.every.unit == "day":
        return bool((day - trigger.anchor).days % trigger.every.number == 0)
    weeks = (day - trigger.anchor).days + trigger.anchor.weekday()
    return weeks // 7 % trigger.every.number == 0 and day.weekday() in trigger.weekday.days


def _move_all(trigger: ClosedFires, after: datetime, through: datetime) -> list[datetime]:
    """Move each fire that lies in a window, and keep what is then in the period. Two fires that meet are one."""
    found = {at for at in expected_fires(trigger.own, after, through) if not _is_in(trigger.windows, at)}
    step = _DAY if trigger.roll == "next" else -_DAY
    for low, high in trigger.windows:
        first, last = max(low, after - (_FURTHEST + 1) * _DAY), min(high, through + (_FURTHEST + 1) * _DAY)
        for fire in expected_fires(trigger.own, first - _TICK, last - _TICK):
            days = (fire + number * step for number in range(1, _FURTHEST + 1))
            target = next((at for at in days if not _is_in(trigger.windows, at)), None)
            if target is not None and after < target <= through:
                found.add(target)
    return sorted(found)


def _add_up(trigger: Interval, after: datetime, through: datetime) -> list[datetime]:
    found = []
    instant = trigger.anchor + trigger.every
    while instant <= through:
        if instant > after:
            found.append(instant)
        instant += trigger.every
    return found


def _try_seconds(trigger: Cron, after: datetime, through: datetime) -> list[datetime]:
    if trigger.tz != "UTC":
        raise ValueError(f"the oracle knows no zone but UTC, and not {trigger.tz}")
    fields, is_either = _read(trigger.expression)
    instant = after.astimezone(UTC).replace(microsecond=0)
    found = []
    while instant <= through:
        if instant > after and _matches(fields, instant, is_either=is_either):
            found.append(instant)
        instant += _SECOND
    return found


def _matches(fields: tuple[frozenset[int], ...], instant: datetime, *, is_either: bool) -> bool:
    second, minute, hour, day, month, weekday = fields
    in_month, in_week = instant.day in day, instant.isoweekday() % 7 in weekday
    is_day = in_month or in_week if is_either else in_month and in_week
    return (
        instant.second in second
        and instant.minute in minute
        and instant.hour in hour
        and instant.month in month
        and is_day
    )


@lru_cache(maxsize=1000)
def _read(expression: str) -> tuple[tuple[frozenset[int], ...], bool]:
    """Return the values of each field, and whether one of the two day fields is enough (if both are restricted)."""
    words = expression.split()
    if len(words) == 5:
        words = ["0", *words]
    *others, weekday = (_read_field(word, *bounds) for word, bounds in zip(words, _BOUNDS, strict=True))
    is_either = not (words[3].startswith("*") or words[5].startswith("*"))
    return (*others, frozenset(day % 7 for day in weekday)), is_either


def _read_field(word: str, low: int, high: int) -> frozenset[int]:
    values: set[int] = set()
    for part in word.split(","):
        stretch, _, step = part.partition("/")
        if stretch == "*":
            first, last = low, high
        else:
            start, _, end = stretch.partition("-")
            first = int(start)
            last = int(end) if end else high if step else first
        values.update(range(first, last + 1, int(step or 1)))
    return frozenset(values)
