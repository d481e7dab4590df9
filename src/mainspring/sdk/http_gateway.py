"""The engine as a worker in another process reaches it: the open worker protocol over HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

import msgspec

from mainspring.core.ids import RunId, SessionId
from mainspring.ports.gateway import (
    BeatReply,
    ClaimCall,
    ClaimReply,
    Registration,
    Report,
    ReportResult,
    Session,
)
from mainspring.sdk.transport import Transport
from mainspring.wire import protocol
from mainspring.wire.protocol import (
    BeatBody,
    BeatView,
    ClaimAnswerIn,
    ReportBody,
    ReportItem,
    ReportView,
    SessionBody,
    SessionGranted,
)

_PATH = "/api/v1/worker"
_PART_BYTES = 800_000
"""Of reports in one request, at most; a server reads 1 MiB."""


class HttpGateway:
    """Implements `WorkerGateway` on a server's address.

    Every call may be repeated: sessions are cheap, claims carry a number, reports a token.
    """

    def __init__(self, server: str) -> None:
        self._transport = Transport(server)

    async def start(self) -> None:
        """Open the HTTP session."""
        await self._transport.start()

    async def close(self) -> None:
        """Close the HTTP session."""
        await self._transport.close()

    async def register(self, registration: Registration) -> Session:
        """Open a session."""
        body = protocol.from_registration(registration)
        granted = await self._transport.call("POST", f"{_PATH}/register", SessionGranted, body=body)
        return Session(
            id=protocol.read_session(granted.session_id),
            beat_period=timedelta(seconds=granted.beat_period_seconds),
        )

    async def claim(self, call: ClaimCall) -> ClaimReply:
        """Take leases, waiting up to `call.wait` for the first."""
        body = protocol.from_claim(call)
        answer = await self._transport.call("POST", f"{_PATH}/claim", ClaimAnswerIn, body=body)
        return protocol.to_claim_reply(answer)

    async def beat(
        self, session_id: SessionId, held: tuple[tuple[RunId, int], ...], *, answered: int | None = None
    ) -> BeatReply:
        """Say that the session lives and what it holds."""
        body = BeatBody(
            session_id=protocol.show_session(session_id), held=protocol.from_keys(held), answered=answered
        )
        return protocol.to_beat_reply(
            await self._transport.call("POST", f"{_PATH}/beat", BeatView, body=body)
        )

    async def report(self, session_id: SessionId, reports: tuple[Report, ...]) -> tuple[ReportResult, ...]:
        """Say how attempts ended, in as many requests as it takes; after an error all of it may be repeated."""
        results: list[ReportResult] = []
        for part in _parts(reports):
            body = ReportBody(session_id=protocol.show_session(session_id), reports=part)
            view = await self._transport.call("POST", f"{_PATH}/report", ReportView, body=body)
            results += [ReportResult(result) for result in view.results]
        return tuple(results)

    async def leave(self, session_id: SessionId) -> None:
        """End the session."""
        body = SessionBody(session_id=protocol.show_session(session_id))
        await self._transport.call("POST", f"{_PATH}/leave", type(None), body=body)


def _parts(reports: Iterable[Report]) -> Iterator[list[ReportItem]]:
    """Divide reports into requests that a server reads; a report that is longer goes by itself."""
    part: list[ReportItem] = []
    size = 0
    for report in reports:
        item = protocol.from_report(report)
        length = len(msgspec.json.encode(item)) + 1
        if part and size + length > _PART_BYTES:
            yield part
            part, size = [], 0
        part.append(item)
        size += length
    if part:
        yield part
