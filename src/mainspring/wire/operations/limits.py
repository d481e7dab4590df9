"""Operations on limits that jobs share."""

from __future__ import annotations

from typing import Any

from mainspring.core.rights import Right
from mainspring.wire.limits import KeyPage, LimitBody, LimitPage, LimitView
from mainspring.wire.operation import Body, Operation, Parameter
from mainspring.wire.operations.common import API, LIMIT
from mainspring.wire.views import Deleted

_LIMIT = f"{API}/limits/{{limit}}"
SCOPE = Parameter(
    "scope",
    "`tenant`: limits of the tenant. `cluster`: those that all tenants share; they need the right `admin`. A job has "
    "that of the cluster if its tenant has none of that name.",
    default="tenant",
)

LIST_LIMITS = Operation(
    id="list_limits",
    method="GET",
    path=f"{API}/limits",
    right=Right.READ,
    summary="List limits",
    description="Return a page of the limits that jobs share, by name.",
    query=(SCOPE, LIMIT, Parameter("after", "Only limits after this one: the `next` of the previous page.")),
    answer=LimitPage,
)
GET_LIMIT = Operation(
    id="get_limit",
    method="GET",
    path=_LIMIT,
    right=Right.READ,
    summary="Get a limit",
    description="Return a limit that jobs share.",
    query=(SCOPE,),
    answer=LimitView,
)
UPSERT_LIMIT = Operation(
    id="upsert_limit",
    method="PUT",
    path=_LIMIT,
    right=Right.EDIT,
    summary="Set a limit",
    description="Set what the body says, and the defaults for what it leaves out. It holds at once, for runs that wait "
    "too; those under way go on.",
    query=(SCOPE,),
    body=Body(LimitBody, dict[str, Any]),
    answer=LimitView,
    statuses=(200, 201),
)
DELETE_LIMIT = Operation(
    id="delete_limit",
    method="DELETE",
    path=_LIMIT,
    right=Right.EDIT,
    summary="Delete a limit",
    description="Delete a limit that no job uses.",
    query=(SCOPE,),
    answer=Deleted,
    is_conflicting=True,
)
LIST_LIMIT_KEYS = Operation(
    id="list_limit_keys",
    method="GET",
    path=f"{_LIMIT}/keys",
    right=Right.READ,
    summary="List the keys of a limit",
    description="Return a page of the keys under which runs wait, run or have just run, with how much is taken."
    " They are in their order. If payloads are hidden from you, keys are null, and the oldest comes first.",
    query=(SCOPE, LIMIT, Parameter("after", "Only keys after this one: the `next` of the previous page.")),
    answer=KeyPage,
)
