"""Pauses of queues, of tenants and of everything."""

from __future__ import annotations

from typing import Any

from mainspring.api.call import Call, Endpoint, handles
from mainspring.core.pauses import Pause, PauseScope
from mainspring.wire import operations
from mainspring.wire.pauses import PauseList, view_pauses


async def _pause(call: Call, scope: PauseScope, body: dict[str, Any]) -> PauseList:
    return await _view(
        call, await call.engine.pauses.pause(scope, call.key, body, made_by=call.made_by, by=call.actor)
    )


async def _resume(call: Call, scope: PauseScope) -> PauseList:
    return await _view(call, await call.engine.pauses.resume(scope, call.key, by=call.actor))


async def _view(call: Call, pauses: list[Pause]) -> PauseList:
    return view_pauses(pauses, await call.engine.blackouts.list_all())


@handles(operations.LIST_PAUSES)
async def list_pauses(call: Call) -> PauseList:
    return await _view(call, await call.engine.pauses.list_all())


@handles(operations.PAUSE_QUEUE)
async def pause_queue(call: Call, body: dict[str, Any]) -> PauseList:
    return await _pause(call, PauseScope.QUEUE, body)


@handles(operations.RESUME_QUEUE)
async def resume_queue(call: Call) -> PauseList:
    return await _resume(call, PauseScope.QUEUE)


@handles(operations.PAUSE_TENANT)
async def pause_tenant(call: Call, body: dict[str, Any]) -> PauseList:
    return await _pause(call, PauseScope.TENANT, body)


@handles(operations.RESUME_TENANT)
async def resume_tenant(call: Call) -> PauseList:
    return await _resume(call, PauseScope.TENANT)


@handles(operations.PAUSE_ALL)
async def pause_all(call: Call, body: dict[str, Any]) -> PauseList:
    return await _pause(call, PauseScope.ALL, body)


@handles(operations.RESUME_ALL)
async def resume_all(call: Call) -> PauseList:
    return await _resume(call, PauseScope.ALL)


ROUTES: list[Endpoint] = [
    list_pauses,
    pause_queue,
    resume_queue,
    pause_tenant,
    resume_tenant,
    pause_all,
    resume_all,
]
