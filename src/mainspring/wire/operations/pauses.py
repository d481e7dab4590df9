"""Operations that pause and resume queues, tenants and everything."""

from __future__ import annotations

from typing import Any

from mainspring.core.rights import Right
from mainspring.wire.operation import Body, Operation
from mainspring.wire.operations.common import API
from mainspring.wire.pauses import PauseBody, PauseList

_BODY = Body(PauseBody, dict[str, Any], is_optional=True)
_PAUSED = (
    "From the answer on, no worker gets a run of it; runs under way go on. It replaces a pause of the same."
)
_RESUMED = "Its runs are given out again at once, as far as nothing else is paused. Without a pause, nothing happens."

LIST_PAUSES = Operation(
    id="list_pauses",
    method="GET",
    path=f"{API}/pauses",
    right=Right.OPERATE,
    summary="List pauses",
    description="Return what is paused now: queues, tenants, or everything. `blackouts` are those of all of them.",
    answer=PauseList,
    is_shared=True,
)
PAUSE_QUEUE = Operation(
    id="pause_queue",
    method="POST",
    path=f"{API}/queues/{{queue}}/pause",
    right=Right.OPERATE,
    summary="Pause a queue",
    description=f"Stop a queue, for all tenants, and return what is paused now. {_PAUSED}",
    body=_BODY,
    answer=PauseList,
    is_conflicting=True,
    is_shared=True,
)
RESUME_QUEUE = Operation(
    id="resume_queue",
    method="POST",
    path=f"{API}/queues/{{queue}}/resume",
    right=Right.OPERATE,
    summary="Resume a queue",
    description=f"End the pause of a queue, and return what is still paused. {_RESUMED}",
    answer=PauseList,
    is_shared=True,
)
PAUSE_TENANT = Operation(
    id="pause_tenant",
    method="POST",
    path=f"{API}/tenants/{{tenant}}/pause",
    right=Right.ADMIN,
    summary="Pause a tenant",
    description=f"Stop all runs of a tenant, and return what is paused now. {_PAUSED}",
    body=_BODY,
    answer=PauseList,
    is_conflicting=True,
)
RESUME_TENANT = Operation(
    id="resume_tenant",
    method="POST",
    path=f"{API}/tenants/{{tenant}}/resume",
    right=Right.ADMIN,
    summary="Resume a tenant",
    description=f"End the pause of a tenant, and return what is still paused. {_RESUMED}",
    answer=PauseList,
)
PAUSE_ALL = Operation(
    id="pause_all",
    method="POST",
    path=f"{API}/pause",
    right=Right.ADMIN,
    summary="Pause everything",
    description=f"Stop all queues of all tenants, and return what is paused now. {_PAUSED}",
    body=_BODY,
    answer=PauseList,
    is_conflicting=True,
)
RESUME_ALL = Operation(
    id="resume_all",
    method="POST",
    path=f"{API}/resume",
    right=Right.ADMIN,
    summary="Resume everything",
    description="End the pause of everything, and return what is still paused: pauses of queues and tenants stay.",
    answer=PauseList,
)
