"""The maximum of a job's fires: with which triggers it goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.core.model import JobSpec
from mainspring.core.triggers import TRIGGERS, type_of
from mainspring.core.triggers.reading import HEADS
from mainspring.errors import InvalidInput

MOST_FIRES = 10_000
_FIELD = "max_fires"


def check_max_fires(spec: JobSpec, body: Mapping[str, Any]) -> None:
    """Refuse a maximum of fires where there is nothing to count.

    Args:
        body: what the user wrote, to say which field is to be changed.

    Raises:
        InvalidInput: the job has no trigger, or one that does not recur by a rule.
    """
    if spec.max_fires is None:
        return
    other = "leave max_fires out" if _FIELD in body else "set max_fires to null, too"
    if spec.trigger is None:
        raise InvalidInput(
            _FIELD, f"goes with a trigger; give one of {', '.join([*TRIGGERS.heads, *HEADS])}, or {other}"
        )
    kind = type_of(spec.trigger)
    if kind is not None and not kind.is_recurring:
        raise InvalidInput(
            _FIELD, f"goes with a trigger that recurs, not with {kind.head or kind.name}; {other}"
        )
