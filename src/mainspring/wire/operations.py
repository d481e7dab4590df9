"""All operations of the HTTP API, each described once.

Routing, permission checks, the reading of queries and bodies, `/openapi.json`, the tables in
docs/reference/http-api.md and the client's calls all come from this table. The handlers are in `api.routes`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.core.rights import Right
from mainspring.wire import protocol
from mainspring.wire.bodies import BulkSubmitItem, JobBody, JobPatch, SubmitBody
from mainspring.wire.health import HealthView
from mainspring.wire.operation import BULK_LIMIT, JSON, MERGE_PATCH, Body, Operation, Parameter
from mainspring.wire.pages import BriefPage, JobPage, RunPage, WorkerPage
from mainspring.wire.views import (
    BulkJobView,
    BulkRunView,
    CancelView,
    CountsView,
    Deleted,
    FireRangeList,
    FiresView,
    JobView,
    LedgerView,
    RunDetail,
    StatusView,
    SubmittedView,
)

_API = "/api/v1"
_JOB = f"{_API}/jobs/{{job_id}}"
_RUN = f"{_API}/runs/{{run_id}}"
_WORKER = f"{_API}/worker"
BEAT_LIMIT = 4 * 1024 * 1024
"""The most bytes of a heartbeat, which names every held lease: enough for about 80,000."""

_LIMIT = Parameter("limit", "The most to return.", default=100, bounds=(1, 1000))
_BEFORE = Parameter("before", "Only runs before this one: the `next` of the previous page.")
_STATE = Parameter("state", "Only runs in this state, in upper or lower case.")
_MOMENT = "ISO 8601 with an offset, or so long ago, like `2h`"
_RUN_FILTERS = (
    Parameter("queue", "Only runs of this queue."),
    Parameter("kind", "Only runs of this kind, like `scheduled` or `manual`, in upper or lower case."),
    Parameter("error", "Only runs whose error begins with this text. Needs `state=FAILED`."),
    Parameter("since", f"Only runs created at or after this instant, {_MOMENT}."),
    Parameter("until", f"Only runs created before this instant, {_MOMENT}."),
    Parameter(
        "fields", "`brief`: rows for a table, with the job's name, without payload, result and output."
    ),
)
_KEY = Parameter("Idempotency-Key", "The same key within 24 h returns the same run.", lengths=(1, 255))
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
    description=f"Create up to {BULK_LIMIT:,} jobs in one transaction. "
    "An invalid job refuses all; a taken name only that job.",
    body=Body(list[JobBody], Any),
    answer=list[BulkJobView],
)
LIST_JOBS = Operation(
    id="list_jobs",
    method="GET",
    path=f"{_API}/jobs",
    right=Right.READ,
    summary="List jobs",
    description="Return a page of jobs in order of creation, or the job with a given name.",
    query=(
        _LIMIT,
        Parameter("after", "Only jobs after this one: the `next` of the previous page."),
        Parameter("name", "Only the job with this name. `limit` and `after` then have no effect."),
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
    description="Change the given fields (a merge patch). This makes a new version; waiting runs keep theirs.",
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
    description="Delete a job. Its name is free at once. Waiting runs are cancelled; all runs stay readable by id.",
    answer=Deleted,
)
PAUSE_JOB = Operation(
    id="pause_job",
    method="POST",
    path=f"{_JOB}/pause",
    right=Right.OPERATE,
    summary="Pause a job",
    description="Stop a job's clock. The fires that do not happen during the pause are on record.",
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
    description="Compare the fires owed in the last day, or since the job's last change, with those on record.",
    answer=LedgerView,
)
LIST_JOB_FIRE_RANGES = Operation(
    id="list_job_fire_ranges",
    method="GET",
    path=f"{_JOB}/fire-ranges",
    right=Right.READ,
    summary="List a job's fire ranges",
    description="Return the ranges of fire times that are kept as one record: catch-ups, and gaps with their reasons.",
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
    description="Submit a run (202). A repeated Idempotency-Key returns the first run (200).",
    body=_SUBMISSION,
    headers=(_KEY,),
    answer=SubmittedView,
    statuses=(202, 200),
    is_conflicting=True,
)
LIST_JOB_RUNS: Operation[RunPage | BriefPage] = Operation(
    id="list_job_runs",
    method="GET",
    path=f"{_JOB}/runs",
    right=Right.READ,
    summary="List the runs of a job",
    description="Return a page of the job's runs, newest first, including finished ones.",
    query=(_LIMIT, _BEFORE, _STATE, *_RUN_FILTERS),
    answer=RunPage,
    other_answers=(BriefPage,),
)
SUBMIT_RUNS = Operation(
    id="submit_runs",
    method="POST",
    path=f"{_API}/runs/bulk",
    right=Right.SUBMIT,
    summary="Submit many runs",
    description=f"Submit up to {BULK_LIMIT:,} runs in one transaction. "
    "An invalid run refuses all; a used key only that run.",
    body=Body(list[BulkSubmitItem], list[BulkSubmitItem]),
    answer=list[BulkRunView],
)
LIST_RUNS: Operation[RunPage | BriefPage] = Operation(
    id="list_runs",
    method="GET",
    path=f"{_API}/runs",
    right=Right.READ,
    summary="List runs",
    description="Return a page of runs, newest first. With `job_id`, only those of one job, which may be deleted. A"
    " list whose time is over returns what it has found, and how far it looked.",
    query=(_LIMIT, _BEFORE, _STATE, *_RUN_FILTERS, Parameter("job_id", "Only runs of this job.")),
    answer=RunPage,
    other_answers=(BriefPage,),
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
    description="Cancel a run. A waiting run ends at once; a running one is asked to stop, but a completion wins.",
    answer=CancelView,
)
COUNT_RUNS = Operation(
    id="count_runs",
    method="GET",
    path=f"{_API}/counts",
    right=Right.READ,
    summary="Count runs by state",
    description="Return how many runs are in each state, including finished ones within their retention, and how old"
    " the count is.",
    answer=CountsView,
)

# -- the server --------------------------------------------------------------------------------------------------------

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
LIST_WORKERS = Operation(
    id="list_workers",
    method="GET",
    path=f"{_API}/workers",
    right=Right.READ,
    summary="List live workers",
    description="Return a page of live worker sessions, in order of their start, and what they offer.",
    query=(
        _LIMIT,
        Parameter("after", "Only sessions after this one: the `next` of the previous page."),
    ),
    answer=WorkerPage,
)
PREVIEW_CRON = Operation(
    id="preview_cron",
    method="GET",
    path=f"{_API}/cron/next",
    right=Right.READ,
    summary="Show when a cron expression fires",
    description="Return the next fires of a cron expression in a zone, and explain the expression in words.",
    query=(
        Parameter("expression", "Five fields, or six with seconds first.", is_required=True),
        Parameter("tz", "The zone's IANA name.", default="UTC"),
        Parameter("dst", "What happens when clocks change: `vixie` or GAP/OVERLAP.", default="vixie"),
        Parameter("count", "How many fires to return.", default=5, bounds=(1, 100)),
        Parameter("after", "Only fires after this instant, ISO 8601 with an offset; now by default."),
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
    description="Open a session. Then beat at least once per period.",
    # The handler decodes it: it checks the protocol's number first, then the fields that go with that number.
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
    description="Take leases; wait up to `wait_seconds` for the first one. A repeated number gets the same answer."
    " When the connection is closed, the claim stops waiting.",
    body=Body(protocol.ClaimBody, protocol.ClaimBody),
    answer=protocol.ClaimAnswerView,
)
WORKER_BEAT = Operation(
    id="worker_beat",
    method="POST",
    path=f"{_WORKER}/beat",
    right=Right.WORK,
    summary="Send a heartbeat",
    description="Confirm that the session is alive and what it holds. Learn what it has lost and what to cancel.",
    body=Body(protocol.BeatBody, protocol.BeatBody, limit=BEAT_LIMIT),
    answer=protocol.BeatView,
)
WORKER_REPORT = Operation(
    id="worker_report",
    method="POST",
    path=f"{_WORKER}/report",
    right=Right.WORK,
    summary="Report how attempts ended",
    description="Report how attempts ended. A repeat of an applied report is `applied` again; a late one is `stale`.",
    body=Body(protocol.ReportBody, protocol.ReportBody),
    answer=protocol.ReportView,
)
WORKER_LEAVE = Operation(
    id="worker_leave",
    method="POST",
    path=f"{_WORKER}/leave",
    right=Right.WORK,
    summary="End a session",
    description="End the session. Whatever it still holds counts as lost at once.",
    body=Body(protocol.SessionBody, protocol.SessionBody),
    answer=type(None),
    statuses=(204,),
)

OPERATIONS: tuple[Operation[Any], ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Operation)
)
"""All operations, in the order of the reference page."""
