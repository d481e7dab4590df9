"""Triggers: pure rules that give the next instant after another (design 1, 5).

`TRIGGERS` has every type that this process knows. A new one is a module beside these and one more entry in `registry`.
"""

from __future__ import annotations

from datetime import UTC, datetime

from mainspring.core.triggers.after_end import AfterEnd
from mainspring.core.triggers.any_of import AnyOfType
from mainspring.core.triggers.at_start import AtStart
from mainspring.core.triggers.base import Trigger, TriggerType, UnknownTrigger, next_fires, zone_name
from mainspring.core.triggers.calendar_interval import CalendarInterval
from mainspring.core.triggers.composed import AnyOf, Windowed, change_parts, parts_of
from mainspring.core.triggers.interval import Interval
from mainspring.core.triggers.on_event import OnEvent
from mainspring.core.triggers.once import Once
from mainspring.core.triggers.registry import TRIGGERS, load_trigger, store_trigger, tell_trigger, type_of

__all__ = [
    "EPOCH",
    "TRIGGERS",
    "AfterEnd",
    "AnyOf",
    "AnyOfType",
    "AtStart",
    "CalendarInterval",
    "Interval",
    "OnEvent",
    "Once",
    "Trigger",
    "TriggerType",
    "UnknownTrigger",
    "Windowed",
    "change_parts",
    "load_trigger",
    "next_fires",
    "parts_of",
    "store_trigger",
    "tell_trigger",
    "type_of",
    "zone_name",
]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
