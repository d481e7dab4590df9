"""All trigger types that this process knows, and the full form of their triggers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mainspring.core.triggers.after_end import AfterEndType
from mainspring.core.triggers.at_start import AtStartType
from mainspring.core.triggers.base import Trigger, TriggerType, UnknownTrigger
from mainspring.core.triggers.calendar_interval import CalendarIntervalType
from mainspring.core.triggers.composed import Windowed
from mainspring.core.triggers.cron import CronType
from mainspring.core.triggers.interval import IntervalType
from mainspring.core.triggers.on_event import OnEventType
from mainspring.core.triggers.once import OnceType
from mainspring.core.triggers.windows import WINDOW
from mainspring.core.types import Types

TRIGGERS: Types[TriggerType] = Types(
    "trigger",
    CronType(),
    IntervalType(),
    CalendarIntervalType(),
    OnceType(),
    AfterEndType(),
    AtStartType(),
    OnEventType(),
)
"""`any_of`, which reads triggers of the other types, adds itself."""


def type_of(trigger: Trigger | None) -> TriggerType | None:
    """Return a trigger's type, without regard to its window; None for no trigger, and for one of an unknown type."""
    value = type(trigger.raw if isinstance(trigger, Windowed) else trigger)
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
    raw = trigger.raw if isinstance(trigger, Windowed) else trigger
    kind = type_of(raw)
    if kind is not None:
        plain = {"type": kind.name, **kind.store(raw)}
        if isinstance(trigger, Windowed):
            WINDOW.store_into(plain, trigger)
        return plain
    if isinstance(trigger, UnknownTrigger):
        return dict(trigger.plain)
    raise TypeError(f"{type(trigger).__name__} is the class of no known trigger type")


def load_trigger(plain: Mapping[str, Any] | None) -> Trigger | None:
    """Read what `store_trigger` wrote; what has an unknown type is kept as it is."""
    if plain is None:
        return None
    kind = TRIGGERS.by_name.get(plain["type"])
    if kind is None:
        return UnknownTrigger(plain)
    raw = kind.load(plain)
    if isinstance(raw, UnknownTrigger):
        return UnknownTrigger(plain)
    return Windowed(raw, **WINDOW.load(plain)) if "starts_at" in plain else raw


def tell_trigger(plain: Mapping[str, Any] | None) -> str:
    """Say briefly when a trigger fires, for a list of jobs, from its full form."""
    if plain is None:
        return "on submit"
    kind = TRIGGERS.by_name.get(plain["type"])
    if kind is None:
        return str(plain["type"])
    bounds = ((word, plain.get(name)) for word, name in (("from", "starts_at"), ("until", "ends_at")))
    return " ".join(
        [kind.tell(plain), *(f"{word} {instant}" for word, instant in bounds if instant is not None)]
    )
