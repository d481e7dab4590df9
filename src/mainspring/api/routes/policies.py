"""What is set for tenants, queues and labels."""

from __future__ import annotations

from typing import Any

from mainspring.api.call import Answer, Call, Endpoint, handles
from mainspring.core.queues import Queue
from mainspring.core.tenants import Tenant
from mainspring.engine.usecases.caps import ShownCap
from mainspring.wire import operations
from mainspring.wire.policies import (
    LabelPage,
    LabelView,
    QueuePage,
    QueueView,
    TenantPage,
    TenantView,
    view_queue,
    view_tenant,
)
from mainspring.wire.views import Deleted


@handles(operations.LIST_TENANTS)
async def list_tenants(call: Call) -> TenantPage:
    limit: int = call.query["limit"]
    tenants = await call.engine.tenants.list_page(after=call.query.get("after"), limit=limit)
    following = tenants[-1].name if len(tenants) == limit else None
    running = await call.engine.tenants.running(tenants)
    return TenantPage(list(map(view_tenant, tenants, running)), following)


@handles(operations.GET_TENANT)
async def get_tenant(call: Call) -> TenantView:
    return await _show_tenant(call, await call.engine.tenants.get(call.key))


@handles(operations.UPSERT_TENANT)
async def upsert_tenant(call: Call, body: dict[str, Any]) -> Answer[TenantView]:
    tenant, is_new = await call.engine.tenants.put(call.key, body, by=call.actor)
    return Answer(await _show_tenant(call, tenant), status=201 if is_new else 200)


@handles(operations.LIST_QUEUES)
async def list_queues(call: Call) -> QueuePage:
    limit: int = call.query["limit"]
    queues = await call.engine.queues.list_page(after=call.query.get("after"), limit=limit)
    following = queues[-1].name if len(queues) == limit else None
    running = await call.engine.queues.running(queues)
    return QueuePage(list(map(view_queue, queues, running)), following)


@handles(operations.GET_QUEUE)
async def get_queue(call: Call) -> QueueView:
    return await _show_queue(call, await call.engine.queues.get(call.key))


@handles(operations.UPSERT_QUEUE)
async def upsert_queue(call: Call, body: dict[str, Any]) -> Answer[QueueView]:
    queue, is_new = await call.engine.queues.put(call.key, body, by=call.actor)
    return Answer(await _show_queue(call, queue), status=201 if is_new else 200)


@handles(operations.LIST_LABELS)
async def list_labels(call: Call) -> LabelPage:
    limit: int = call.query["limit"]
    found = await call.engine.labels.list_page(after=call.query.get("after"), limit=limit)
    following = found[-1][0] if len(found) == limit else None
    return LabelPage([_view_label(name, cap) for name, cap in found], following)


@handles(operations.GET_LABEL)
async def get_label(call: Call) -> LabelView:
    return _view_label(call.key, await call.engine.labels.get(call.key))


@handles(operations.UPSERT_LABEL)
async def upsert_label(call: Call, body: dict[str, Any]) -> Answer[LabelView]:
    cap, is_new = await call.engine.labels.put(call.key, body, by=call.actor)
    return Answer(_view_label(call.key, cap), status=201 if is_new else 200)


@handles(operations.DELETE_LABEL)
async def delete_label(call: Call) -> Deleted:
    await call.engine.labels.delete(call.key, by=call.actor)
    return Deleted()


async def _show_tenant(call: Call, tenant: Tenant) -> TenantView:
    [running] = await call.engine.tenants.running([tenant])
    return view_tenant(tenant, running)


async def _show_queue(call: Call, queue: Queue) -> QueueView:
    [running] = await call.engine.queues.running([queue])
    return view_queue(queue, running)


def _view_label(name: str, cap: ShownCap) -> LabelView:
    return LabelView(name=name, max_running=cap.max_running, running=cap.running)


ROUTES: list[Endpoint] = [
    list_tenants,
    get_tenant,
    upsert_tenant,
    list_queues,
    get_queue,
    upsert_queue,
    list_labels,
    get_label,
    upsert_label,
    delete_label,
]
