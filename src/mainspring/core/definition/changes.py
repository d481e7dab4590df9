"""Says what differs between two definitions, field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from mainspring.core.values import value

_ANCHOR = "trigger.anchor"
_TYPED = frozenset({"trigger", "target"})
_STEPS = "target.steps"


@value()
class FieldChange:
    """A field that differs.

    Attributes:
        field: its path in the full form, like `retry.max_retries`.
        before, after: its values, as JSON has them; None also where there is none.
    """

    field: str
    before: Any
    after: Any


def compare_definitions(
    before: Mapping[str, Any], after: Mapping[str, Any], *, made_at: datetime | None = None
) -> list[FieldChange]:
    """Return the fields in which two definitions in full form differ, in the order of that form.

    A trigger or target of another type is one change, since its fields have nothing in common. An anchor that only
    follows from another change of the trigger is left out. The steps of a workflow are compared by their names, and
    then their order.

    Args:
        made_at: when `after` was made of `before`; None if that is not known, and then all anchors are told.
    """
    changes = list(_compare(before, after, ""))
    of_trigger = [change.field for change in changes if change.field.startswith("trigger.")]
    if made_at is None or _ANCHOR not in of_trigger or of_trigger == [_ANCHOR]:
        return changes
    from mainspring.core.triggers.reading import (
        is_anchor_derived,  # costs a start, and few changes are of an anchor
    )

    if not is_anchor_derived(after["trigger"], now=made_at):
        return changes
    return [change for change in changes if change.field != _ANCHOR]


def _compare(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str) -> Iterator[FieldChange]:
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if old == new and type(old) is type(new) and (name in before) == (name in after):
            continue
        path = f"{prefix}{name}"
        if (
            old is new is None and prefix == "trigger."
        ):  # only in a payload is a null something else than nothing
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping) and _is_alike(path, old, new):
            yield from _compare(old, new, f"{path}.")
        elif path == _STEPS and isinstance(old, list) and isinstance(new, list):
            yield from _compare_steps(old, new)
        else:
            yield FieldChange(path, old, new)


def _compare_steps(before: list[Any], after: list[Any]) -> Iterator[FieldChange]:
    """Compare the steps of a workflow by their names: a new step at the top does not change all others."""
    old, new = ({step["name"]: step for step in steps} for steps in (before, after))
    yield from _compare(old, new, f"{_STEPS}.")
    common = [[name for name in one if name in old and name in new] for one in (old, new)]
    if common[0] != common[1]:
        yield FieldChange(_STEPS, list(old), list(new))


def _is_alike(path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    is_typed = path in _TYPED or (path.startswith(f"{_STEPS}.") and path.endswith(".target"))
    return not is_typed or bool(old["type"] == new["type"])
