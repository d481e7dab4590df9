"""The operation that says how busy workers will be, and how long the disk lasts."""

from __future__ import annotations

from mainspring.core.rights import Right
from mainspring.wire.capacity import CapacityView
from mainspring.wire.operation import Operation, Parameter
from mainspring.wire.operations.common import API

GET_CAPACITY = Operation(
    id="get_capacity",
    method="GET",
    path=f"{API}/capacity",
    right=Right.READ,
    summary="Show how busy workers will be",
    description="Return for each queue how busy its workers will be within 24 hours, by the same hours of the last four"
    " weeks, and how long its backlog takes. For the cluster, also how long the disk lasts.",
    query=(
        Parameter(
            "scope",
            "`tenant`: the tenant's runs, and the workers that serve it. `cluster`: those of all tenants, and the disk;"
            " that needs the right for all tenants.",
            default="tenant",
        ),
    ),
    answer=CapacityView,
)
