"""The steps that are kept of the runs of durable functions."""

from __future__ import annotations

from mainspring.api.call import Call, Endpoint, handles
from mainspring.api.errors import Rejected
from mainspring.api.reading import path_run_id
from mainspring.wire import operations
from mainspring.wire.checkpoints import CheckpointPage, read_after, view_checkpoints


@handles(operations.LIST_RUN_CHECKPOINTS)
async def list_run_checkpoints(call: Call) -> CheckpointPage:
    if call.principal.hides_payloads:
        raise Rejected(403, "what steps return is hidden from this account, as payloads are")
    limit: int = call.query["limit"]
    found = await call.engine.checkpoints.list_page(
        call.tenant, path_run_id(call.key), after=read_after(call.query.get("after")), limit=limit
    )
    return view_checkpoints(found, limit)


ROUTES: list[Endpoint] = [list_run_checkpoints]
