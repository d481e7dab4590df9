"""The open worker protocol over HTTP; any language can speak it (see docs/reference/worker-protocol.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mainspring.api.call import Call, Endpoint, handles
from mainspring.api.errors import Rejected
from mainspring.api.reading import convert
from mainspring.core.checkpoints import CheckpointVerdict
from mainspring.core.ids import SessionId
from mainspring.core.rights import Right
from mainspring.errors import Conflict
from mainspring.ports.checkpoints import KeptSteps
from mainspring.ports.gateway import BeatReply, ClaimCall, ClaimReply, LogResult, Registration, ReportResult
from mainspring.wire import operations, protocol
from mainspring.wire.protocol.leases import read_run_id

_MOST_NAMED = 10


@handles(operations.WORKER_REGISTER)
async def register(call: Call, body: dict[str, Any]) -> protocol.SessionGranted:
    protocol.check_protocol(body.get("protocol"))
    offer = convert(body, protocol.RegisterBody)
    session = await call.services.gateway.register(_bind(call, protocol.to_registration(offer)))
    return protocol.SessionGranted(
        session_id=protocol.show_session(session.id),
        beat_period_seconds=session.beat_period.total_seconds(),
        tenant=session.tenant,
        queues=list(session.queues),
    )


@handles(operations.WORKER_CLAIM)
async def claim(call: Call, body: protocol.ClaimBody) -> protocol.ClaimAnswerView:
    claim_call = protocol.to_claim(body)
    if not await is_own(call, claim_call.session_id):
        return protocol.from_claim_reply(ClaimReply(is_session_live=False))
    return protocol.from_claim_reply(await _claim_while_connected(call, claim_call))


def _bind(call: Call, offer: Registration) -> Registration:
    """Bind what a worker offers to what its token is for.

    Raises:
        Rejected: 403, the worker serves none of the queues that the token is for.
    """
    if call.identity is None:
        return offer
    queues = _cut(offer.queues, call.identity.token.queues)
    return replace(offer, account=call.identity.name, tenant=tenant_of(call), queues=queues)


def _cut(queues: tuple[str, ...], bounds: tuple[str, ...]) -> tuple[str, ...]:
    """Return the queues that a worker serves of those that its token is for. Empty means all."""
    if not bounds or not queues:
        return queues or bounds
    found = tuple(queue for queue in queues if queue in bounds)
    if not found:
        raise Rejected(
            403,
            f"this worker serves {_name(queues)}, but its token is only for {_name(bounds)};"
            " have it serve one of these, or make a token for others",
        )
    return found


def _name(queues: Sequence[str]) -> str:
    shown = ", ".join(map(repr, sorted(queues)[:_MOST_NAMED])) + (", …" if len(queues) > _MOST_NAMED else "")
    return f"the queue {shown}" if len(queues) == 1 else f"the queues {shown}"


def tenant_of(call: Call) -> str | None:
    """Return the only tenant for which the caller may work; None if it may for all."""
    return None if Right.WORK in call.principal.shared_rights else call.tenant


async def is_own(call: Call, session_id: SessionId) -> bool:
    """Return whether a session is the caller's, and reaches no further than its token.

    Another one's does not live for the caller, as one that was never there.
    """
    if call.identity is None:
        return True
    return await call.engine.session_owners.is_of(
        session_id, call.identity.name, tenant=tenant_of(call), queues=call.identity.token.queues
    )


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
    if not await is_own(call, session_id):
        return protocol.from_beat_reply(BeatReply(is_session_live=False))
    return protocol.from_beat_reply(
        await call.services.gateway.beat(session_id, held, answered=body.answered)
    )


@handles(operations.WORKER_REPORT)
async def report(call: Call, body: protocol.ReportBody) -> protocol.ReportView:
    reports = tuple(protocol.to_report(item, index) for index, item in enumerate(body.reports))
    session_id = protocol.read_session(body.session_id)
    if not await is_own(call, session_id):
        return protocol.ReportView(results=[ReportResult.STALE.value] * len(reports))
    results = await call.services.gateway.report(session_id, reports, tenant=tenant_of(call))
    return protocol.ReportView(results=[result.value for result in results])


@handles(operations.WORKER_LOG)
async def log(call: Call, body: protocol.LogBody) -> protocol.LogView:
    reports = tuple(protocol.to_log_report(item, index) for index, item in enumerate(body.reports))
    session_id = protocol.read_session(body.session_id)
    if not await is_own(call, session_id):
        return protocol.LogView(results=[LogResult.STALE.value] * len(reports))
    results = await call.services.gateway.log(session_id, reports)
    return protocol.LogView(results=[result.value for result in results])


@handles(operations.WORKER_KEEP_STEPS)
async def keep_steps(call: Call, body: protocol.StepsBody) -> protocol.StepsView:
    session_id = protocol.read_session(body.session_id)
    items = [protocol.to_checkpoint(item, session_id, index) for index, item in enumerate(body.steps)]
    if not await is_own(call, session_id):
        stale = tuple(CheckpointVerdict.STALE for _ in items)
        return protocol.from_kept(KeptSteps(stale, call.engine.now()))
    return protocol.from_kept(await call.engine.checkpoints.keep(items))


@handles(operations.WORKER_LIST_STEPS)
async def list_steps(call: Call, body: protocol.StepsWantedBody) -> protocol.KeptStepsView:
    session_id = protocol.read_session(body.session_id)
    run_id = read_run_id(body.run_id)
    if not await is_own(call, session_id):
        raise Conflict("lease", "the attempt does not hold this run any more, so its steps are not told")
    after = None if body.after_name is None else (body.after_name, body.after_number)
    page = await call.engine.checkpoints.list_held(session_id, run_id, body.token, after=after)
    return protocol.from_step_page(page)


@handles(operations.WORKER_LEAVE)
async def leave(call: Call, body: protocol.SessionBody) -> None:
    session_id = protocol.read_session(body.session_id)
    if await is_own(call, session_id):
        await call.services.gateway.leave(session_id)


ROUTES: list[Endpoint] = [register, claim, beat, log, report, keep_steps, list_steps, leave]
