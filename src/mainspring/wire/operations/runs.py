"""Operations on runs."""

from __future__ import annotations

from mainspring.core.rights import Right
from mainspring.core.run_logs import MOST_PLACE
from mainspring.wire.bodies import BulkSubmitItem, RedriveBody, SubmitBody
from mainspring.wire.operation import BULK_LIMIT, Body, Operation, Parameter
from mainspring.wire.operations.common import API, BEFORE, LIMIT, RUN_FILTERS, STATE
from mainspring.wire.pages import BriefPage, RunPage
from mainspring.wire.run_detail import RunDetail
from mainspring.wire.run_logs import OFFSET_HEADER
from mainspring.wire.views import BulkRunView, CancelView, CountsView, SubmittedView
from mainspring.wire.why import WhyView

_JOB = f"{API}/jobs/{{job_id}}"
_RUN = f"{API}/runs/{{run_id}}"
_KEY = Parameter("Idempotency-Key", "The same key within 24 h returns the same run.", lengths=(1, 255))
_TRACE = Parameter(
    "traceparent",
    "The trace that the run goes on with, as W3C has it. One that cannot be read counts as not given.",
)
_SUBMISSION = Body(SubmitBody, SubmitBody, is_optional=True)

RUN_JOB_NOW = Operation(
    id="run_job_now",
    method="POST",
    path=f"{_JOB}/run",
    right=Right.SUBMIT,
    summary="Run a job now",
    description="Submit a run, as `/runs` does.",
    body=_SUBMISSION,
    headers=(_KEY, _TRACE),
    answer=SubmittedView,
    statuses=(201, 200),
    is_conflicting=True,
    is_rationed=True,
)
SUBMIT_RUN = Operation(
    id="submit_run",
    method="POST",
    path=f"{_JOB}/runs",
    right=Right.SUBMIT,
    summary="Submit a run of a job",
    description="Submit a run (201). No run is made (200) for a repeated Idempotency-Key, "
    "or if a rule of the job says so.",
    body=_SUBMISSION,
    headers=(_KEY, _TRACE),
    answer=SubmittedView,
    statuses=(201, 200),
    is_conflicting=True,
    is_rationed=True,
)
LIST_JOB_RUNS: Operation[RunPage | BriefPage] = Operation(
    id="list_job_runs",
    method="GET",
    path=f"{_JOB}/runs",
    right=Right.READ,
    summary="List the runs of a job",
    description="Return a page of the job's runs, newest first, including finished ones.",
    query=(LIMIT, BEFORE, STATE, *RUN_FILTERS),
    answer=RunPage,
    other_answers=(BriefPage,),
)
SUBMIT_RUNS = Operation(
    id="submit_runs",
    method="POST",
    path=f"{API}/runs/bulk",
    right=Right.SUBMIT,
    summary="Submit many runs",
    description=f"Submit up to {BULK_LIMIT:,} runs in one transaction. "
    "An invalid run refuses all, and so does a full queue; a used key, or a rule of the job, only that run.",
    body=Body(list[BulkSubmitItem], list[BulkSubmitItem]),
    headers=(_TRACE,),
    answer=list[BulkRunView],
    is_rationed=True,
)
LIST_RUNS: Operation[RunPage | BriefPage] = Operation(
    id="list_runs",
    method="GET",
    path=f"{API}/runs",
    right=Right.READ,
    summary="List runs",
    description="Return a page of runs, newest first. With `job_id`, only those of one job, which may be deleted. A"
    " list whose time is over returns what it has found, and how far it looked.",
    query=(
        *(LIMIT, BEFORE, STATE, *RUN_FILTERS, Parameter("job_id", "Only runs of this job.")),
        Parameter("backfill", "Only runs of this backfill."),
    ),
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
GET_RUN_LOGS = Operation(
    id="get_run_logs",
    method="GET",
    path=f"{_RUN}/logs",
    right=Right.READ,
    summary="Read what a run writes",
    description="Return what an attempt has written, as plain text. With `follow`, events (`text/event-stream`) tell "
    "what is written, until the run or that attempt has ended: `log` with `attempt` and `text`, at last `end` with "
    "`status`. The header `Last-Event-ID`, with the id of the last event that was read, goes on from there.",
    query=(
        Parameter(
            "attempt",
            "The number of the attempt; without it, the last one that has begun, and with `follow` those after it.",
            bounds=(1, 2**31 - 1),
        ),
        Parameter(
            "offset",
            f"How many bytes to leave out: the header `{OFFSET_HEADER}` of the last answer.",
            default=0,
            bounds=(0, MOST_PLACE),
        ),
        Parameter("follow", "`true`: go on while the run is under way.", default="false"),
    ),
    answer=str,
    media_type="text/plain; charset=utf-8",
    is_followed=True,
)
GET_RUN_WHY = Operation(
    id="get_run_why",
    method="GET",
    path=f"{_RUN}/why",
    right=Right.READ,
    summary="Say why a run waits",
    description="Say in one sentence why a run has not started, or what became of it.",
    answer=WhyView,
    is_rationed=True,
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
REDRIVE_RUN = Operation(
    id="redrive_run",
    method="POST",
    path=f"{_RUN}/redrive",
    right=Right.OPERATE,
    summary="Run a failed run again",
    description="Make a run (201) that repeats a FAILED or CANCELLED one. A run is redriven once: later calls return "
    "the same run (200). A run in another state, or of a deleted job, is refused.",
    body=Body(RedriveBody, RedriveBody, is_optional=True),
    answer=SubmittedView,
    statuses=(201, 200),
    is_conflicting=True,
    is_rationed=True,
)
COUNT_RUNS = Operation(
    id="count_runs",
    method="GET",
    path=f"{API}/counts",
    right=Right.READ,
    summary="Count runs by state",
    description="Return how many runs are in each state, including finished ones within their retention, and how old"
    " the count is.",
    answer=CountsView,
)
