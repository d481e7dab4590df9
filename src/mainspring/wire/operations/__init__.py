"""All operations of the HTTP API, each described once.

Routing, permission checks, the reading of queries and bodies, `/openapi.json`, the tables in
docs/reference/http-api.md and the client's calls all come from this table. The handlers are in `api.routes`.
"""

from __future__ import annotations

from typing import Any

from mainspring.wire.operation import Operation
from mainspring.wire.operations.jobs import (
    CREATE_JOB,
    CREATE_JOBS,
    DELETE_JOB,
    EDIT_JOB,
    GET_JOB,
    GET_JOB_LEDGER,
    GET_JOB_STATUS,
    LIST_JOB_FIRE_RANGES,
    LIST_JOBS,
    PAUSE_JOB,
    RESUME_JOB,
    UPSERT_JOB,
)
from mainspring.wire.operations.policies import (
    GET_QUEUE,
    GET_TENANT,
    LIST_QUEUES,
    LIST_TENANTS,
    UPSERT_QUEUE,
    UPSERT_TENANT,
)
from mainspring.wire.operations.runs import (
    CANCEL_RUN,
    COUNT_RUNS,
    GET_RUN,
    LIST_JOB_RUNS,
    LIST_RUNS,
    RUN_JOB_NOW,
    SUBMIT_RUN,
    SUBMIT_RUNS,
)
from mainspring.wire.operations.server import (
    GET_HEALTH,
    GET_OPENAPI,
    LIST_WORKERS,
    PREVIEW_CRON,
)
from mainspring.wire.operations.worker import (
    BEAT_LIMIT,
    WORKER_BEAT,
    WORKER_CLAIM,
    WORKER_LEAVE,
    WORKER_REGISTER,
    WORKER_REPORT,
)

OPERATIONS: tuple[Operation[Any], ...] = (
    CREATE_JOB,
    UPSERT_JOB,
    CREATE_JOBS,
    LIST_JOBS,
    GET_JOB,
    EDIT_JOB,
    DELETE_JOB,
    PAUSE_JOB,
    RESUME_JOB,
    GET_JOB_STATUS,
    GET_JOB_LEDGER,
    LIST_JOB_FIRE_RANGES,
    RUN_JOB_NOW,
    SUBMIT_RUN,
    LIST_JOB_RUNS,
    SUBMIT_RUNS,
    LIST_RUNS,
    GET_RUN,
    CANCEL_RUN,
    COUNT_RUNS,
    LIST_TENANTS,
    GET_TENANT,
    UPSERT_TENANT,
    LIST_QUEUES,
    GET_QUEUE,
    UPSERT_QUEUE,
    GET_HEALTH,
    GET_OPENAPI,
    LIST_WORKERS,
    PREVIEW_CRON,
    WORKER_REGISTER,
    WORKER_CLAIM,
    WORKER_BEAT,
    WORKER_REPORT,
    WORKER_LEAVE,
)
"""All operations, in the order of the reference page."""

__all__ = [
    "BEAT_LIMIT",
    "CANCEL_RUN",
    "COUNT_RUNS",
    "CREATE_JOB",
    "CREATE_JOBS",
    "DELETE_JOB",
    "EDIT_JOB",
    "GET_HEALTH",
    "GET_JOB",
    "GET_JOB_LEDGER",
    "GET_JOB_STATUS",
    "GET_OPENAPI",
    "GET_QUEUE",
    "GET_RUN",
    "GET_TENANT",
    "LIST_JOBS",
    "LIST_JOB_FIRE_RANGES",
    "LIST_JOB_RUNS",
    "LIST_QUEUES",
    "LIST_RUNS",
    "LIST_TENANTS",
    "LIST_WORKERS",
    "OPERATIONS",
    "PAUSE_JOB",
    "PREVIEW_CRON",
    "RESUME_JOB",
    "RUN_JOB_NOW",
    "SUBMIT_RUN",
    "SUBMIT_RUNS",
    "UPSERT_JOB",
    "UPSERT_QUEUE",
    "UPSERT_TENANT",
    "WORKER_BEAT",
    "WORKER_CLAIM",
    "WORKER_LEAVE",
    "WORKER_REGISTER",
    "WORKER_REPORT",
]
