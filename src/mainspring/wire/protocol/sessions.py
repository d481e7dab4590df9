"""Sessions: register and leave."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from mainspring.core.ids import SessionId
from mainspring.errors import InvalidInput
from mainspring.ports.gateway import MAX_SLOTS, Registration

WORKER_PROTOCOL = 2
"""The worker protocol that this version speaks. The number rises when calls or answers change in such a way that a
worker with the previous number cannot read them. New fields that such a worker may ignore do not change it."""
SessionText = Annotated[
    str,
    Meta(
        pattern="^ses_[0-9]{1,18}$",
        examples=["ses_17"],
        description="The session's id, from the answer to `register`.",
    ),
]
Name = Annotated[str, Meta(max_length=200)]


class RegisterBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a worker offers for the whole session."""

    # The list is only for the description. For any other number, the answer says what to upgrade.
    protocol: Annotated[
        int,
        Meta(
            description="The number of the worker protocol that the worker speaks.",
            examples=[WORKER_PROTOCOL],
            extra_json_schema={"enum": [WORKER_PROTOCOL]},
        ),
    ]
    name: Annotated[str, Meta(min_length=1, max_length=200, description="The worker's name, for people.")]
    host: Annotated[str, Meta(max_length=255, description="Its host, for people.")] = ""
    pid: Annotated[int, Meta(ge=0, le=2**31 - 1, description="Its process id, for people.")] = 0
    slots: Annotated[int, Meta(ge=1, le=MAX_SLOTS, description="Attempts at a time, for people.")] = 1
    queues: Annotated[
        list[Name], Meta(max_length=10_000, description="The queues it serves; empty means all.")
    ] = []
    types: Annotated[
        list[Name], Meta(max_length=10_000, description="The target types it executes: `http`, `shell`.")
    ] = []
    functions: Annotated[
        list[Name], Meta(max_length=10_000, description="The functions it executes, by name.")
    ] = []
    labels: Annotated[
        list[Name],
        Meta(
            max_length=10_000,
            description="The labels it offers; it gets jobs whose labels are all among them.",
        ),
    ] = []


class SessionBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The session that sends the request."""

    session_id: SessionText


class SessionGranted(Struct, kw_only=True):
    """A granted session."""

    session_id: SessionText
    beat_period_seconds: Annotated[
        float, Meta(description="Beat at least this often; three silent periods end the session.")
    ]
    tenant: Annotated[
        str | None, Meta(description="The only tenant whose runs it gets; null: those of all tenants.")
    ]
    queues: Annotated[
        list[str],
        Meta(
            description="The queues it serves, of those that the worker and its token name; empty means all."
        ),
    ]


class SessionGrantedIn(Struct, kw_only=True):
    """A granted session, as a worker reads it: servers of earlier releases tell less of it."""

    session_id: str
    beat_period_seconds: float
    tenant: str | None = None
    queues: list[str] = []


def read_session(text: str) -> SessionId:
    """Read `ses_…`."""
    return SessionId(int(text.removeprefix("ses_")))


def show_session(session_id: SessionId) -> str:
    """Write `ses_…`."""
    return f"ses_{session_id}"


def check_protocol(number: object) -> None:
    """Check the number of the worker protocol that a worker says it speaks.

    Call this before reading the other fields, because these may depend on the number.

    Args:
        number: the number that the worker sent; None if it sent none, like workers from before there were numbers.

    Raises:
        InvalidInput: the number is not this server's. The error says which side to upgrade.
    """
    if number == WORKER_PROTOCOL:
        return
    is_newer = isinstance(number, int) and number > WORKER_PROTOCOL
    outdated = "server" if is_newer else "worker"
    raise InvalidInput(
        "protocol", f"this server speaks worker protocol {WORKER_PROTOCOL}; upgrade the {outdated}"
    )


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
        protocol=WORKER_PROTOCOL,
        name=registration.name,
        host=registration.host,
        pid=registration.pid,
        slots=registration.slots,
        queues=list(registration.queues),
        types=list(registration.types),
        functions=list(registration.functions),
        labels=list(registration.labels),
    )
