"""Blackouts of queues, of tenants and of everything."""

from __future__ import annotations

from typing import Any

from mainspring.api.call import Call, Endpoint, handles
from mainspring.core.pauses import PauseScope
from mainspring.wire import operations
from mainspring.wire.blackouts import BlackoutList, view_blackouts


async def _list(call: Call, scope: PauseScope) -> BlackoutList:
    return BlackoutList(view_blackouts(await call.engine.blackouts.list_of(scope, call.key)))


async def _upsert(call: Call, scope: PauseScope, body: dict[str, Any]) -> BlackoutList:
    states = await call.engine.blackouts.put(
        scope, call.key, body, tenant=call.tenant, made_by=call.made_by, by=call.actor
    )
    return BlackoutList(view_blackouts(states))


@handles(operations.LIST_QUEUE_BLACKOUTS)
async def list_queue_blackouts(call: Call) -> BlackoutList:
    return await _list(call, PauseScope.QUEUE)


@handles(operations.UPSERT_QUEUE_BLACKOUTS)
async def upsert_queue_blackouts(call: Call, body: dict[str, Any]) -> BlackoutList:
    return await _upsert(call, PauseScope.QUEUE, body)


@handles(operations.LIST_TENANT_BLACKOUTS)
async def list_tenant_blackouts(call: Call) -> BlackoutList:
    return await _list(call, PauseScope.TENANT)


@handles(operations.UPSERT_TENANT_BLACKOUTS)
async def upsert_tenant_blackouts(call: Call, body: dict[str, Any]) -> BlackoutList:
    return await _upsert(call, PauseScope.TENANT, body)


@handles(operations.LIST_BLACKOUTS)
async def list_blackouts(call: Call) -> BlackoutList:
    return await _list(call, PauseScope.ALL)


@handles(operations.UPSERT_BLACKOUTS)
async def upsert_blackouts(call: Call, body: dict[str, Any]) -> BlackoutList:
    return await _upsert(call, PauseScope.ALL, body)


ROUTES: list[Endpoint] = [
    list_queue_blackouts,
    upsert_queue_blackouts,
    list_tenant_blackouts,
    upsert_tenant_blackouts,
    list_blackouts,
    upsert_blackouts,
]
