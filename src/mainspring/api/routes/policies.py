"""What is set for tenants and queues."""

from __future__ import annotations

from typing import Any

from mainspring.api.call import Answer, Call, Endpoint, handles
from mainspring.wire import operations
from mainspring.wire.policies import QueuePage, QueueView, TenantPage, TenantView, view_queue, view_tenant


@handles(operations.LIST_TENANTS)
async def list_tenants(call: Call) -> TenantPage:
    limit: int = call.query["limit"]
    tenants = await call.engine.tenants.list_page(after=call.query.get("after"), limit=limit)
    following = tenants[-1].name if len(tenants) == limit else None
    return TenantPage([view_tenant(tenant) for tenant in tenants], following)


@handles(operations.GET_TENANT)
async def get_tenant(call: Call) -> TenantView:
    return view_tenant(await call.engine.tenants.get(call.key))


@handles(operations.UPSERT_TENANT)
async def upsert_tenant(call: Call, body: dict[str, Any]) -> Answer[TenantView]:
    tenant, is_new = await call.engine.tenants.put(call.key, body)
    return Answer(view_tenant(tenant), status=201 if is_new else 200)


@handles(operations.LIST_QUEUES)
async def list_queues(call: Call) -> QueuePage:
    limit: int = call.query["limit"]
    queues = await call.engine.queues.list_page(after=call.query.get("after"), limit=limit)
    following = queues[-1].name if len(queues) == limit else None
    return QueuePage([view_queue(queue) for queue in queues], following)


@handles(operations.GET_QUEUE)
async def get_queue(call: Call) -> QueueView:
    return view_queue(await call.engine.queues.get(call.key))


@handles(operations.UPSERT_QUEUE)
async def upsert_queue(call: Call, body: dict[str, Any]) -> Answer[QueueView]:
    queue, is_new = await call.engine.queues.put(call.key, body)
    return Answer(view_queue(queue), status=201 if is_new else 200)


ROUTES: list[Endpoint] = [list_tenants, get_tenant, upsert_tenant, list_queues, get_queue, upsert_queue]
