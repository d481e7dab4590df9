"""How busy workers will be, and how long the disk lasts."""

from __future__ import annotations

from mainspring.api.call import Call, Endpoint, handles
from mainspring.api.errors import Rejected
from mainspring.core.fields import read_one_of
from mainspring.wire import operations
from mainspring.wire.capacity import CapacityView, view_capacity


@handles(operations.GET_CAPACITY)
async def get_capacity(call: Call) -> CapacityView:
    is_of_all = read_one_of(call.query["scope"], "scope", ("tenant", "cluster")) == "cluster"
    needed = call.operation.right
    if is_of_all and needed not in call.principal.shared_rights:
        raise Rejected(
            403, f"{call.principal.name} may not do this for the cluster: it needs the right {needed.value!r}"
        )
    found = await call.engine.capacity.read(None if is_of_all else call.tenant, call.engine.now())
    return view_capacity(found.queues, found.disk)


ROUTES: list[Endpoint] = [get_capacity]
