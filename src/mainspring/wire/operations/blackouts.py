"""Operations on blackouts of queues, of tenants and of everything."""

from __future__ import annotations

from typing import Any

from mainspring.core.rights import Right
from mainspring.wire.blackouts import BlackoutList, BlackoutsBody
from mainspring.wire.operation import Body, Operation
from mainspring.wire.operations.common import API

_BODY = Body(BlackoutsBody, dict[str, Any])
_SET = (
    "While one of the calendars holds, no worker gets a run of it. They replace those that there are. "
    "Return them, each as it stands now."
)
_STANDS = "each as it stands now"

LIST_QUEUE_BLACKOUTS = Operation(
    id="list_queue_blackouts",
    method="GET",
    path=f"{API}/queues/{{queue}}/blackouts",
    right=Right.OPERATE,
    summary="List a queue's blackouts",
    description=f"Return the blackouts of a queue, {_STANDS}.",
    answer=BlackoutList,
    is_shared=True,
)
UPSERT_QUEUE_BLACKOUTS = Operation(
    id="upsert_queue_blackouts",
    method="PUT",
    path=f"{API}/queues/{{queue}}/blackouts",
    right=Right.OPERATE,
    summary="Set a queue's blackouts",
    description=f"Set the blackouts of a queue, for all tenants, by calendars of the caller's. {_SET}",
    body=_BODY,
    answer=BlackoutList,
    is_conflicting=True,
    is_shared=True,
)
LIST_TENANT_BLACKOUTS = Operation(
    id="list_tenant_blackouts",
    method="GET",
    path=f"{API}/tenants/{{tenant}}/blackouts",
    right=Right.ADMIN,
    summary="List a tenant's blackouts",
    description=f"Return the blackouts of a tenant, {_STANDS}.",
    answer=BlackoutList,
)
UPSERT_TENANT_BLACKOUTS = Operation(
    id="upsert_tenant_blackouts",
    method="PUT",
    path=f"{API}/tenants/{{tenant}}/blackouts",
    right=Right.ADMIN,
    summary="Set a tenant's blackouts",
    description=f"Set the blackouts of all queues of a tenant, by its own calendars. {_SET}",
    body=_BODY,
    answer=BlackoutList,
    is_conflicting=True,
)
LIST_BLACKOUTS = Operation(
    id="list_blackouts",
    method="GET",
    path=f"{API}/blackouts",
    right=Right.ADMIN,
    summary="List the blackouts of everything",
    description=f"Return the blackouts of all queues of all tenants, {_STANDS}. `GET {API}/pauses` has all.",
    answer=BlackoutList,
)
UPSERT_BLACKOUTS = Operation(
    id="upsert_blackouts",
    method="PUT",
    path=f"{API}/blackouts",
    right=Right.ADMIN,
    summary="Set the blackouts of everything",
    description=f"Set blackouts of all queues of all tenants, by calendars of the tenant `default`. {_SET}",
    body=_BODY,
    answer=BlackoutList,
    is_conflicting=True,
)
