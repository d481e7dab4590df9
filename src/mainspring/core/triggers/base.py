"""What a trigger is, and what a trigger type tells about its triggers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, ClassVar, NoReturn, Protocol

from mainspring.core.options import Path
from mainspring.core.types import DefinedType
from mainspring.core.values import value
from mainspring.errors import InvalidInput, UnknownType

WINDOW_NAMES = ("starts_at", "ends_at")
"""Options of every trigger that recurs."""


class Trigger(Protocol):
    """A pure rule that gives instants; strict on both sides, aware and in UTC, equal where it fires alike.

    A trigger keeps no position. A job's position is data in its clock row.
    """

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first fire strictly after an instant; None when there is none."""
        ...

    def previous_before(self, instant: datetime) -> datetime | None:
        """Return the last fire strictly before an instant; None when there is none."""
        ...


def next_fires(trigger: Trigger, after: datetime, count: int) -> list[datetime]:
    """Return the next fires strictly after an instant, at most `count` of them."""
    fires: list[datetime] = []
    while len(fires) < count:
        fire = trigger.next_after(fires[-1] if fires else after)
        if fire is None:
            break
        fires.append(fire)
    return fires


def zone_name(trigger: Trigger) -> str | None:
    """Return the zone of a trigger's wall times; None if it has none, or parts in several zones."""
    name = getattr(trigger, "tz", None)
    return name if isinstance(name, str) else None


class TriggerType(DefinedType):
    """A type of trigger. Subclass it, and give one instance to the entry point group `mainspring.triggers`.

    Attributes:
        value: the class of its triggers: a frozen dataclass with one attribute for each option, hashable, equal by
            value, with the methods of `Trigger`. If it has a zone, that is its attribute `tz`.
        is_recurring: it may fire more than once, so `starts_at` and `ends_at` go with it.
        is_own: it is one of Mainspring's, whose tests hold what others are checked for.
    """

    value: ClassVar[type[Any]]
    is_recurring: ClassVar[bool] = True
    is_own: ClassVar[bool] = False

    def make(self, values: Mapping[str, Any], path: Path, *, now: datetime, old: Trigger | None) -> Trigger:
        """Make a trigger of checked values, by option; refuse values that do not go together.

        Args:
            path: from an option's name to what the user wrote, for errors.
            now: the instant of the request.
            old: the trigger that the new one replaces; None is none.

        Raises:
            InvalidInput: they do not go together, or would never fire.
        """
        del path, now, old
        made: Trigger = self.value(**values)
        return made

    def beginning(self, values: Mapping[str, Any], starts_at: datetime) -> Mapping[str, Any]:
        """Return the values of a trigger that fires from an instant on: those that are not given may depend on it."""
        del starts_at
        return values

    def store(self, trigger: Any) -> dict[str, Any]:
        """Return the full form beside `type`: what is kept, and what `GET` shows."""
        plain: dict[str, Any] = {}
        self.options.store_into(plain, trigger)
        return plain

    def load(self, plain: Mapping[str, Any]) -> Trigger:
        """Read what `store` wrote; it is trusted, not checked."""
        made: Trigger = self.value(**self.options.load(plain))
        return made

    def tell(self, plain: Mapping[str, Any]) -> str:
        """Say briefly when it fires, for a list of jobs; `plain` is the full form."""
        return " ".join([self.name, *(str(plain.get(option.key)) for option in self.options)])

    def check(self) -> None:
        """Refuse a type that is described in a way that could not work."""
        super().check()
        for name in WINDOW_NAMES:
            if name in self.options.by_form:
                raise InvalidInput(
                    "options", f"{name!r} goes with every trigger; give the option another name"
                )
        value = getattr(self, "value", None)
        if not (
            isinstance(value, type) and hasattr(value, "next_after") and hasattr(value, "previous_before")
        ):
            raise InvalidInput("value", "must be a class with the methods next_after and previous_before")


@value()
class UnknownTrigger:
    """A kept trigger of a type that this process does not know: it is shown and kept as it is, and never fires here.

    Attributes:
        plain: the full form, `type` included.
    """

    plain: Mapping[str, Any] = field(hash=False)

    @property
    def type(self) -> str:
        """The name of its type."""
        return str(self.plain["type"])

    def next_after(self, instant: datetime) -> NoReturn:
        """Refuse to guess.

        Raises:
            UnknownType: always.
        """
        raise UnknownType("trigger", self.type)

    def previous_before(self, instant: datetime) -> NoReturn:
        """Refuse to guess.

        Raises:
            UnknownType: always.
        """
        raise UnknownType("trigger", self.type)
