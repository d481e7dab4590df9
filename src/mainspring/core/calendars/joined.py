"""A job's own trigger, and the one that its calendars make of it."""

from __future__ import annotations

from mainspring.core.calendars.rolling import RolledTrigger
from mainspring.core.calendars.sieve import Sieve, SievedTrigger
from mainspring.core.triggers import AfterEnd, AtStart, OnEvent, Trigger, UnknownTrigger, Windowed

_MADE = (SievedTrigger, RolledTrigger)


def with_calendars(trigger: Trigger | None, sieve: Sieve | None) -> Trigger | None:
    """Return the trigger of a job with its calendars. A trigger of an unknown type stays as it is."""
    if trigger is None or sieve is None or isinstance(trigger, UnknownTrigger):
        return trigger
    return SievedTrigger(trigger, sieve) if sieve.roll is None else RolledTrigger(trigger, sieve)


def own_trigger(trigger: Trigger) -> Trigger:
    """Return a job's own trigger: of one with calendars, the one beneath."""
    return trigger.raw if isinstance(trigger, _MADE) else trigger


def has_no_rule(trigger: Trigger) -> bool:
    """Say whether no rule gives a trigger's fires: each comes to be with its record."""
    own = own_trigger(trigger)
    return isinstance(own.raw if isinstance(own, Windowed) else own, AtStart | AfterEnd | OnEvent)


def clock_trigger(trigger: Trigger) -> Trigger:
    """Return the trigger whose fires a job's clock goes through: also those that calendars keep out, as records."""
    return trigger.raw if isinstance(trigger, SievedTrigger) else trigger


def labels_of(trigger: Trigger | None) -> tuple[str, ...]:
    """Return the calendars of a job's trigger, as its sieve names them; none if it has none."""
    return trigger.sieve.labels if isinstance(trigger, _MADE) else ()
