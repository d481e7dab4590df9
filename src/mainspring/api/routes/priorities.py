"""Priority classes."""

from __future__ import annotations

from typing import Any

from mainspring.api.call import Answer, Call, Endpoint, handles
from mainspring.wire import operations
from mainspring.wire.priorities import PriorityClassPage, PriorityClassView, view_class
from mainspring.wire.views import Deleted


@handles(operations.LIST_PRIORITY_CLASSES)
async def list_priority_classes(call: Call) -> PriorityClassPage:
    limit: int = call.query["limit"]
    classes = await call.engine.priority_classes.list_page(after=call.query.get("after"), limit=limit)
    following = classes[-1].name if len(classes) == limit else None
    return PriorityClassPage([view_class(one) for one in classes], following)


@handles(operations.GET_PRIORITY_CLASS)
async def get_priority_class(call: Call) -> PriorityClassView:
    return view_class(await call.engine.priority_classes.get(call.key))


@handles(operations.UPSERT_PRIORITY_CLASS)
async def upsert_priority_class(call: Call, body: dict[str, Any]) -> Answer[PriorityClassView]:
    one, is_new = await call.engine.priority_classes.put(call.key, body, by=call.actor)
    return Answer(view_class(one), status=201 if is_new else 200)


@handles(operations.DELETE_PRIORITY_CLASS)
async def delete_priority_class(call: Call) -> Deleted:
    await call.engine.priority_classes.delete(call.key, by=call.actor)
    return Deleted()


ROUTES: list[Endpoint] = [
    list_priority_classes,
    get_priority_class,
    upsert_priority_class,
    delete_priority_class,
]
