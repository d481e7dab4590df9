"""Priority classes, as the HTTP API takes and shows them."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from mainspring.core.priorities import CLASS_OPTIONS, PriorityClass
from mainspring.wire.policies import body_of

PriorityClassBody: Any = body_of(
    "PriorityClassBody", "What is to be set for a priority class.", CLASS_OPTIONS, module=__name__
)


class PriorityClassView(Struct, kw_only=True):
    """A priority class."""

    name: str
    tier: str
    preempts: bool
    preemptible: bool


class PriorityClassPage(Struct):
    """A page of priority classes; `next` is the value of `after` for the page that follows."""

    items: list[PriorityClassView]
    next: str | None


def view_class(one: PriorityClass) -> PriorityClassView:
    """Show a priority class."""
    return PriorityClassView(
        name=one.name, tier=one.tier.name, preempts=one.preempts, preemptible=one.preemptible
    )
