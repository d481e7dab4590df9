"""Operations on events."""

from __future__ import annotations

from mainspring.core.events.model import MAX_TOPIC
from mainspring.core.rights import Right
from mainspring.wire.events import EventBody, EventPage, SentView
from mainspring.wire.operation import BULK_LIMIT, Body, Operation, Parameter
from mainspring.wire.operations.common import API, LIMIT

_EVENTS = f"{API}/events"

SEND_EVENT = Operation(
    id="send_event",
    method="POST",
    path=_EVENTS,
    right=Right.SUBMIT,
    summary="Send an event",
    description="Keep an event, and start the jobs that listen to it (202). What is answered has happened. A known `id`"
    " changes nothing (200); with another topic, key or data it is a conflict.",
    body=Body(EventBody, EventBody),
    answer=SentView,
    statuses=(202, 200),
    is_conflicting=True,
    is_rationed=True,
)
SEND_EVENTS = Operation(
    id="send_events",
    method="POST",
    path=f"{_EVENTS}/bulk",
    right=Right.SUBMIT,
    summary="Send many events",
    description=f"Send up to {BULK_LIMIT:,} events, in order. An invalid one refuses all; a known id, only that event.",
    body=Body(list[EventBody], list[EventBody]),
    answer=list[SentView],
    statuses=(202,),
    is_conflicting=True,
    is_rationed=True,
)
LIST_EVENTS = Operation(
    id="list_events",
    method="GET",
    path=_EVENTS,
    right=Right.READ,
    summary="List events",
    description="Return a page of the events that are kept, the newest first.",
    query=(
        LIMIT,
        Parameter("before", "Only events before this one: the `next` of the previous page."),
        Parameter("topic", "Only events of this topic.", lengths=(1, MAX_TOPIC)),
    ),
    answer=EventPage,
)
