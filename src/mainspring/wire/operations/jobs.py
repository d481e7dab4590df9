"""Operations on jobs."""

from __future__ import annotations

from typing import Any

from mainspring.core.rights import Right
from mainspring.wire.applying import AppliedView, DefinitionsBody, DefinitionsView, UnreadDefinitions
from mainspring.wire.bodies import JobBody, JobPatch
from mainspring.wire.ledger import FireRangeList, LedgerPage, LedgerView
from mainspring.wire.operation import (
    BULK_LIMIT,
    DEFINITIONS_LIMIT,
    JSON,
    MERGE_PATCH,
    Body,
    Operation,
    Parameter,
)
from mainspring.wire.operations.common import API, LIMIT
from mainspring.wire.pages import JobPage
from mainspring.wire.versions import VersionPage
from mainspring.wire.views import BulkJobView, Deleted, JobView, StatusView
from mainspring.wire.written import JobWritten

_PERIOD = (
    Parameter(
        "from", "Only fires from this instant on, ISO 8601 or like `2h`; by default `1d`, at most `7d`."
    ),
    Parameter("to", "Only fires up to this instant, ISO 8601 or like `2h`."),
)
_VERSION = (
    Parameter(
        "version",
        "The version that you read: if the job has another one by now, nothing changes, and the answer is 409.",
        bounds=(1, 999_999_999),
    ),
)
_JOB = f"{API}/jobs/{{job_id}}"

CREATE_JOB = Operation(
    id="create_job",
    method="POST",
    path=f"{API}/jobs",
    right=Right.EDIT,
    summary="Create a job",
    description="Create a job. The name must be free; a job that can never fire is refused.",
    body=Body(JobBody, dict[str, Any]),
    answer=JobWritten,
    statuses=(201,),
    is_conflicting=True,
)
UPSERT_JOB = Operation(
    id="upsert_job",
    method="PUT",
    path=f"{API}/jobs",
    right=Right.EDIT,
    summary="Create a job, or redefine the one of that name",
    description="Create the job (201), or give the existing job of that name this definition (200).",
    body=Body(JobBody, dict[str, Any]),
    answer=JobWritten,
    statuses=(201, 200),
    is_conflicting=True,
)
CREATE_JOBS = Operation(
    id="create_jobs",
    method="POST",
    path=f"{API}/jobs/bulk",
    right=Right.EDIT,
    summary="Create many jobs",
    description=f"Create up to {BULK_LIMIT:,} jobs in one transaction. "
    "An invalid job refuses all, and so does one too many; a taken name only that job.",
    body=Body(list[JobBody], Any),
    answer=list[BulkJobView],
    is_conflicting=True,
)
APPLY_JOBS = Operation(
    id="apply_jobs",
    method="POST",
    path=f"{API}/jobs/apply",
    right=Right.EDIT,
    summary="Make many jobs what they are to be",
    description=f"Create up to {BULK_LIMIT:,} jobs, or give those of these names that differ these definitions. "
    "It is one transaction: if one job is invalid, or has just been changed by someone else, none is changed.",
    body=Body(list[JobBody], Any, limit=DEFINITIONS_LIMIT),
    answer=list[AppliedView],
    is_conflicting=True,
)
APPLY_DEFINITIONS = Operation(
    id="apply_definitions",
    method="PUT",
    path=f"{API}/definitions",
    right=Right.EDIT,
    summary="Make many jobs what they are to be, and say whose they are",
    description=f"Apply up to {BULK_LIMIT:,} jobs, say whose they are, and delete what these owners do not define any "
    f"more: all in one transaction. Of the deletions it holds {BULK_LIMIT:,}; further ones follow it.",
    body=Body(DefinitionsBody, UnreadDefinitions, limit=DEFINITIONS_LIMIT),
    answer=DefinitionsView,
    is_conflicting=True,
)
DIFF_JOBS = Operation(
    id="diff_jobs",
    method="POST",
    path=f"{API}/jobs/diff",
    right=Right.READ,
    summary="Say what would change of many jobs",
    description="Say what applying these jobs would do. Nothing is stored.",
    body=Body(list[JobBody], Any, limit=DEFINITIONS_LIMIT),
    answer=list[AppliedView],
    is_conflicting=True,
)
LIST_JOBS = Operation(
    id="list_jobs",
    method="GET",
    path=f"{API}/jobs",
    right=Right.READ,
    summary="List jobs",
    description="Return a page of jobs in order of creation, or the job with a given name.",
    query=(
        LIMIT,
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
    query=_VERSION,
    answer=JobWritten,
    is_conflicting=True,
)
REPLACE_JOB = Operation(
    id="replace_job",
    method="PUT",
    path=_JOB,
    right=Right.EDIT,
    summary="Replace a job's definition",
    description="Give a job this whole definition: what is left out gets its default. It may have another name.",
    body=Body(JobBody, dict[str, Any]),
    query=_VERSION,
    answer=JobWritten,
    is_conflicting=True,
)
LIST_JOB_VERSIONS = Operation(
    id="list_job_versions",
    method="GET",
    path=f"{_JOB}/versions",
    right=Right.READ,
    summary="List a job's versions",
    description="Return a page of the definitions that a job had, the newest first, each with what it changed.",
    query=(
        LIMIT,
        Parameter("before", "Only versions before this one.", bounds=(1, 999_999_999)),
    ),
    answer=VersionPage,
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
    description="Compare the fires that a job owed, since its last change at most, with those on record.",
    query=_PERIOD,
    answer=LedgerView,
)
LIST_LEDGERS = Operation(
    id="list_ledgers",
    method="GET",
    path=f"{API}/ledger",
    right=Right.READ,
    summary="List the ledgers of all jobs",
    description="Do the same for a page of jobs, in order of creation. A page whose time is over has fewer jobs.",
    query=(
        LIMIT,
        Parameter("after", "Only jobs created after this one: the `next` of the last page."),
        *_PERIOD,
    ),
    answer=LedgerPage,
)
LIST_JOB_FIRE_RANGES = Operation(
    id="list_job_fire_ranges",
    method="GET",
    path=f"{_JOB}/fire-ranges",
    right=Right.READ,
    summary="List a job's fire ranges",
    description="Return the ranges of fire times that are kept as one record: catch-ups, and gaps with their reasons.",
    query=(LIMIT,),
    answer=FireRangeList,
)
