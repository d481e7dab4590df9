"""Operations on objectives."""

from __future__ import annotations

from typing import Any

from mainspring.core.rights import Right
from mainspring.wire.objectives import SloBody, SloList, SloView
from mainspring.wire.operation import Body, Operation
from mainspring.wire.operations.common import API
from mainspring.wire.views import Deleted

_SLO = f"{API}/slos/{{slo}}"

LIST_SLOS = Operation(
    id="list_slos",
    method="GET",
    path=f"{API}/slos",
    right=Right.READ,
    summary="List objectives",
    description="Return all objectives of the tenant and how they do, by name. The last half minute may be missing.",
    answer=SloList,
)
GET_SLO = Operation(
    id="get_slo",
    method="GET",
    path=_SLO,
    right=Right.READ,
    summary="Get an objective",
    description="Return an objective and how it does.",
    answer=SloView,
)
UPSERT_SLO = Operation(
    id="upsert_slo",
    method="PUT",
    path=_SLO,
    right=Right.EDIT,
    summary="Set an objective",
    description="Set what the body says, and the defaults for what it leaves out. It counts what is on record, so a new"
    " one says at once how it does.",
    body=Body(SloBody, dict[str, Any]),
    answer=SloView,
    statuses=(200, 201),
    is_conflicting=True,
)
DELETE_SLO = Operation(
    id="delete_slo",
    method="DELETE",
    path=_SLO,
    right=Right.EDIT,
    summary="Delete an objective",
    description="Delete an objective; its alerts end.",
    answer=Deleted,
)
