"""Operations on the server: its health, its workers, and what needs nothing stored."""

from __future__ import annotations

import msgspec

from mainspring.core.rights import Right
from mainspring.wire.health import HealthView
from mainspring.wire.operation import EXPOSITION, Operation, Parameter
from mainspring.wire.operations.common import API, LIMIT
from mainspring.wire.overview import OverviewView
from mainspring.wire.pages import WorkerPage

GET_HEALTH = Operation(
    id="get_health",
    method="GET",
    path="/health",
    right=Right.PUBLIC,
    summary="Check that the server and its store answer",
    description="Answer 200 if the store is reachable, 503 if not.",
    answer=HealthView,
)
GET_OPENAPI = Operation(
    id="get_openapi",
    method="GET",
    path="/openapi.json",
    right=Right.PUBLIC,
    summary="Describe the API",
    description="Return the description of the API in OpenAPI 3.1.",
    answer=msgspec.Raw,
    is_described=False,
)
GET_METRICS = Operation(
    id="get_metrics",
    method="GET",
    path="/metrics",
    right=Right.READ,
    summary="Measure the server",
    description="Return what this server counts, and what its last census of the cluster counted, for all tenants, in"
    " the text format of Prometheus.",
    answer=str,
    media_type=EXPOSITION,
)
GET_OVERVIEW = Operation(
    id="get_overview",
    method="GET",
    path=f"{API}/overview",
    right=Right.READ,
    summary="Show the cluster at a glance",
    description="Return what servers, workers, queues and jobs do, what is paused, and what needs attention.",
    answer=OverviewView,
)
LIST_WORKERS = Operation(
    id="list_workers",
    method="GET",
    path=f"{API}/workers",
    right=Right.READ,
    summary="List live workers",
    description="Return a page of live worker sessions, in order of their start, and what they offer. Who has no role"
    " for all tenants sees those that are bound to the tenant.",
    query=(
        LIMIT,
        Parameter("after", "Only sessions after this one: the `next` of the previous page."),
    ),
    answer=WorkerPage,
)
