"""Limits that jobs share, as the HTTP API takes and shows them."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from mainspring.core.ids import format_run_id
from mainspring.core.limit_settings import LIMIT_OPTIONS
from mainspring.core.limits import LimitRule
from mainspring.ports.store.limits import KeyUse
from mainspring.wire.policies import body_of
from mainspring.wire.views import Instant, RunIdText

LimitBody: Any = body_of("LimitBody", "What is to be set for a limit.", LIMIT_OPTIONS, module=__name__)


class LimitView(Struct, kw_only=True):
    """A limit that jobs share."""

    name: str
    max_running: int | None
    rate: str | None
    burst: int | None
    hold: str


class LimitPage(Struct):
    """A page of limits; `next` is the value of `after` for the page that follows."""

    items: list[LimitView]
    next: str | None


class KeyView(Struct, kw_only=True):
    """How much of a key is taken."""

    key: Annotated[
        str | None,
        Meta(description="Empty: that of jobs that name none. Null if payloads are hidden from you."),
    ]
    held: Annotated[int, Meta(description="How many runs have a place under it.")]
    run_ids: Annotated[list[RunIdText], Meta(description="Some of them, at most five.")]
    next_permit_at: Annotated[
        Instant | None,
        Meta(description="When its rate allows the next start; null: now, or there is no rate."),
    ]
    waiting_since: Annotated[
        Instant | None,
        Meta(description="Since when the first run in its line is ready, or from when on it is."),
    ]


class KeyPage(Struct):
    """A page of keys; `next` is the value of `after` for the page that follows."""

    items: list[KeyView]
    next: str | None


def view_limit(rule: LimitRule) -> LimitView:
    """Show a limit."""
    return LimitView(
        name=rule.name,
        max_running=rule.max_running,
        rate=None if rule.rate is None else rule.rate.text,
        burst=rule.burst,
        hold=rule.hold.value,
    )


def view_key(use: KeyUse) -> KeyView:
    """Show how much of a key is taken."""
    return KeyView(
        key=use.key,
        held=use.held,
        run_ids=[format_run_id(run_id) for run_id in use.run_ids],
        next_permit_at=use.next_permit_at,
        waiting_since=use.waiting_since,
    )
