"""Objectives, and how they do."""

from __future__ import annotations

from typing import Any

from mainspring.api.call import Answer, Call, Endpoint, handles
from mainspring.wire import operations
from mainspring.wire.objectives import SloList, SloView, view_slo
from mainspring.wire.views import Deleted


@handles(operations.LIST_SLOS)
async def list_slos(call: Call) -> SloList:
    now = call.engine.now()
    return SloList([view_slo(one, now) for one in await call.engine.objectives.list_all(call.tenant)])


@handles(operations.GET_SLO)
async def get_slo(call: Call) -> SloView:
    return view_slo(await call.engine.objectives.get(call.tenant, call.key), call.engine.now())


@handles(operations.UPSERT_SLO)
async def upsert_slo(call: Call, body: dict[str, Any]) -> Answer[SloView]:
    status, is_new = await call.engine.objectives.put(call.tenant, call.key, body, by=call.actor)
    return Answer(view_slo(status, call.engine.now()), status=201 if is_new else 200)


@handles(operations.DELETE_SLO)
async def delete_slo(call: Call) -> Deleted:
    await call.engine.objectives.delete(call.tenant, call.key, by=call.actor)
    return Deleted()


ROUTES: list[Endpoint] = [list_slos, get_slo, upsert_slo, delete_slo]
