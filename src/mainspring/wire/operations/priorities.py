"""Operations on priority classes."""

from __future__ import annotations

from typing import Any

from mainspring.core.rights import Right
from mainspring.wire.operation import Body, Operation, Parameter
from mainspring.wire.operations.common import API, LIMIT
from mainspring.wire.priorities import PriorityClassBody, PriorityClassPage, PriorityClassView
from mainspring.wire.views import Deleted

_CLASS = f"{API}/priority-classes/{{class}}"

LIST_PRIORITY_CLASSES = Operation(
    id="list_priority_classes",
    method="GET",
    path=f"{API}/priority-classes",
    right=Right.READ,
    summary="List priority classes",
    description="Return a page of the classes that jobs may name as their priority, by name.",
    query=(LIMIT, Parameter("after", "Only classes after this one: the `next` of the previous page.")),
    answer=PriorityClassPage,
)
GET_PRIORITY_CLASS = Operation(
    id="get_priority_class",
    method="GET",
    path=_CLASS,
    right=Right.READ,
    summary="Get a priority class",
    description="Return a class that jobs may name as their priority.",
    answer=PriorityClassView,
)
UPSERT_PRIORITY_CLASS = Operation(
    id="upsert_priority_class",
    method="PUT",
    path=_CLASS,
    right=Right.ADMIN,
    summary="Set a priority class",
    description="Set what the body says, and the defaults for what it leaves out. Jobs copy these values when they are "
    "written; those written before keep what they have.",
    body=Body(PriorityClassBody, dict[str, Any]),
    answer=PriorityClassView,
    statuses=(200, 201),
)
DELETE_PRIORITY_CLASS = Operation(
    id="delete_priority_class",
    method="DELETE",
    path=_CLASS,
    right=Right.ADMIN,
    summary="Delete a priority class",
    description="Delete a class. Jobs that named it keep what they copied.",
    answer=Deleted,
)
