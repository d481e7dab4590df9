"""Calls on events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mainspring.clock import UuidSource
from mainspring.core.ids import format_event_id
from mainspring.sdk.transport import Transport
from mainspring.wire import operations
from mainspring.wire.events import EventPage, SentView

_IDS = UuidSource()


class EventCalls(Transport):
    """A part of `AsyncClient`."""

    async def send_event(
        self, topic: str, data: Any = None, *, key: str | None = None, event_id: str | None = None
    ) -> SentView:
        """Send an event. When this returns, it is kept, and the runs that it starts are made.

        Args:
            data: any JSON.
            key: what it has happened to.
            event_id: the sender's own id: a repeated one changes nothing. By default a new one, under which this
                call may try again without sending two events.
        """
        return await self.call(operations.SEND_EVENT, body=_body(topic, data, key, event_id), may_repeat=True)

    async def send_events(self, events: Sequence[Mapping[str, Any]]) -> list[SentView]:
        """Send up to 1,000 events in order, each with `topic` and perhaps `key`, `data` and `id`."""
        bodies = [{"id": _new_id(), **event} for event in events]
        return await self.call(operations.SEND_EVENTS, body=bodies, may_repeat=True)

    async def list_events(
        self, *, topic: str | None = None, before: str | None = None, limit: int = 100
    ) -> EventPage:
        """Return a page of the events that are kept, the newest first."""
        query = {"topic": topic, "before": before, "limit": limit}
        return await self.call(operations.LIST_EVENTS, query=query)


def _body(topic: str, data: Any, key: str | None, event_id: str | None) -> dict[str, Any]:
    body = {"topic": topic, "id": event_id or _new_id()}
    if data is not None:
        body["data"] = data
    return body if key is None else {**body, "key": key}


def _new_id() -> str:
    return format_event_id(_IDS.new_uuid())
