"""Monitors, as the HTTP API takes and shows them."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, defstruct

from mainspring.core.definition.schema import body_schemas
from mainspring.core.monitors import MONITOR_OPTIONS, Monitor, Ping, plain_from_plan, timing_fields
from mainspring.core.triggers import store_trigger
from mainspring.core.triggers.words import explain_trigger
from mainspring.wire.views import Instant

State = Annotated[
    str,
    Meta(description="`NEW`, `UP`, `RUNNING`, `LATE` or `FAILED`.", extra_json_schema={"examples": ["UP"]}),
]

_SCHEMAS = {field: schema for field, schema in body_schemas().items() if field in timing_fields()}
MonitorBody: Any = defstruct(
    "MonitorBody",
    [
        (field, Annotated[Any, Meta(extra_json_schema=schema)], UNSET)
        for field, schema in (
            *_SCHEMAS.items(),
            *((option.name, option.schema()) for option in MONITOR_OPTIONS),
        )
    ],
    module=__name__,
    namespace={
        "__doc__": "When a job that runs elsewhere should begin, as in a job's definition, and what is late."
    },
    kw_only=True,
)


class PingView(Struct, kw_only=True):
    """What a job has said."""

    kind: Annotated[str, Meta(description="`success`, `start`, `extend` or `fail`.")]
    at: Instant
    exit_code: int | None


class MonitorView(Struct, kw_only=True):
    """A monitor, as it is known now."""

    name: str
    state: State
    is_broken: Annotated[
        bool,
        Meta(description="It has failed as often as it may, and has not succeeded since: its alert fires."),
    ]
    failures: Annotated[int, Meta(description="Failures since the last success; a missing ping is one.")]
    trigger: Annotated[dict[str, Any], Meta(description="When the job begins, in full form.")]
    explanation: Annotated[str, Meta(description="The trigger in words.")]
    start_grace_seconds: float
    run_grace_seconds: float
    tolerance: int
    expected_at: Annotated[Instant | None, Meta(description="The first fire that no ping has answered.")]
    due_at: Annotated[Instant | None, Meta(description="Until when the next ping has to come.")]
    started_at: Instant | None
    pinged_at: Instant | None
    succeeded_at: Instant | None
    recent: Annotated[list[PingView], Meta(description="The last pings, the newest first.")]
    ping_path: Annotated[
        str | None, Meta(description="Where its pings go. It is shown once, when the monitor is made.")
    ] = None


class MonitorList(Struct):
    """Monitors, by name."""

    items: list[MonitorView]


class PingTaken(Struct):
    """A ping was noted."""

    state: State


def view_monitor(monitor: Monitor, *, key: str | None = None) -> MonitorView:
    """Show a monitor that was judged."""
    facts = monitor.facts
    return MonitorView(
        name=monitor.name,
        state=facts.state.value,
        is_broken=monitor.is_broken,
        failures=facts.failures,
        trigger=store_trigger(monitor.plan.trigger) or {},
        explanation=explain_trigger(monitor.plan.trigger),
        expected_at=facts.expected_at,
        due_at=None if monitor.is_broken else monitor.due_at,
        started_at=facts.started_at,
        pinged_at=facts.pinged_at,
        succeeded_at=facts.succeeded_at,
        recent=list(map(_view_ping, facts.recent)),
        ping_path=None if key is None else f"/ping/{key}",
        **plain_from_plan(monitor.plan),
    )


def _view_ping(ping: Ping) -> PingView:
    return PingView(kind=ping.kind.value, at=ping.at, exit_code=ping.exit_code)
