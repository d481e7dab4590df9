"""The operation by which an app says which jobs its code defines."""

from __future__ import annotations

from mainspring.core.rights import Right
from mainspring.wire.operation import Body, Operation
from mainspring.wire.operations.common import API
from mainspring.wire.owners import OwnerBody, OwnerView

UPSERT_OWNER = Operation(
    id="upsert_owner",
    method="PUT",
    path=f"{API}/owners/{{owner}}",
    right=Right.EDIT,
    summary="Say which jobs an app's code defines",
    description="Mark the jobs that the code of an app defines. Those that it defined and does not any more are named, "
    "or deleted.",
    body=Body(OwnerBody, OwnerBody),
    answer=OwnerView,
)
