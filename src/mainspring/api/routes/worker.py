"""The open worker protocol over HTTP; any language can speak it (see docs/reference/worker-protocol.md)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from mainspring.api.call import Call, Endpoint, handles
from mainspring.api.reading import convert
from mainspring.core.ids import SessionId
from mainspring.ports.gateway import BeatReply, ClaimCall, ClaimReply, ReportResult
from mainspring.wire import operations, protocol


@handles(operations.WORKER_REGISTER)
async def register(call: Call, body: dict[str, Any]) -> protocol.SessionGranted:
    protocol.check_protocol(body.get("protocol"))
    offer = convert(body, protocol.RegisterBody)
    account = None if call.identity is None else call.identity.name
    session = await call.services.gateway.register(replace(protocol.to_registration(offer), account=account))
    return protocol.SessionGranted(
        session_id=protocol.show_session(session.id),
        beat_period_seconds=session.beat_period.total_seconds(),
    )


@handles(operations.WORKER_CLAIM)
async def claim(call: Call, body: protocol.ClaimBody) -> protocol.ClaimAnswerView:
    claim_call = protocol.to_claim(body)
    if not await _is_own(call, claim_call.session_id):
        return protocol.from_claim_reply(ClaimReply(is_session_live=False))
    return protocol.from_claim_reply(await _claim_while_connected(call, claim_call))


async def _is_own(call: Call, session_id: SessionId) -> bool:
    """Return whether a session is the caller's. Another one's does not live for it, as one that was never there."""
    if call.identity is None:
        return True
    return await call.engine.session_owners.is_of(session_id, call.identity.name)


async def _claim_while_connected(call: Call, claim_call: ClaimCall) -> ClaimReply:
    """Claim, but stop when the client disconnects.

    If runs were taken at the very moment when the connection broke, they are not handed back here. The worker may be
    alive and repeat the number, and a repeat that overtook the hand-back would start a run that is no longer its own.
    """
    asking = asyncio.ensure_future(call.services.gateway.claim(claim_call))
    leaving = asyncio.ensure_future(_wait_for_disconnect(call))
    try:
        await asyncio.wait((asking, leaving), return_when=asyncio.FIRST_COMPLETED)
        return asking.result() if asking.done() else ClaimReply()  # nobody reads the empty reply
    finally:
        asking.cancel()
        leaving.cancel()


async def _wait_for_disconnect(call: Call) -> None:
    """Return when the client has closed the connection. The body must have been read."""
    while (await call.receive())["type"] != "http.disconnect":
        pass


@handles(operations.WORKER_BEAT)
async def beat(call: Call, body: protocol.BeatBody) -> protocol.BeatView:
    session_id = protocol.read_session(body.session_id)
    held = protocol.to_keys(body.held)
    if not await _is_own(call, session_id):
        return protocol.from_beat_reply(BeatReply(is_session_live=False))
    return protocol.from_beat_reply(
        await call.services.gateway.beat(session_id, held, answered=body.answered)
    )


@handles(operations.WORKER_REPORT)
async def report(call: Call, body: protocol.ReportBody) -> protocol.ReportView:
    reports = tuple(protocol.to_report(item, index) for index, item in enumerate(body.reports))
    session_id = protocol.read_session(body.session_id)
    if not await _is_own(call, session_id):
        return protocol.ReportView(results=[ReportResult.STALE.value] * len(reports))
    results = await call.services.gateway.report(session_id, reports)
    return protocol.ReportView(results=[result.value for result in results])


@handles(operations.WORKER_LEAVE)
async def leave(call: Call, body: protocol.SessionBody) -> None:
    session_id = protocol.read_session(body.session_id)
    if await _is_own(call, session_id):
        await call.services.gateway.leave(session_id)


ROUTES: list[Endpoint] = [register, claim, beat, report, leave]
