"""Triggers that are made of others: the union of several, and one within a window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from mainspring.core.triggers.base import Trigger, zone_name
from mainspring.core.values import value

_TICK = timedelta(microseconds=1)


@value()
class Windowed:
    """Fires where another trigger does, from `starts_at` to `ends_at`, both included; None is no bound."""

    raw: Trigger
    starts_at: datetime | None = None
    ends_at: datetime | None = None

    @property
    def tz(self) -> str | None:
        """The zone of the other trigger, if it has one."""
        return zone_name(self.raw)

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first fire strictly after the instant."""
        if self.starts_at is not None and instant < self.starts_at:
            instant = self.starts_at - _TICK
        fire = self.raw.next_after(instant)
        return None if fire is None or (self.ends_at is not None and fire > self.ends_at) else fire

    def previous_before(self, instant: datetime) -> datetime | None:
        """Return the last fire strictly before the instant."""
        if self.ends_at is not None and instant > self.ends_at:
            instant = self.ends_at + _TICK
        fire = self.raw.previous_before(instant)
        return None if fire is None or (self.starts_at is not None and fire < self.starts_at) else fire


@value()
class AnyOf:
    """Fires whenever one of its parts does. Where several fire at the same instant, that is one fire."""

    triggers: tuple[Trigger, ...]

    @property
    def tz(self) -> str | None:
        """The zone of those parts that have one, if it is the same."""
        zones = {zone for one in self.triggers if (zone := zone_name(one)) is not None}
        return zones.pop() if len(zones) == 1 else None

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first fire strictly after the instant."""
        fires = [fire for one in self.triggers if (fire := one.next_after(instant)) is not None]
        return min(fires, default=None)

    def previous_before(self, instant: datetime) -> datetime | None:
        """Return the last fire strictly before the instant."""
        fires = [fire for one in self.triggers if (fire := one.previous_before(instant)) is not None]
        return max(fires, default=None)


def change_parts(trigger: Trigger, change: Callable[[Trigger], Trigger]) -> Trigger:
    """Return a trigger with each of the simple ones in it changed."""
    if isinstance(trigger, Windowed):
        return replace(trigger, raw=change_parts(trigger.raw, change))
    if isinstance(trigger, AnyOf):
        return AnyOf(tuple(change_parts(one, change) for one in trigger.triggers))
    return change(trigger)


def parts_of(trigger: Trigger) -> tuple[Trigger, ...]:
    """Return the simple triggers in a trigger."""
    if isinstance(trigger, Windowed):
        return parts_of(trigger.raw)
    if isinstance(trigger, AnyOf):
        return tuple(part for one in trigger.triggers for part in parts_of(one))
    return (trigger,)
