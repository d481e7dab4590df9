"""Shows when a job fires, and what its calendars do with its fires."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from mainspring.core.calendars.joined import clock_trigger, own_trigger
from mainspring.core.calendars.rolling import RolledTrigger
from mainspring.core.calendars.sieve import SievedTrigger
from mainspring.core.calendars.walls import to_epoch, wall_at_epoch
from mainspring.core.cron.zones import Zone, load_zone
from mainspring.core.triggers import Trigger, UnknownTrigger, next_fires, zone_name
from mainspring.core.values import value

_UTC = "UTC"
_TICK = timedelta(microseconds=1)


@value(kw_only=True)
class Preview:
    """One fire of a job's own trigger, or one to which others moved.

    Attributes:
        local: the fire time in the zone of the job's trigger, or of its first calendar.
        excluded_by: `NAME@VERSION` of the calendar that keeps it out; None if it becomes a run.
        skipped_by: `NAME@VERSION` of the calendar of a blackout that will skip it; None if none does.
        rolled_from: the furthest fire time that moved here; None if none did.
        due_at: when its run may start: later by the jitter. None if it makes no run, or if its job has no id yet that
            would tell the jitter.
        dst: `gap` right after clocks were set ahead, `overlap` at a time that clocks show twice; else None.
    """

    fire_at: datetime
    local: datetime
    excluded_by: str | None = None
    skipped_by: str | None = None
    rolled_from: datetime | None = None
    due_at: datetime | None = None
    dst: str | None = None


def next_made(trigger: Trigger | None, fire_at: datetime | None) -> datetime | None:
    """Return the next fire that becomes a run, of a clock that stands at `fire_at`."""
    if (
        fire_at is None
        or not isinstance(trigger, SievedTrigger)
        or trigger.sieve.excluded_by(fire_at) is None
    ):
        return fire_at
    return trigger.next_after(fire_at)


def fires_of_clock(trigger: Trigger | None, fire_at: datetime | None, count: int) -> list[datetime]:
    """Return the next fires that become runs, at most `count`, of a clock that stands at `fire_at`.

    If the trigger's type is unknown, only that one is known.
    """
    first = next_made(trigger, fire_at)
    if first is None or not count:
        return []
    if trigger is None or isinstance(trigger, UnknownTrigger):
        return [first]
    return [first, *next_fires(trigger, first, count - 1)]


def preview_fires(trigger: Trigger, after: datetime, count: int) -> list[Preview]:
    """Return the next fires strictly after an instant, at most `count`; empty if the trigger's type is unknown."""
    own = own_trigger(trigger)
    if isinstance(own, UnknownTrigger):
        return []
    zone = _zone_of(trigger)
    stepping = clock_trigger(trigger)
    found: list[Preview] = []
    fire = stepping.next_after(after)
    while fire is not None and len(found) < count:
        found.append(_preview(trigger, zone, fire))
        fire = stepping.next_after(fire)
    return found


def preview_fire(trigger: Trigger, fire_at: datetime | None) -> list[Preview]:
    """Return a fire that is known beforehand, of a trigger of which no rule gives the others; empty for None."""
    return [] if fire_at is None else [_preview(trigger, _zone_of(trigger), fire_at)]


def _preview(trigger: Trigger, zone: Zone, fire: datetime) -> Preview:
    return Preview(
        fire_at=fire,
        local=_local(zone, fire),
        excluded_by=trigger.sieve.excluded_by(fire) if isinstance(trigger, SievedTrigger) else None,
        rolled_from=_source(trigger, fire) if isinstance(trigger, RolledTrigger) else None,
        dst=_change_at(zone, fire),
    )


def _source(trigger: RolledTrigger, fire: datetime) -> datetime | None:
    """Return the furthest fire of the job's own trigger that moves to this one; None if none does."""
    source: datetime | None = None
    for instant in trigger.origins(fire):
        if trigger.raw.next_after(instant - _TICK) == instant:
            source = instant
    return source


def _zone_of(trigger: Trigger) -> Zone:
    name = zone_name(own_trigger(trigger))
    if name is not None:
        return load_zone(name)
    return trigger.sieve.zone if isinstance(trigger, SievedTrigger | RolledTrigger) else load_zone(_UTC)


def _local(zone: Zone, instant: datetime) -> datetime:
    epoch = to_epoch(instant)
    offset = timedelta(seconds=wall_at_epoch(zone, epoch) - epoch)
    return instant.astimezone(timezone(offset) if offset else UTC)


def _change_at(zone: Zone, instant: datetime) -> str | None:
    """Say whether an instant lies right after a gap of the clocks, or at a wall time that they show twice."""
    epoch = to_epoch(instant)
    segment = zone.segment(epoch)
    if epoch == segment.start and segment.offset > segment.before:
        return "gap"
    wall = epoch + segment.offset
    return "overlap" if wall < segment.shown_until or wall >= segment.shown_from else None
