"""Operations on what is set for tenants."""

from __future__ import annotations

from typing import Any

from mainspring.core.rights import Right
from mainspring.wire.operation import Body, Operation, Parameter
from mainspring.wire.operations.common import API, LIMIT
from mainspring.wire.policies import TenantBody, TenantPage, TenantView

_TENANT = f"{API}/tenants/{{tenant}}"

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
    summary="Set a tenant's share",
    description="Set what the body says, and the defaults for what it leaves out. It holds within a second.",
    body=Body(TenantBody, dict[str, Any]),
    answer=TenantView,
    statuses=(200, 201),
)
