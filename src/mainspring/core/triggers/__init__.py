"""Triggers: pure rules that give the next instant after another (design 1, 5).

`TRIGGERS` has every type that this process knows. A new one is a module beside these and one more entry here.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from mainspring.core.triggers.base import Trigger, TriggerType, UnknownTrigger, next_fires
from mainspring.core.triggers.cron import CronType
from mainspring.core.triggers.interval import Interval, IntervalType
from mainspring.core.triggers.once import Once, OnceType
from mainspring.core.types import Types

__all__ = [
    "BUILT_IN",
    "EPOCH",
    "TRIGGERS",
    "Interval",
    "Once",
    "Trigger",
    "TriggerType",
    "UnknownTrigger",
    "load_trigger",
    "next_fires",
    "store_trigger",
    "tell_trigger",
    "type_of",
]

TRIGGERS: Types[TriggerType] = Types("trigger", CronType(), IntervalType(), OnceType())
BUILT_IN = frozenset(TRIGGERS.by_name)
"""Names of the types that are Mainspring's own. Their tests hold what others are checked for."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def type_of(trigger: Trigger | None) -> TriggerType | None:
    """Return a trigger's type; None for no trigger, and for one of an unknown type."""
    value = type(trigger)
    for one in TRIGGERS.by_name.values():
        if value is one.value:
            return one
    return None


def check_instants(trigger: Trigger, *, now: datetime) -> str | None:
    """Say what is wrong with the next two fires of a package's trigger; None if nothing is.

    A fire that does not lie after the one before would stop the job without a word.
    """
    before = now
    for _ in range(2):
        try:
            fire_at: object = trigger.next_after(before)
        except Exception as error:  # noqa: BLE001 - whatever a package's code raises
            return f"its next_after raised {type(error).__name__}: {str(error)[:100]}"
        if fire_at is None:
            return "it never fires" if before is now else None
        if not isinstance(fire_at, datetime) or fire_at.utcoffset() is None:
            return f"its next_after must return an aware datetime or None, not {str(fire_at)[:60]!r}"
        if fire_at <= before:
            return f"its next_after must return a later instant than {before.isoformat()}, not {fire_at.isoformat()}"
        before = fire_at
    return None


def store_trigger(trigger: Trigger | None) -> dict[str, Any] | None:
    """Return a trigger's full form: what is kept, and what `GET` shows."""
    if trigger is None:
        return None
    kind = type_of(trigger)
    if kind is not None:
        return {"type": kind.name, **kind.store(trigger)}
    if isinstance(trigger, UnknownTrigger):
        return dict(trigger.plain)
    raise TypeError(f"{type(trigger).__name__} is the class of no known trigger type")


def load_trigger(plain: Mapping[str, Any] | None) -> Trigger | None:
    """Read what `store_trigger` wrote; what has an unknown type is kept as it is."""
    if plain is None:
        return None
    kind = TRIGGERS.by_name.get(plain["type"])
    return UnknownTrigger(plain) if kind is None else kind.load(plain)


def tell_trigger(plain: Mapping[str, Any] | None) -> str:
    """Say briefly when a trigger fires, for a list of jobs, from its full form."""
    if plain is None:
        return "on submit"
    kind = TRIGGERS.by_name.get(plain["type"])
    return str(plain["type"]) if kind is None else kind.tell(plain)
