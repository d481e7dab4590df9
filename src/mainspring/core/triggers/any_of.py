"""Any-of: the union of other triggers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from mainspring.core.fields import check_known, kind
from mainspring.core.kinds import Kind, Schema
from mainspring.core.options import Option, Options, Path
from mainspring.core.triggers.after_end import AfterEnd
from mainspring.core.triggers.at_start import AtStart
from mainspring.core.triggers.base import Trigger, TriggerType, UnknownTrigger
from mainspring.core.triggers.composed import AnyOf, parts_of
from mainspring.core.triggers.on_event import OnEvent
from mainspring.core.triggers.reading import COMMON, read_trigger
from mainspring.core.triggers.registry import TRIGGERS, load_trigger, store_trigger, tell_trigger
from mainspring.core.values import value
from mainspring.errors import InvalidInput

MOST_PARTS = 16
_KNOWN = frozenset({"trigger", *COMMON.by_form})


@value()
class _Parts(Kind):
    """A list of triggers, each in short or full form."""

    is_nested: ClassVar[bool] = True

    def read(self, value: object, path: str, old: Any) -> list[Mapping[str, Any]]:
        """Read a list of objects, or of text that stands for a schedule. What is in them, `make` reads."""
        del old
        if not isinstance(value, list | tuple) or not 1 <= len(value) <= MOST_PARTS:
            raise InvalidInput(path, f"must be a list of 1 to {MOST_PARTS} triggers")
        parts: list[Mapping[str, Any]] = []
        for number, part in enumerate(value):
            if isinstance(part, str):
                parts.append({"schedule": part})
            elif isinstance(part, Mapping):
                parts.append({"trigger": part} if "type" in part else part)
            else:
                right = "must be a trigger: an object, or the text of a schedule"
                raise InvalidInput(f"{path}[{number}]", f"{right}, not {kind(part)}")
        return parts

    def store(self, value: tuple[Trigger, ...]) -> list[dict[str, Any] | None]:
        """Return their full forms."""
        return [store_trigger(one) for one in value]

    def load(self, plain: list[dict[str, Any]]) -> tuple[Trigger, ...]:
        """Read what `store` wrote."""
        return tuple(one for part in plain if (one := load_trigger(part)) is not None)

    def schema(self) -> Schema:
        """Return a list's schema."""
        part = {"anyOf": [{"type": "object"}, {"type": "string"}]}
        return {"type": "array", "minItems": 1, "maxItems": MOST_PARTS, "items": part}

    def limits(self) -> str:
        """Say how many there may be."""
        return f"1 to {MOST_PARTS} triggers in short or full form, or texts as for `schedule`"


class AnyOfType(TriggerType):
    """`any_of`."""

    name = "any_of"
    is_own = True
    summary = "Fires whenever one of its triggers does; equal instants make one fire."
    value = AnyOf
    options: ClassVar[Options] = Options(
        Option(
            name="triggers",
            kind=_Parts(),
            summary="Fire whenever one of these triggers does.",
            example=[{"cron": "0 9 * * MON-FRI"}, {"cron": "0 12 * * SAT"}],
        ),
    )
    short: ClassVar[Mapping[str, str]] = {"any_of": "triggers"}

    def make(self, values: Mapping[str, Any], path: Path, *, now: datetime, old: Trigger | None) -> AnyOf:
        """Make a trigger. A part that the old one has already keeps its anchor, or its instant that has passed."""
        known = old.triggers if isinstance(old, AnyOf) else ()
        where = path("triggers")
        return AnyOf(
            tuple(
                _read_part(part, f"{where}[{number}]", known, now)
                for number, part in enumerate(values["triggers"])
            )
        )

    def load(self, plain: Mapping[str, Any]) -> Trigger:
        """Read the full form. With a part of an unknown type, it is as unknown."""
        made: Trigger = super().load(plain)
        return (
            UnknownTrigger(plain) if any(isinstance(one, UnknownTrigger) for one in parts_of(made)) else made
        )

    def tell(self, plain: Mapping[str, Any]) -> str:
        """Tell its parts."""
        return "; ".join(tell_trigger(part) for part in plain["triggers"])


def _read_part(part: Mapping[str, Any], path: str, known: tuple[Trigger, ...], now: datetime) -> Trigger:
    try:
        check_known(part, _KNOWN | TRIGGERS.by_field.keys())
    except InvalidInput as error:
        raise InvalidInput(f"{path}.{error.field}", error.message) from None
    for old in known:
        try:
            made = read_trigger(part, base=None, old=old, now=now)
        except InvalidInput:
            continue
        if made == old:
            return made
    try:
        made = read_trigger(part, base=None, old=None, now=now)
    except InvalidInput as error:
        field = error.field.removeprefix("trigger.") if "trigger" in part else error.field
        raise InvalidInput(path if field == "trigger" else f"{path}.{field}", error.message) from None
    if made is None:
        raise InvalidInput(path, f"is no trigger; give one of {', '.join([*TRIGGERS.heads, 'schedule'])}")
    if isinstance(made, AtStart):
        raise InvalidInput(path, "a trigger at start does not go into any_of; give it a job of its own")
    if isinstance(made, AfterEnd):
        raise InvalidInput(path, "a trigger after the end does not go into any_of; give it a job of its own")
    if isinstance(made, OnEvent):
        raise InvalidInput(path, "a trigger on an event does not go into any_of; give it a job of its own")
    if isinstance(made, AnyOf):
        raise InvalidInput(path, "any_of does not go into any_of; put its triggers into the outer list")
    return made


TRIGGERS.add(AnyOfType())
