"""What an event is, and the envelope in which jobs get it: that of CloudEvents 1.0."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from mainspring.core.fields import decode_payload, read_text
from mainspring.core.times import write_instant
from mainspring.core.values import value
from mainspring.errors import InvalidInput

MAX_TOPIC = 255
MAX_KEY = 255
MAX_ID = 200
ID_PREFIX = "\x01event\x01"
"""How the keys begin under which ids of events are remembered. No caller's key may hold such a character."""


@value(kw_only=True)
class Event:
    """Something that has happened.

    Attributes:
        id: unique within its tenant for as long as it is remembered.
        topic: what kind of thing has happened.
        key: what it has happened to; None if nobody says.
        data: JSON text in UTF-8; None if there is none.
        received_at: when it was taken in.
    """

    tenant: str
    id: str
    topic: str
    key: str | None
    data: bytes | None
    received_at: datetime


def read_topic(given: object, path: str) -> str:
    """Read a topic.

    Raises:
        InvalidInput: it is none.
    """
    return _read_plain(given, path, MAX_TOPIC)


def read_event_key(given: object, path: str) -> str:
    """Read a key.

    Raises:
        InvalidInput: it is none.
    """
    return read_text(given, path, longest=MAX_KEY)


def read_event_id(given: object, path: str) -> str:
    """Read the id of an event.

    Raises:
        InvalidInput: it is none.
    """
    return _read_plain(given, path, MAX_ID)


def _read_plain(given: object, path: str, longest: int) -> str:
    text = read_text(given, path, longest=longest)
    if text != text.strip():
        raise InvalidInput(path, "must not begin or end with a space")
    return text


def envelope_of(event: Event) -> dict[str, Any]:
    """Return an event as jobs and patterns see it."""
    found: dict[str, Any] = {
        "specversion": "1.0",
        "id": event.id,
        "source": f"/tenants/{event.tenant}",
        "type": event.topic,
        "time": write_instant(event.received_at),
    }
    if event.key is not None:
        found["key"] = event.key
    if event.data is not None:
        found["data"] = decode_payload(event.data)
    return found
