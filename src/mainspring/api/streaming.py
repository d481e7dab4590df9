"""Answers whose end is not known when they begin: they are sent as they come, until their caller leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from starlette.types import Receive, Send


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """An answer that is sent piece by piece.

    Attributes:
        pieces: what is sent. Whoever makes it has taken its first piece, so that nothing is refused from here on.
        headers: those besides type and request id.
    """

    pieces: AsyncIterator[bytes]
    media_type: str
    headers: Mapping[str, str] = field(default_factory=dict)


async def send_stream(
    stream: Stream, receive: Receive, send: Send, headers: list[tuple[bytes, bytes]]
) -> None:
    """Send a stream until it ends, its caller leaves, or the server stops.

    Args:
        headers: all headers of the answer.
    """
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    sending = asyncio.ensure_future(_send_pieces(stream.pieces, send))
    leaving = asyncio.ensure_future(_wait_for_disconnect(receive))
    try:
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:  # the server stops: who still listens goes on at another one
        pass
    finally:
        is_left = leaving.done()
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
    if not is_left:
        with suppress(OSError):
            await send({"type": "http.response.body", "body": b""})


async def _send_pieces(pieces: AsyncIterator[bytes], send: Send) -> None:
    async for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
