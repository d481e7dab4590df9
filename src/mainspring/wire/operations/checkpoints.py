"""Operations on the steps of durable functions."""

from __future__ import annotations

from mainspring.core.rights import Right
from mainspring.wire.checkpoints import CheckpointPage
from mainspring.wire.operation import Operation, Parameter
from mainspring.wire.operations.common import API, LIMIT

LIST_RUN_CHECKPOINTS = Operation(
    id="list_run_checkpoints",
    method="GET",
    path=f"{API}/runs/{{run_id}}/checkpoints",
    right=Right.READ,
    summary="List the steps that are kept of a run",
    description="Return a page of the steps of a durable function that are kept, by name and number. 403: what jobs"
    " carry is hidden from you.",
    query=(LIMIT, Parameter("after", "Only steps after this one: the `next` of the previous page.")),
    answer=CheckpointPage,
)
