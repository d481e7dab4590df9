"""Events, as the HTTP API takes and shows them."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from mainspring.core.events.model import MAX_ID, MAX_KEY, MAX_TOPIC
from mainspring.core.ids import format_run_id
from mainspring.ports.store.events import EventResult, KeptEvent
from mainspring.wire.views import Instant, RunIdText

_TOPIC = Meta(
    description="What kind of thing has happened.",
    examples=["orders.paid"],
    extra_json_schema={"minLength": 1, "maxLength": MAX_TOPIC},
)
_KEY = Meta(
    description="What it has happened to, like an order's number.",
    examples=["4711"],
    extra_json_schema={"minLength": 1, "maxLength": MAX_KEY},
)
_ID = Meta(
    description="The sender's id of the event. A repeated one changes nothing. Without it, each request is another"
    " event.",
    examples=["pay-4711"],
    extra_json_schema={"minLength": 1, "maxLength": MAX_ID},
)


class EventBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Something that has happened."""

    topic: Annotated[str, _TOPIC]
    key: Annotated[str | None, _KEY] = None
    data: Annotated[
        Any | UnsetType, Meta(description="What else is to be said of it: any JSON, up to 64 KiB.")
    ] = UNSET
    id: Annotated[str | None, _ID] = None


class SentView(Struct, kw_only=True):
    """What became of an event."""

    event_id: Annotated[str, Meta(description="Its id: the sender's, or the one that was made.")]
    status: Annotated[
        str,
        Meta(
            description="`added`; `known`: one of its id was added before; of many also `mismatch`: so it was, but with"
            " another topic, key or data."
        ),
    ]
    run_ids: Annotated[list[RunIdText], Meta(description="The runs that it has started now.")]


class EventView(Struct, kw_only=True):
    """An event that is kept."""

    event_id: str
    topic: str
    key: Annotated[str | None, Meta(description="Null if there is none, or if it is hidden from you.")]
    data: Annotated[Any, Meta(description="Null if there is none, or if it is hidden from you.")]
    received_at: Instant


class EventPage(Struct):
    """A page of events, the newest first; `next` is the value of `before` for the page that follows."""

    items: list[EventView]
    next: str | None


def view_sent(event_id: str, result: EventResult) -> SentView:
    """Show what became of an event."""
    run_ids = [format_run_id(run_id) for run_id in result.run_ids]
    return SentView(event_id=event_id, status=result.status.value, run_ids=run_ids)


def view_event(kept: KeptEvent) -> EventView:
    """Show an event."""
    event = kept.event
    return EventView(
        event_id=event.id,
        topic=event.topic,
        key=event.key,
        data=None if event.data is None else Raw(event.data),
        received_at=event.received_at,
    )
