"""Events: send and list."""

from __future__ import annotations

from msgspec import UNSET

from mainspring.api.call import Answer, Call, Endpoint, handles
from mainspring.api.reading import check_bulk
from mainspring.core.events.model import read_event_id, read_event_key, read_topic
from mainspring.core.fields import read_payload
from mainspring.engine.usecases.events import EventRequest
from mainspring.errors import InvalidInput
from mainspring.ports.store.events import EventStatus
from mainspring.wire import operations
from mainspring.wire.events import EventBody, EventPage, SentView, view_event, view_sent

_LONGEST_NUMBER = 19


@handles(operations.SEND_EVENT)
async def send_event(call: Call, body: EventBody) -> Answer[SentView]:
    sent = await call.engine.events.send(call.tenant, _request(body, ""))
    is_new = sent.result.status is EventStatus.ADDED
    return Answer(view_sent(sent.id, sent.result), status=202 if is_new else 200)


@handles(operations.SEND_EVENTS)
async def send_events(call: Call, items: list[EventBody]) -> Answer[list[SentView]]:
    check_bulk(items, "events")
    requests = [_request(item, f"[{index}].") for index, item in enumerate(items)]
    sent = await call.engine.events.send_many(call.tenant, requests)
    return Answer([view_sent(one.id, one.result) for one in sent], status=202)


def _request(body: EventBody, prefix: str) -> EventRequest:
    data = None
    if body.data is not UNSET:
        data = b"null" if body.data is None else read_payload(body.data, f"{prefix}data")
    return EventRequest(
        topic=read_topic(body.topic, f"{prefix}topic"),
        key=None if body.key is None else read_event_key(body.key, f"{prefix}key"),
        data=data,
        id=None if body.id is None else read_event_id(body.id, f"{prefix}id"),
    )


@handles(operations.LIST_EVENTS)
async def list_events(call: Call) -> EventPage:
    query = call.query
    limit: int = query["limit"]
    before = _number(query["before"]) if "before" in query else None
    topic = read_topic(query["topic"], "topic") if "topic" in query else None
    found = await call.engine.events.list_page(call.tenant, topic=topic, before=before, limit=limit)
    following = str(found[-1].number) if len(found) == limit else None
    return EventPage([view_event(kept) for kept in found], following)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < _LONGEST_NUMBER):
        raise InvalidInput("before", f"{text[:60]!r} is not what `next` of a page has, like 17")
    return int(text)


ROUTES: list[Endpoint] = [send_event, send_events, list_events]
