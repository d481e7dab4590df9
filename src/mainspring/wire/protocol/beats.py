"""Heartbeats."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from mainspring.ports.gateway import BeatReply
from mainspring.wire.protocol.leases import LeaseKey, from_keys, to_keys
from mainspring.wire.protocol.sessions import SessionText


class BeatBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A heartbeat: the leases that the session holds, and the number of the last claim that was answered."""

    session_id: SessionText
    held: Annotated[
        list[LeaseKey],
        Meta(description="Every lease under way, and those that have ended but are not yet reported."),
    ] = []
    answered: Annotated[
        Annotated[int, Meta(ge=0, le=2**62)] | None,
        Meta(
            description="The last claim answered when `held` was read, 0 before the first; null: all of them."
        ),
    ] = None


class BeatView(Struct, kw_only=True):
    """The answer to a heartbeat."""

    is_session_live: Annotated[
        bool, Meta(description="False: the session is dead and all its leases are lost; register again.")
    ]
    lost: Annotated[
        list[LeaseKey], Meta(description="Held leases that this session has lost: stop, report nothing.")
    ]
    cancel: Annotated[
        list[LeaseKey], Meta(description="Held leases whose cancel was requested: stop, report `stopped`.")
    ]
    preempt: Annotated[
        list[LeaseKey],
        Meta(
            description="Held leases that make room for more urgent work: stop, report `handed_back` with `reason`."
        ),
    ]


class BeatAnswerIn(BeatView, kw_only=True):
    """The same answer as a client reads it."""

    preempt: list[LeaseKey] = []  # an older server does not send it


def from_beat_reply(reply: BeatReply) -> BeatView:
    """Write the answer to a heartbeat."""
    return BeatView(
        is_session_live=reply.is_session_live,
        lost=from_keys(reply.lost),
        cancel=from_keys(reply.cancel),
        preempt=from_keys(reply.preempt),
    )


def to_beat_reply(view: BeatAnswerIn) -> BeatReply:
    """Read the answer to a heartbeat."""
    return BeatReply(
        is_session_live=view.is_session_live,
        lost=to_keys(view.lost),
        cancel=to_keys(view.cancel),
        preempt=to_keys(view.preempt),
    )
