"""Operations on backfills."""

from __future__ import annotations

from typing import Any

from mainspring.core.rights import Right
from mainspring.wire.backfills import BackfillAnswer, BackfillBody, BackfillPage, BackfillView
from mainspring.wire.operation import Body, Operation, Parameter
from mainspring.wire.operations.common import API, LIMIT

_BACKFILL = f"{API}/backfills/{{backfill_id}}"

CREATE_BACKFILL = Operation(
    id="create_backfill",
    method="POST",
    path=f"{API}/jobs/{{job_id}}/backfills",
    right=Right.OPERATE,
    summary="Backfill a job",
    description="Make the runs of a job for a range that is past, each fire once, at a bounded rate (202). "
    "With `dry_run`, only say what that would be (200). A pace above the settings needs the right `admin`.",
    body=Body(BackfillBody, dict[str, Any]),
    answer=BackfillAnswer,
    statuses=(202, 200),
    is_conflicting=True,
)
LIST_BACKFILLS = Operation(
    id="list_backfills",
    method="GET",
    path=f"{API}/backfills",
    right=Right.READ,
    summary="List backfills",
    description="Return a page of backfills, of one job or of all, the newest first.",
    query=(
        LIMIT,
        Parameter("before", "Only backfills before this one: the `next` of the previous page."),
        Parameter("job_id", "Only backfills of this job."),
    ),
    answer=BackfillPage,
)
GET_BACKFILL = Operation(
    id="get_backfill",
    method="GET",
    path=_BACKFILL,
    right=Right.READ,
    summary="Get a backfill",
    description="Return a backfill, and how far it has come.",
    answer=BackfillView,
)
PAUSE_BACKFILL = Operation(
    id="pause_backfill",
    method="POST",
    path=f"{_BACKFILL}/pause",
    right=Right.OPERATE,
    summary="Pause a backfill",
    description="Make no further runs of a backfill for now. Those that were made go on.",
    answer=BackfillView,
    is_conflicting=True,
)
RESUME_BACKFILL = Operation(
    id="resume_backfill",
    method="POST",
    path=f"{_BACKFILL}/resume",
    right=Right.OPERATE,
    summary="Resume a backfill",
    description="Go on with a paused backfill where it stopped.",
    answer=BackfillView,
    is_conflicting=True,
)
CANCEL_BACKFILL = Operation(
    id="cancel_backfill",
    method="POST",
    path=f"{_BACKFILL}/cancel",
    right=Right.OPERATE,
    summary="Cancel a backfill",
    description="Make no further runs of a backfill, and cancel those that wait. Those under way go on.",
    answer=BackfillView,
    is_conflicting=True,
)
