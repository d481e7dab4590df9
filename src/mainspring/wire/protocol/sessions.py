"""Sessions: register and leave."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from mainspring.core.ids import SessionId
from mainspring.ports.gateway import MAX_SLOTS, Registration

SessionText = Annotated[
    str,
    Meta(
        pattern="^ses_[0-9]{1,18}$",
        examples=["ses_17"],
        description="The session, as `register` answered it.",
    ),
]
Name = Annotated[str, Meta(max_length=200)]


class RegisterBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a worker offers for the length of a session."""

    name: Annotated[str, Meta(min_length=1, max_length=200, description="Its name, for people.")]
    host: Annotated[str, Meta(max_length=255, description="Its host, for people.")] = ""
    pid: Annotated[int, Meta(ge=0, le=2**31 - 1, description="Its process, for people.")] = 0
    slots: Annotated[int, Meta(ge=1, le=MAX_SLOTS, description="Attempts at a time; for people.")] = 1
    queues: Annotated[list[Name], Meta(max_length=10_000, description="Queues it serves; none is all.")] = []
    types: Annotated[
        list[Name], Meta(max_length=10_000, description="Target types it carries out: `http`, `shell`.")
    ] = []
    functions: Annotated[
        list[Name], Meta(max_length=10_000, description="Functions it carries out, by name.")
    ] = []
    labels: Annotated[
        list[Name], Meta(max_length=10_000, description="Labels it offers; a job needs all of its own.")
    ] = []


class SessionBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which session speaks."""

    session_id: SessionText


class SessionGranted(Struct, kw_only=True):
    """A granted session."""

    session_id: SessionText
    beat_period_seconds: Annotated[
        float, Meta(description="Beat at least so often; three periods of silence end the session.")
    ]


def read_session(text: str) -> SessionId:
    """Read `ses_…`."""
    return SessionId(int(text.removeprefix("ses_")))


def show_session(session_id: SessionId) -> str:
    """Write `ses_…`."""
    return f"ses_{session_id}"


def to_registration(body: RegisterBody) -> Registration:
    """Read a registration."""
    return Registration(
        name=body.name,
        host=body.host,
        pid=body.pid,
        slots=body.slots,
        queues=tuple(body.queues),
        types=tuple(body.types),
        functions=tuple(body.functions),
        labels=tuple(body.labels),
    )


def from_registration(registration: Registration) -> RegisterBody:
    """Write a registration."""
    return RegisterBody(
        name=registration.name,
        host=registration.host,
        pid=registration.pid,
        slots=registration.slots,
        queues=list(registration.queues),
        types=list(registration.types),
        functions=list(registration.functions),
        labels=list(registration.labels),
    )
