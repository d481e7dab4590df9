"""Blackouts, as the HTTP API takes and shows them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import Meta, Struct

from mainspring.core.blackouts import BLACKOUT_OPTIONS, MOST_BLACKOUTS, BlackoutState
from mainspring.core.pauses import PauseMode, PauseScope
from mainspring.wire.views import Instant


class BlackoutsBody(Struct, kw_only=True):
    """All blackouts of a queue, of a tenant, or of everything."""

    items: Annotated[
        list[Any],
        Meta(
            max_length=MOST_BLACKOUTS,
            description="They take the place of those that there are; an empty list removes them.",
            extra_json_schema={"items": BLACKOUT_OPTIONS.schema()},
        ),
    ]


class BlackoutView(Struct, kw_only=True):
    """A blackout, and how it stands now."""

    scope: Annotated[str, Meta(extra_json_schema={"enum": [scope.value for scope in PauseScope]})]
    name: Annotated[str, Meta(description="Of the queue or tenant; empty for everything.")]
    tenant: Annotated[str, Meta(description="Whose calendar it is.")]
    calendar: Annotated[str, Meta(description="As it was named: with a version, or without.")]
    version: Annotated[int, Meta(description="Of the calendar, by which it goes.")]
    mode: Annotated[str, Meta(extra_json_schema={"enum": [mode.value for mode in PauseMode]})]
    note: str
    made_by: str
    since: Annotated[Instant, Meta(description="When it was set.")]
    is_on: Annotated[bool, Meta(description="Whether the calendar holds now.")]
    until: Annotated[
        Instant | None, Meta(description="When it ends, if it is on; null: it is not, or never ends.")
    ]
    next_at: Annotated[
        Instant | None,
        Meta(description="When it begins, if it is not on; null: it is, or never begins again."),
    ]


class BlackoutList(Struct):
    """The blackouts of a queue, of a tenant, or of everything."""

    items: list[BlackoutView]


def view_blackouts(states: Iterable[BlackoutState]) -> list[BlackoutView]:
    """Show blackouts."""
    return [
        BlackoutView(
            scope=one.blackout.scope.value,
            name=one.blackout.name,
            tenant=one.blackout.tenant,
            calendar=one.blackout.named,
            version=one.blackout.version,
            mode=one.blackout.mode.value,
            note=one.blackout.note,
            made_by=one.blackout.made_by,
            since=one.blackout.since,
            is_on=one.is_on,
            until=one.until,
            next_at=one.next_at,
        )
        for one in states
    ]
