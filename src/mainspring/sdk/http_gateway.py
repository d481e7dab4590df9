"""The engine as a worker in another process reaches it: the open worker protocol over HTTP."""

from __future__ import annotations

from datetime import timedelta

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
    ReportView,
    SessionBody,
    SessionGranted,
)

_PATH = "/api/v1/worker"


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

    async def beat(self, session_id: SessionId, held: tuple[tuple[RunId, int], ...]) -> BeatReply:
        """Say that the session lives and what it holds."""
        body = BeatBody(session_id=protocol.show_session(session_id), held=protocol.from_keys(held))
        return protocol.to_beat_reply(
            await self._transport.call("POST", f"{_PATH}/beat", BeatView, body=body)
        )

    async def report(self, session_id: SessionId, reports: tuple[Report, ...]) -> tuple[ReportResult, ...]:
        """Say how attempts ended."""
        items = [protocol.from_report(report) for report in reports]
        body = ReportBody(session_id=protocol.show_session(session_id), reports=items)
        view = await self._transport.call("POST", f"{_PATH}/report", ReportView, body=body)
        return tuple(ReportResult(result) for result in view.results)

    async def leave(self, session_id: SessionId) -> None:
        """End the session."""
        body = SessionBody(session_id=protocol.show_session(session_id))
        await self._transport.call("POST", f"{_PATH}/leave", type(None), body=body)
