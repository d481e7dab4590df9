"""On an event: fires with each event of a topic that fits its pattern."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from mainspring.core.events.model import MAX_TOPIC, read_topic
from mainspring.core.events.patterns import EventPattern, read_pattern
from mainspring.core.kinds import Kind, Schema, Text
from mainspring.core.options import Option, Options
from mainspring.core.triggers.base import TriggerType
from mainspring.core.values import value


@value()
class OnEvent:
    """Fires at instants that no rule gives: whenever an event of the topic is taken in.

    Attributes:
        pattern: which of them are meant; None means all.
    """

    topic: str
    pattern: EventPattern | None = None

    def takes(self, envelope: Mapping[str, Any]) -> bool:
        """Say whether an event of the topic starts a run."""
        return self.pattern is None or self.pattern.matches(envelope)

    def next_after(self, instant: datetime) -> datetime | None:
        """Return None: when the next event comes, nobody knows."""
        del instant
        return None

    def previous_before(self, instant: datetime) -> datetime | None:
        """Return None: the store keeps which events there were."""
        del instant
        return None


@value()
class Topic(Text):
    """The topic of an event."""

    longest: int = MAX_TOPIC
    metavar: ClassVar[str] = "TOPIC"

    def read(self, value: object, path: str, old: Any) -> str:
        """Read a topic."""
        del old
        return read_topic(value, path)


@value()
class PatternKind(Kind):
    """A pattern of events."""

    is_nested: ClassVar[bool] = True

    def read(self, value: object, path: str, old: Any) -> EventPattern | None:
        """Read a pattern; null is none."""
        del old
        return None if value is None else read_pattern(value, path)

    def store(self, value: EventPattern | None) -> dict[str, Any] | None:
        """Return it as JSON values."""
        return None if value is None else value.plain

    def load(self, plain: dict[str, Any] | None) -> EventPattern | None:
        """Read what `store` wrote."""
        return None if plain is None else read_pattern(plain, "pattern")

    def schema(self) -> Schema:
        """Return an object's schema."""
        return {"type": ["object", "null"]}

    def limits(self) -> str:
        """Say where its form is told."""
        return "an object nested as the event, whose leaves are lists of values or tests"


class OnEventType(TriggerType):
    """`event`."""

    name = "event"
    is_own = True
    summary = "Fires with each event of a topic that fits its pattern. The event is the run's payload."
    value = OnEvent
    is_recurring = False
    options: ClassVar[Options] = Options(
        Option(
            name="topic",
            kind=Topic(),
            summary="Fire with each event of this topic.",
            example="orders.paid",
        ),
        Option(
            name="pattern",
            kind=PatternKind(),
            default=None,
            summary="Fire only with events that fit.",
            detail="Null: all of the topic.",
            example={"data": {"amount": [{"numeric": [">", 100]}]}},
        ),
    )
    short: ClassVar[Mapping[str, str]] = {"on_event": "topic"}

    def tell(self, plain: Mapping[str, Any]) -> str:
        """Name the topic."""
        fitting = "" if plain.get("pattern") is None else " that fits"
        return f"on event {plain['topic']}{fitting}"
