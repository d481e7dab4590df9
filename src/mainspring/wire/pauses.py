"""What is paused, as the HTTP API takes and shows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from mainspring.core.blackouts import BlackoutState
from mainspring.core.pauses import PAUSE_OPTIONS, Pause, PauseMode, PauseScope
from mainspring.wire.blackouts import BlackoutView, view_blackouts
from mainspring.wire.policies import body_of
from mainspring.wire.views import Instant

PauseBody: Any = body_of("PauseBody", "How to pause.", PAUSE_OPTIONS, module=__name__)


class PauseView(Struct, kw_only=True):
    """A pause that is on."""

    scope: Annotated[str, Meta(extra_json_schema={"enum": [scope.value for scope in PauseScope]})]
    name: Annotated[str, Meta(description="Of the queue or tenant; empty for everything.")]
    mode: Annotated[str, Meta(extra_json_schema={"enum": [mode.value for mode in PauseMode]})]
    note: str
    made_by: str
    since: Instant
    until: Annotated[Instant | None, Meta(description="When it ends by itself; null: when somebody resumes.")]


class PauseList(Struct):
    """All pauses that are on, and all blackouts."""

    items: list[PauseView]
    blackouts: Annotated[
        list[BlackoutView], Meta(description="What calendars pause, also if they do not hold now.")
    ] = field(default_factory=list)


def view_pauses(pauses: Iterable[Pause], blackouts: Iterable[BlackoutState]) -> PauseList:
    """Show pauses and blackouts."""
    return PauseList(
        [
            PauseView(
                scope=pause.scope.value,
                name=pause.name,
                mode=pause.mode.value,
                note=pause.note,
                made_by=pause.made_by,
                since=pause.since,
                until=pause.until,
            )
            for pause in pauses
        ],
        view_blackouts(blackouts),
    )
