"""Operations on what is set for tenants and queues."""

from __future__ import annotations

from typing import Any

from mainspring.core.rights import Right
from mainspring.wire.operation import Body, Operation, Parameter
from mainspring.wire.operations.common import API, LIMIT
from mainspring.wire.policies import QueueBody, QueuePage, QueueView, TenantBody, TenantPage, TenantView

_TENANT = f"{API}/tenants/{{tenant}}"
_QUEUE = f"{API}/queues/{{queue}}"

LIST_TENANTS = Operation(
    id="list_tenants",
    method="GET",
    path=f"{API}/tenants",
    right=Right.ADMIN,
    summary="List tenants",
    description="Return a page of the tenants for which something was set, by name.",
    query=(LIMIT, Parameter("after", "Only tenants after this one: the `next` of the previous page.")),
    answer=TenantPage,
)
GET_TENANT = Operation(
    id="get_tenant",
    method="GET",
    path=_TENANT,
    right=Right.ADMIN,
    summary="Get a tenant",
    description="Return what is set for a tenant; the defaults if nothing was set.",
    answer=TenantView,
)
UPSERT_TENANT = Operation(
    id="upsert_tenant",
    method="PUT",
    path=_TENANT,
    right=Right.ADMIN,
    summary="Set a tenant's share and caps",
    description="Set what the body says, and the defaults for what it leaves out. It holds within a second.",
    body=Body(TenantBody, dict[str, Any]),
    answer=TenantView,
    statuses=(200, 201),
)
LIST_QUEUES = Operation(
    id="list_queues",
    method="GET",
    path=f"{API}/queues",
    right=Right.ADMIN,
    summary="List queues",
    description="Return a page of the queues for which something was set, by name.",
    query=(LIMIT, Parameter("after", "Only queues after this one: the `next` of the previous page.")),
    answer=QueuePage,
)
GET_QUEUE = Operation(
    id="get_queue",
    method="GET",
    path=_QUEUE,
    right=Right.ADMIN,
    summary="Get a queue",
    description="Return what is set for a queue; the defaults if nothing was set.",
    answer=QueueView,
)
UPSERT_QUEUE = Operation(
    id="upsert_queue",
    method="PUT",
    path=_QUEUE,
    right=Right.ADMIN,
    summary="Set a queue's order, cap and expiry",
    description="Set what the body says, and the defaults for what it leaves out. It holds within a second.",
    body=Body(QueueBody, dict[str, Any]),
    answer=QueueView,
    statuses=(200, 201),
)
