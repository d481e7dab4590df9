"""Leaves out of answers what a caller is not to see: payloads, results, outputs, errors, and keys made of payloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from mainspring.api.errors import Rejected
from mainspring.wire.alerts import TriedView
from mainspring.wire.events import EventView
from mainspring.wire.limits import KeyView
from mainspring.wire.run_logs import ProgressView
from mainspring.wire.versions import ChangeView, VersionView
from mainspring.wire.views import CancelView, JobView
from mainspring.wire.workflows import StepMapView
from mainspring.wire.written import JobWritten

HIDDEN_FIELDS = ("payload", "result", "output", "error", "error_group")
"""What is null then, wherever it stands in an answer."""
_OF_STEPS = frozenset({"payload", "with", "over"})
"""What is hidden of a step's definition: what it hands to its runs, or makes that of, and the items of its map."""
NOT_HIDDEN: tuple[type[Struct], ...] = (CancelView, TriedView)
"""Whose fields of these names tell something else."""


def hide_payloads(content: object) -> None:
    """Leave payloads, results, outputs, errors and keys out of an answer, at whatever depth: they become null."""
    if isinstance(content, list | tuple):
        for item in content:
            hide_payloads(item)
    elif isinstance(content, ChangeView):
        if not _OF_STEPS.isdisjoint(content.field.split(".")):
            content.before = content.after = None
        content.before, content.after = _without(content.before), _without(content.after)
    elif isinstance(content, KeyView):
        content.key = None if content.key else content.key  # an empty one comes out of no payload
    elif isinstance(content, Struct):
        _hide_in(content)


def _hide_in(content: Struct) -> None:
    for field in content.__struct_fields__:
        if field in HIDDEN_FIELDS and not isinstance(content, NOT_HIDDEN):
            setattr(content, field, None)
        elif field == "target" and isinstance(content, JobView | JobWritten):
            setattr(content, field, _without(getattr(content, field)))
        else:
            hide_payloads(getattr(content, field))
    if isinstance(content, ProgressView):
        content.message = None
    if isinstance(content, StepMapView):
        content.over = None  # which can have the items in it
    if isinstance(content, EventView):
        content.key = content.data = None
    if isinstance(content, VersionView) and "payload" in content.definition:
        target = _without(content.definition["target"])
        content.definition = {**content.definition, "payload": None, "target": target}


def _without(value: Any) -> Any:
    """Return a target, a step or its map, or a list of them, with nothing of what a step hands to its runs."""
    if isinstance(value, list):
        return [_without(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    if "steps" in value:
        return {**value, "steps": _without(value["steps"])}
    is_step = "target" in value or "job" in value
    hidden = [field for field in _OF_STEPS if value.get(field) is not None and (is_step or field == "over")]
    value = {**value, **dict.fromkeys(hidden)} if hidden else value
    return {**value, "map": _without(value["map"])} if value.get("map") is not None else value


def check_filters(given: Mapping[str, Any]) -> None:
    """Refuse what asks by hidden fields, because the answer would tell what is in them.

    Raises:
        Rejected: 403.
    """
    for field in HIDDEN_FIELDS:
        if given.get(field) is not None:
            raise Rejected(403, f"{field}: errors are hidden from this account, so it cannot ask by them")
