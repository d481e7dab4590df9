"""The option `notify`: who is told when a job fails, is late or has recovered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

from mainspring.core.definition.once import make_rule_kind
from mainspring.core.failures import MOST_FAILURES
from mainspring.core.fields import DAY, one_of, read_choice
from mainspring.core.kinds import Kind, Schema, Whole, Words
from mainspring.core.notify import NotifyEvent, NotifyRule
from mainspring.core.options import Option
from mainspring.core.times import Duration
from mainspring.core.values import value
from mainspring.errors import InvalidInput

MOST_CHANNELS = 20
_EVENTS = tuple(NotifyEvent)


@value()
class Events(Kind):
    """Some of the events that a job tells of, in their order."""

    metavar: ClassVar[str] = "EVENT"
    is_json: ClassVar[bool] = False
    is_list: ClassVar[bool] = True

    def read(self, value: object, path: str, old: Any) -> tuple[NotifyEvent, ...]:
        """Read a list of words."""
        del old
        if not isinstance(value, list | tuple) or not value:
            raise InvalidInput(path, f"must be a list of some of {', '.join(_EVENTS)}")
        given = {read_choice(item, f"{path}[{place}]", NotifyEvent) for place, item in enumerate(value)}
        return tuple(event for event in _EVENTS if event in given)

    def store(self, value: tuple[NotifyEvent, ...]) -> list[str]:
        """Return a list."""
        return [event.value for event in value]

    def load(self, plain: list[str]) -> tuple[NotifyEvent, ...]:
        """Return the events."""
        return tuple(map(NotifyEvent, plain))

    def schema(self) -> Schema:
        """Return a list's schema."""
        words = [event.value for event in _EVENTS]
        return {"type": "array", "minItems": 1, "items": {"type": "string", "enum": words}}

    def limits(self) -> str:
        """Name the words."""
        return ", ".join(f"`{event.value}`" for event in _EVENTS)


def _check(rule: NotifyRule, given: Mapping[str, Any]) -> NotifyRule:
    form = one_of(given, "late_after", "late_after_seconds")
    if not rule.to:
        raise InvalidInput("notify.to", "must name at least one channel")
    if rule.late_after is not None and "on" not in given and NotifyEvent.LATE not in rule.on:
        rule = replace(rule, on=tuple(event for event in _EVENTS if event in {*rule.on, NotifyEvent.LATE}))
    if NotifyEvent.LATE in rule.on and rule.late_after is None:
        raise InvalidInput("notify.late_after", "is missing; 'late' needs it")
    if NotifyEvent.LATE not in rule.on and rule.late_after is not None:
        if form is not None:
            raise InvalidInput(f"notify.{form}", "goes with 'late' in 'on'")
        rule = replace(rule, late_after=None)
    if rule.on == (NotifyEvent.RECOVERED,):
        raise InvalidInput("notify.on", "'recovered' is the end of 'failed' or 'late'; name one of them, too")
    return rule


NOTIFY = make_rule_kind(
    "notify",
    NotifyRule,
    _check,
    Option(
        name="to",
        kind=Words(MOST_CHANNELS, "channels"),
        summary="The channels that are told.",
        detail="Of the job's tenant, or else of all tenants.",
        example=["ops"],
    ),
    Option(
        name="on",
        kind=Events(),
        summary="What is told.",
        detail="`failed`, `late`, and `recovered`, which is the end of either.",
        default=(NotifyEvent.FAILED, NotifyEvent.RECOVERED),
        example=["failed", "late", "recovered"],
    ),
    Option(
        name="late_after",
        kind=Duration(timedelta(seconds=1), 30 * DAY),
        summary="A run that has not ended so long after it was due is late.",
        default=None,
        is_nullable=True,
        example="15m",
    ),
    Option(
        name="failures",
        kind=Whole(1, MOST_FAILURES),
        summary="How many failed runs in a row are told of.",
        default=1,
    ),
    short=None,
)
