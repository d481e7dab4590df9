"""The open worker protocol over HTTP; any language can speak it (see docs/reference/worker-protocol.md)."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import post

from mainspring.api.reading import AnyRequest, read_struct
from mainspring.api.tenancy import gateway_of
from mainspring.ports.gateway import ClaimCall, ClaimReply
from mainspring.wire import protocol

BEAT_LIMIT = 4 * 1024 * 1024
"""Bytes of a heartbeat, which names everything that is held: about 80,000 leases."""


@post("/register", operation_id="worker_register", summary="Open a worker session", status_code=201)
async def register(request: AnyRequest) -> protocol.SessionGranted:
    """Open a session; beat at least once in every period."""
    body = await read_struct(request, protocol.RegisterBody)
    session = await gateway_of(request).register(protocol.to_registration(body))
    return protocol.SessionGranted(
        session_id=protocol.show_session(session.id),
        beat_period_seconds=session.beat_period.total_seconds(),
    )


@post("/claim", operation_id="worker_claim", summary="Take leases", status_code=200)
async def claim(request: AnyRequest) -> protocol.ClaimAnswerView:
    """Take leases, waiting up to `wait_seconds` for the first; a repeated number gets the same answer.

    A claim whose connection is closed waits no longer.
    """
    body = await read_struct(request, protocol.ClaimBody)
    return protocol.from_claim_reply(await _claim_while_connected(request, protocol.to_claim(body)))


async def _claim_while_connected(request: AnyRequest, call: ClaimCall) -> ClaimReply:
    """Claim for as long as there is somebody to answer.

    Runs that were taken in the very moment in which the connection broke are not handed back here: the worker may be
    alive and repeat the number, and a repeat that overtook the hand-back would start a run that is no longer its own.
    """
    asking = asyncio.ensure_future(gateway_of(request).claim(call))
    leaving = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait((asking, leaving), return_when=asyncio.FIRST_COMPLETED)
        return asking.result() if asking.done() else ClaimReply()  # nobody reads the empty one
    finally:
        asking.cancel()
        leaving.cancel()


async def _wait_for_disconnect(request: AnyRequest) -> None:
    """Return when the client has closed the connection; the body was read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


@post("/beat", operation_id="worker_beat", summary="Send a heartbeat", status_code=200)
async def beat(request: AnyRequest) -> protocol.BeatView:
    """Say that the session lives and what it holds; learn what it lost and what to cancel."""
    body = await read_struct(request, protocol.BeatBody, limit=BEAT_LIMIT)
    session_id = protocol.read_session(body.session_id)
    held = protocol.to_keys(body.held)
    return protocol.from_beat_reply(await gateway_of(request).beat(session_id, held, answered=body.answered))


@post("/report", operation_id="worker_report", summary="Say how attempts ended", status_code=200)
async def report(request: AnyRequest) -> protocol.ReportView:
    """Say how attempts ended; a repeat of an applied report is applied again, a late one is stale."""
    body = await read_struct(request, protocol.ReportBody)
    reports = tuple(protocol.to_report(item, index) for index, item in enumerate(body.reports))
    results = await gateway_of(request).report(protocol.read_session(body.session_id), reports)
    return protocol.ReportView(results=[result.value for result in results])


@post("/leave", operation_id="worker_leave", summary="End a session", status_code=204)
async def leave(request: AnyRequest) -> None:
    """End the session; whatever it still holds is treated as lost at once."""
    body = await read_struct(request, protocol.SessionBody)
    await gateway_of(request).leave(protocol.read_session(body.session_id))


ROUTES: list[Any] = [register, claim, beat, report, leave]
