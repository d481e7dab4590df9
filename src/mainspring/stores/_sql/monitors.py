"""The stored form of monitors: a JSON text that is the same in both dialects."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from mainspring.core.monitors import MONITOR_OPTIONS, Monitor, MonitorFacts, MonitorPlan, plain_from_plan
from mainspring.core.triggers import load_trigger, store_trigger


class _Kept(msgspec.Struct, kw_only=True):
    """What a row keeps of a monitor, beside its key."""

    trigger: dict[str, Any]
    options: dict[str, Any]
    facts: MonitorFacts
    made_at: datetime


_kept = msgspec.json.Decoder(_Kept)


def encode_monitor(monitor: Monitor) -> str:
    """Return a monitor without its tenant and name as JSON text."""
    trigger = store_trigger(monitor.plan.trigger)
    assert trigger is not None, "a monitor has a trigger"
    kept = _Kept(
        trigger=trigger,
        options=dict(plain_from_plan(monitor.plan)),
        facts=monitor.facts,
        made_at=monitor.made_at,
    )
    return msgspec.json.encode(kept).decode()


def make_monitor(tenant: str, name: str, text: str) -> Monitor:
    """Make a monitor of a row."""
    kept = _kept.decode(text)
    trigger = load_trigger(kept.trigger)
    assert trigger is not None, "a monitor has a trigger"
    plan = MonitorPlan(trigger=trigger, **MONITOR_OPTIONS.load(kept.options))
    return Monitor(tenant=tenant, name=name, plan=plan, facts=kept.facts, made_at=kept.made_at)
