"""Heartbeats."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from mainspring.ports.gateway import BeatReply
from mainspring.wire.protocol.leases import LeaseKey, from_keys, to_keys
from mainspring.wire.protocol.sessions import SessionText


class BeatBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A heartbeat: what the session holds, and the number of the last claim whose answer has arrived."""

    session_id: SessionText
    held: Annotated[
        list[LeaseKey],
        Meta(description="Every lease under way, and those that ended and are not yet reported."),
    ] = []
    answered: Annotated[
        Annotated[int, Meta(ge=0, le=2**62)] | None,
        Meta(description="The last claim answered when `held` was read, 0 before; null takes it for all."),
    ] = None


class BeatView(Struct, kw_only=True):
    """What a heartbeat brings back."""

    is_session_live: Annotated[
        bool, Meta(description="False: the session is dead and all that is held is lost; register anew.")
    ]
    lost: Annotated[
        list[LeaseKey], Meta(description="Of those held, no longer this session's: stop, report nothing.")
    ]
    cancel: Annotated[
        list[LeaseKey], Meta(description="Of those held, to be cancelled: stop, report `stopped`.")
    ]


def from_beat_reply(reply: BeatReply) -> BeatView:
    """Write what a heartbeat brings back."""
    return BeatView(
        is_session_live=reply.is_session_live, lost=from_keys(reply.lost), cancel=from_keys(reply.cancel)
    )


def to_beat_reply(view: BeatView) -> BeatReply:
    """Read what a heartbeat brings back."""
    return BeatReply(
        is_session_live=view.is_session_live, lost=to_keys(view.lost), cancel=to_keys(view.cancel)
    )
