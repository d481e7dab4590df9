"""All operations of the HTTP API, each described once.

Routing, the check of rights, the reading of queries and bodies, `/openapi.json`, the tables of
docs/reference/http-api.md and the client's calls come from this table. The handlers are in `api.routes`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.core.rights import Right
from mainspring.wire import protocol
from mainspring.wire.bodies import BulkSubmitItem, JobBody, JobPatch, SubmitBody
from mainspring.wire.health import HealthView
from mainspring.wire.operation import JSON, MERGE_PATCH, Body, Operation, Parameter
from mainspring.wire.views import (
    BulkJobView,
    BulkRunView,
    CancelView,
    Deleted,
    FireRangeList,
    FiresView,
    JobPage,
    JobView,
    LedgerView,
    RunDetail,
    RunPage,
    StatusView,
    SubmittedView,
    WorkerList,
)

_API = "/api/v1"
_JOB = f"{_API}/jobs/{{job_id}}"
_RUN = f"{_API}/runs/{{run_id}}"
_WORKER = f"{_API}/worker"
BEAT_LIMIT = 4 * 1024 * 1024
"""Bytes of a heartbeat, which names everything that is held: about 80,000 leases."""

_LIMIT = Parameter("limit", "How many at most.", default=100, bounds=(1, 1000))
_BEFORE = Parameter("before", "Those before this run: the `next` of the page before.")
_STATE = Parameter("state", "Those in this state, in upper or lower case.")
_KEY = Parameter("Idempotency-Key", "The same key within 24 h gives the same run.", lengths=(1, 255))
_SUBMISSION = Body(SubmitBody, SubmitBody, is_optional=True)

# -- jobs --------------------------------------------------------------------------------------------------------------

CREATE_JOB = Operation(
    id="create_job",
    method="POST",
    path=f"{_API}/jobs",
    right=Right.EDIT,
    summary="Create a job",
    description="Create a job. The name must be free; a job that can never fire is refused.",
    body=Body(JobBody, dict[str, Any]),
    answer=JobView,
    statuses=(201,),
    is_conflicting=True,
)
UPSERT_JOB = Operation(
    id="upsert_job",
    method="PUT",
    path=f"{_API}/jobs",
    right=Right.EDIT,
    summary="Create a job, or redefine the one of that name",
    description="Create the job (201), or give the existing job of that name this definition (200).",
    body=Body(JobBody, dict[str, Any]),
    answer=JobView,
    statuses=(201, 200),
    is_conflicting=True,
)
CREATE_JOBS = Operation(
    id="create_jobs",
    method="POST",
    path=f"{_API}/jobs/bulk",
    right=Right.EDIT,
    summary="Create many jobs",
    description="Create up to 1,000 jobs in one transaction; one that is wrong refuses all, a taken name only itself.",
    body=Body(list[JobBody], Any),
    answer=list[BulkJobView],
)
LIST_JOBS = Operation(
    id="list_jobs",
    method="GET",
    path=f"{_API}/jobs",
    right=Right.READ,
    summary="List jobs",
    description="Return a page of jobs in order of creation, or the one of a given name.",
    query=(
        _LIMIT,
        Parameter("after", "Those after this job: the `next` of the page before."),
        Parameter("name", "The one of this name, or none; the other two then have no effect."),
    ),
    answer=JobPage,
)
GET_JOB = Operation(
    id="get_job",
    method="GET",
    path=_JOB,
    right=Right.READ,
    summary="Get a job",
    description="Return a job with its full definition and its next fires.",
    answer=JobView,
)
EDIT_JOB = Operation(
    id="edit_job",
    method="PATCH",
    path=_JOB,
    right=Right.EDIT,
    summary="Change a job",
    description="Change the given fields (a merge patch); a new version is kept, waiting runs keep theirs.",
    body=Body(JobPatch, dict[str, Any], media_types=(MERGE_PATCH, JSON)),
    answer=JobView,
    is_conflicting=True,
)
DELETE_JOB = Operation(
    id="delete_job",
    method="DELETE",
    path=_JOB,
    right=Right.EDIT,
    summary="Delete a job",
    description="Delete a job: its name is free at once, waiting runs are cancelled, its runs stay readable by id.",
    answer=Deleted,
)
PAUSE_JOB = Operation(
    id="pause_job",
    method="POST",
    path=f"{_JOB}/pause",
    right=Right.OPERATE,
    summary="Pause a job",
    description="Stop a job's clock; the fires that are not made meanwhile are on record.",
    answer=JobView,
)
RESUME_JOB = Operation(
    id="resume_job",
    method="POST",
    path=f"{_JOB}/resume",
    right=Right.OPERATE,
    summary="Resume a job",
    description="Start a job's clock again, from now on.",
    answer=JobView,
)
GET_JOB_STATUS = Operation(
    id="get_job_status",
    method="GET",
    path=f"{_JOB}/status",
    right=Right.READ,
    summary="Get a job's status",
    description="Return the status of the job's newest run that is due or started.",
    answer=StatusView,
)
GET_JOB_LEDGER = Operation(
    id="get_job_ledger",
    method="GET",
    path=f"{_JOB}/ledger",
    right=Right.READ,
    summary="Get a job's ledger",
    description="Compare what the trigger owed in the last day, or since its last change, with what is on record.",
    answer=LedgerView,
)
LIST_JOB_FIRE_RANGES = Operation(
    id="list_job_fire_ranges",
    method="GET",
    path=f"{_JOB}/fire-ranges",
    right=Right.READ,
    summary="List a job's fire ranges",
    description="Return the stretches of fire times kept as one record: catch-ups, and gaps with their reasons.",
    query=(_LIMIT,),
    answer=FireRangeList,
)

# -- runs --------------------------------------------------------------------------------------------------------------

RUN_JOB_NOW = Operation(
    id="run_job_now",
    method="POST",
    path=f"{_JOB}/run",
    right=Right.SUBMIT,
    summary="Run a job now",
    description="Submit a run, as `/runs` does.",
    body=_SUBMISSION,
    headers=(_KEY,),
    answer=SubmittedView,
    statuses=(202, 200),
    is_conflicting=True,
)
SUBMIT_RUN = Operation(
    id="submit_run",
    method="POST",
    path=f"{_JOB}/runs",
    right=Right.SUBMIT,
    summary="Submit a run of a job",
    description="Submit a run (202); a repeated Idempotency-Key answers 200 with the first run.",
    body=_SUBMISSION,
    headers=(_KEY,),
    answer=SubmittedView,
    statuses=(202, 200),
    is_conflicting=True,
)
LIST_JOB_RUNS = Operation(
    id="list_job_runs",
    method="GET",
    path=f"{_JOB}/runs",
    right=Right.READ,
    summary="List the runs of a job",
    description="Return a page of the job's runs, the newest first, finished ones included.",
    query=(_LIMIT, _BEFORE, _STATE),
    answer=RunPage,
)
SUBMIT_RUNS = Operation(
    id="submit_runs",
    method="POST",
    path=f"{_API}/runs/bulk",
    right=Right.SUBMIT,
    summary="Submit many runs",
    description="Submit up to 1,000 runs in one transaction; one that is wrong refuses all, a used key only itself.",
    body=Body(list[BulkSubmitItem], list[BulkSubmitItem]),
    answer=list[BulkRunView],
)
LIST_RUNS = Operation(
    id="list_runs",
    method="GET",
    path=f"{_API}/runs",
    right=Right.READ,
    summary="List runs",
    description="Return a page of runs, the newest first; of one job (deleted ones too) with `job_id`.",
    query=(_LIMIT, _BEFORE, _STATE, Parameter("job_id", "Those of this job.")),
    answer=RunPage,
)
GET_RUN = Operation(
    id="get_run",
    method="GET",
    path=_RUN,
    right=Right.READ,
    summary="Get a run",
    description="Return a run with its attempts, output and result.",
    answer=RunDetail,
)
CANCEL_RUN = Operation(
    id="cancel_run",
    method="POST",
    path=f"{_RUN}/cancel",
    right=Right.SUBMIT,
    summary="Cancel a run",
    description="Cancel a run: one that waits ends at once, one that runs is asked to stop (completion wins).",
    answer=CancelView,
)
COUNT_RUNS = Operation(
    id="count_runs",
    method="GET",
    path=f"{_API}/counts",
    right=Right.READ,
    summary="Count runs by state",
    description="Return how many runs are in each state, finished ones within retention included.",
    answer=dict[str, int],
)

# -- the server --------------------------------------------------------------------------------------------------------

GET_HEALTH = Operation(
    id="get_health",
    method="GET",
    path="/health",
    right=Right.PUBLIC,
    summary="Say whether the server and its store answer",
    description="Answer 200 when the store is reachable, 503 when not.",
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
LIST_WORKERS = Operation(
    id="list_workers",
    method="GET",
    path=f"{_API}/workers",
    right=Right.READ,
    summary="List live workers",
    description="Return the live worker sessions and what they offer.",
    answer=WorkerList,
)
PREVIEW_CRON = Operation(
    id="preview_cron",
    method="GET",
    path=f"{_API}/cron/next",
    right=Right.READ,
    summary="Show when a cron expression fires",
    description="Return the next fires of an expression in a zone, and what it means in words.",
    query=(
        Parameter("expression", "Five fields, or six with seconds first.", is_required=True),
        Parameter("tz", "The zone, an IANA name.", default="UTC"),
        Parameter("dst", "What happens at changes of the clock: `vixie` or GAP/OVERLAP.", default="vixie"),
        Parameter("count", "How many fires.", default=5, bounds=(1, 100)),
        Parameter("after", "The fires after this instant, ISO 8601 with an offset; now by default."),
    ),
    answer=FiresView,
)

# -- the worker protocol -----------------------------------------------------------------------------------------------

WORKER_REGISTER = Operation(
    id="worker_register",
    method="POST",
    path=f"{_WORKER}/register",
    right=Right.WORK,
    summary="Open a worker session",
    description="Open a session; beat at least once in every period.",
    # Decoded by the handler: it looks at the number of the protocol first, then at the fields that go with it.
    body=Body(protocol.RegisterBody, dict[str, Any]),
    answer=protocol.SessionGranted,
    statuses=(201,),
)
WORKER_CLAIM = Operation(
    id="worker_claim",
    method="POST",
    path=f"{_WORKER}/claim",
    right=Right.WORK,
    summary="Take leases",
    description="Take leases, waiting up to `wait_seconds` for the first; a repeated number gets the same answer."
    " A claim whose connection is closed waits no longer.",
    body=Body(protocol.ClaimBody, protocol.ClaimBody),
    answer=protocol.ClaimAnswerView,
)
WORKER_BEAT = Operation(
    id="worker_beat",
    method="POST",
    path=f"{_WORKER}/beat",
    right=Right.WORK,
    summary="Send a heartbeat",
    description="Say that the session lives and what it holds; learn what it lost and what to cancel.",
    body=Body(protocol.BeatBody, protocol.BeatBody, limit=BEAT_LIMIT),
    answer=protocol.BeatView,
)
WORKER_REPORT = Operation(
    id="worker_report",
    method="POST",
    path=f"{_WORKER}/report",
    right=Right.WORK,
    summary="Say how attempts ended",
    description="Say how attempts ended; a repeat of an applied report is applied again, a late one is stale.",
    body=Body(protocol.ReportBody, protocol.ReportBody),
    answer=protocol.ReportView,
)
WORKER_LEAVE = Operation(
    id="worker_leave",
    method="POST",
    path=f"{_WORKER}/leave",
    right=Right.WORK,
    summary="End a session",
    description="End the session; whatever it still holds is treated as lost at once.",
    body=Body(protocol.SessionBody, protocol.SessionBody),
    answer=type(None),
    statuses=(204,),
)

OPERATIONS: tuple[Operation[Any], ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Operation)
)
"""All of them, in the order of the page."""
