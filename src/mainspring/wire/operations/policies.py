"""Operations on what is set for tenants, queues and labels."""

from __future__ import annotations

from typing import Any

from mainspring.core.rights import Right
from mainspring.wire.operation import Body, Operation, Parameter
from mainspring.wire.operations.common import API, LIMIT
from mainspring.wire.policies import (
    LabelBody,
    LabelPage,
    LabelView,
    QueueBody,
    QueuePage,
    QueueView,
    TenantBody,
    TenantPage,
    TenantView,
)
from mainspring.wire.views import Deleted

_TENANT = f"{API}/tenants/{{tenant}}"
_LABEL = f"{API}/labels/{{label}}"
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
    description="Set what the body says, and the defaults for what it leaves out. It holds within a second, and "
    "`max_running` from when this answers.",
    body=Body(TenantBody, dict[str, Any]),
    answer=TenantView,
    statuses=(200, 201),
    is_conflicting=True,
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
    summary="Set a queue's order, caps and expiry",
    description="Set what the body says, and the defaults for what it leaves out. It holds within a second, and "
    "`max_running` from when this answers.",
    body=Body(QueueBody, dict[str, Any]),
    answer=QueueView,
    statuses=(200, 201),
    is_conflicting=True,
)
LIST_LABELS = Operation(
    id="list_labels",
    method="GET",
    path=f"{API}/labels",
    right=Right.ADMIN,
    summary="List labels",
    description="Return a page of the labels for which something was set, by name.",
    query=(LIMIT, Parameter("after", "Only labels after this one: the `next` of the previous page.")),
    answer=LabelPage,
)
GET_LABEL = Operation(
    id="get_label",
    method="GET",
    path=_LABEL,
    right=Right.ADMIN,
    summary="Get a label",
    description="Return what is set for a label; no cap if nothing was set.",
    answer=LabelView,
)
UPSERT_LABEL = Operation(
    id="upsert_label",
    method="PUT",
    path=_LABEL,
    right=Right.ADMIN,
    summary="Set a label's cap",
    description="Set how many runs that need the label may be under way at a time, in the whole cluster. When this "
    "answers, no run starts beyond it; those under way go on.",
    body=Body(LabelBody, dict[str, Any]),
    answer=LabelView,
    statuses=(200, 201),
    is_conflicting=True,
)
DELETE_LABEL = Operation(
    id="delete_label",
    method="DELETE",
    path=_LABEL,
    right=Right.ADMIN,
    summary="Unset a label's cap",
    description="Unset what is set for a label, if anything is.",
    answer=Deleted,
)
