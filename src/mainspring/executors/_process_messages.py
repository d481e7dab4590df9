"""What a worker and the processes of its functions send each other: a length and a kind, then JSON or text."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from mainspring.core.ids import JobId, RunId, SessionId
from mainspring.core.outcomes import Failure
from mainspring.ports.executor import AttemptContext, NotBegun, Outcome, Snooze, Success

READY, CALL, OUTPUT, REPLY = b"R", b"C", b"O", b"A"
_KINDS = frozenset({READY, CALL, OUTPUT, REPLY})
_HEAD = struct.Struct("!I1s")
_SKIPPED = struct.Struct("!Q")
_LONGEST = 4 << 20
"""Bytes of a message, at most: none comes near."""


class NoMessage(Exception):
    """What has arrived is none: a function has written to the connection, which its process cannot hide from it."""


class CallMessage(msgspec.Struct, array_like=True, gc=False):
    """A call: where the function is, and all that its attempt knows.

    Attributes:
        unwraps: how many decorators are around the function where its module names it.
    """

    module: str
    qualname: str
    unwraps: int
    function: str
    run_id: int
    job_id: UUID
    job_name: str
    tenant: str
    attempt: int
    token: int
    fire_at: datetime | None
    due_at: datetime
    target_key: str | None
    payload: bytes | None
    params: dict[str, Any]
    timeout: timedelta
    soft_timeout: timedelta | None
    session_id: int
    trace: bytes | None

    def context(self) -> AttemptContext:
        """Return the attempt."""
        return AttemptContext(
            RunId(self.run_id),
            JobId(self.job_id),
            self.job_name,
            self.tenant,
            self.attempt,
            self.token,
            self.fire_at,
            self.due_at,
            self.target_key,
            self.payload,
            self.params,
            self.timeout,
            self.soft_timeout,
            SessionId(self.session_id),
            self.trace,
        )


class _Reply(msgspec.Struct, omit_defaults=True, gc=False):
    success: Success | None = None
    failure: Failure | None = None
    snooze: Snooze | None = None


_read_call = msgspec.json.Decoder(CallMessage).decode
_read_reply = msgspec.json.Decoder(_Reply).decode


def frame(kind: bytes, body: bytes) -> bytes:
    """Return a message."""
    return _HEAD.pack(len(body), kind) + body


class Frames:
    """Cuts what arrives into messages."""

    def __init__(self) -> None:
        self._data = bytearray()

    def take(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the kind and the body of each message that is complete with this data.

        Raises:
            NoMessage: what has arrived is none.
        """
        self._data += data
        while len(self._data) >= _HEAD.size:
            size, kind = _HEAD.unpack_from(self._data)
            if size > _LONGEST or kind not in _KINDS:
                raise NoMessage
            end = _HEAD.size + size
            if len(self._data) < end:
                return
            body = bytes(self._data[_HEAD.size : end])
            del self._data[:end]
            yield kind, body


def write_call(place: tuple[str, str, int], function: str, context: AttemptContext) -> bytes:
    """Return the body of a call.

    Args:
        place: the function's module, its name there, and how many decorators are around it.
    """
    return msgspec.json.encode(
        CallMessage(
            *place,
            function,
            context.run_id,
            context.job_id,
            context.job_name,
            context.tenant,
            context.attempt,
            context.token,
            context.fire_at,
            context.due_at,
            context.target_key,
            context.payload,
            _plain(context.params),
            context.timeout,
            context.soft_timeout,
            context.session_id,
            context.trace,
        )
    )


def _plain(params: Mapping[str, Any]) -> dict[str, Any]:
    return params if isinstance(params, dict) else dict(params)


def read_call(body: bytes) -> CallMessage:
    """Read the body of a call."""
    return _read_call(body)


def write_reply(outcome: Outcome) -> bytes:
    """Return the body of a reply."""
    assert not isinstance(outcome, NotBegun), "the worker has asked whether it may begin"
    if isinstance(outcome, Success):
        return msgspec.json.encode(_Reply(success=outcome))
    if isinstance(outcome, Snooze):
        return msgspec.json.encode(_Reply(snooze=outcome))
    return msgspec.json.encode(_Reply(failure=outcome))


def read_reply(body: bytes) -> Outcome:
    """Read the body of a reply.

    Raises:
        NoMessage: it is none.
    """
    try:
        reply = _read_reply(body)
    except msgspec.MsgspecError:
        raise NoMessage from None
    outcome = reply.success or reply.failure or reply.snooze
    if outcome is None:
        raise NoMessage
    return outcome


def write_output(skipped: int, text: str) -> bytes:
    """Return the body of what was printed.

    Args:
        skipped: how many characters before it were left out.
    """
    return _SKIPPED.pack(skipped) + text.encode("utf-8", "replace")


def read_output(body: bytes) -> tuple[int, str]:
    """Read the body of what was printed.

    Raises:
        NoMessage: it is none.
    """
    if len(body) < _SKIPPED.size:
        raise NoMessage
    return _SKIPPED.unpack_from(body)[0], body[_SKIPPED.size :].decode("utf-8", "replace")
