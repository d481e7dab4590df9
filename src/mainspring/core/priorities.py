"""Priority classes: a name for a tier, and for who takes slots from whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mainspring.core.fields import kind, read_word
from mainspring.core.kinds import Choice, Flag
from mainspring.core.model import Priority
from mainspring.core.options import Option, Options
from mainspring.core.values import value
from mainspring.errors import InvalidInput

TIERS = tuple(Priority.__members__)
_MOST_NAMED = 5


@value(kw_only=True)
class PriorityClass:
    """A class that jobs name as their priority. Its values are copied into a definition when that is written.

    Attributes:
        tier: the tier in which runs are claimed.
        preempts: its waiting runs may take the slots of preemptible runs of lower tiers.
        preemptible: its runs may be stopped, to start again later, if more urgent work waits for a slot.
    """

    name: str
    tier: Priority
    preempts: bool = False
    preemptible: bool = False


CLASS_OPTIONS = Options(
    Option(
        name="tier",
        kind=Choice(Priority, by_name=True),
        summary="The tier in which its runs are claimed.",
        example="LOW",
    ),
    Option(
        name="preempts",
        kind=Flag(),
        default=False,
        summary="Its waiting runs may take the slots of preemptible runs of lower tiers.",
    ),
    Option(
        name="preemptible",
        kind=Flag(),
        default=False,
        summary="Its runs may be stopped, to start again later, if more urgent work waits for a slot.",
    ),
)


def read_class(name: str, body: Mapping[str, Any]) -> PriorityClass:
    """Return the class that a body describes.

    Raises:
        InvalidInput: the name is that of a tier, a value is wrong or missing, or there is nothing to preempt.
    """
    word = read_word(name, "class")
    if word.upper() in TIERS:
        raise InvalidInput("class", f"{word!r} is the name of a tier; choose another name")
    made = PriorityClass(name=word, **CLASS_OPTIONS.read_all(body, lambda field: field))
    if made.preempts and made.tier is Priority.LOW:
        raise InvalidInput("preempts", "goes with HIGH or MEDIUM; no tier is lower than LOW")
    return made


def class_named(value: object) -> str | None:
    """Return the class that a priority names; None if it is a tier, or no name at all."""
    return value if isinstance(value, str) and value.upper() not in TIERS else None


def read_priority(value: object, field: str) -> Priority | str:
    """Return a tier, or the name of a class, whether or not it exists.

    Raises:
        InvalidInput: it cannot be either.
    """
    if isinstance(value, Priority):
        return value
    if not isinstance(value, str):
        raise InvalidInput(
            field, f"must be one of {', '.join(TIERS)} or the name of a class, not {kind(value)}"
        )
    return read_word(value, field) if class_named(value) is not None else Priority[value.upper()]


def find_class(name: str, classes: Iterable[PriorityClass], field: str) -> PriorityClass:
    """Return the class of that name.

    Raises:
        InvalidInput: there is none.
    """
    known = {one.name: one for one in classes}
    if name in known:
        return known[name]
    others = f"; there are {', '.join(sorted(known)[:_MOST_NAMED])}" if known else ""
    raise InvalidInput(
        field, f"must be one of {', '.join(TIERS)} or the name of a priority class, not {name[:60]!r}{others}"
    )


def copy_class(
    body: Mapping[str, Any], classes: Sequence[PriorityClass], field: str = "priority"
) -> Mapping[str, Any]:
    """Return the body of a job with the values of the class that it names as its priority.

    What the body says itself goes before the class. A tier instead of a class is no class's any more, so whether the
    job preempts goes by that tier.

    Raises:
        InvalidInput: there is no such class.
    """
    if "priority" not in body:
        return body
    name = class_named(body["priority"])
    if name is None:
        return {"preempts": None, **body}
    one = find_class(name, classes, field)
    return {"preempts": one.preempts, "preemptible": one.preemptible, **body, "priority": one.tier.name}
