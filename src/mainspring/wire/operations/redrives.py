"""Operations on redrives. `runs` has the one that runs a single run again."""

from __future__ import annotations

from mainspring.core.rights import Right
from mainspring.wire.operation import Body, Operation, Parameter
from mainspring.wire.operations.common import API, LIMIT
from mainspring.wire.redrives import RedriveAnswer, RedrivePage, RedriveView, StartRedriveBody

_REDRIVES = f"{API}/redrives"
_REDRIVE = f"{_REDRIVES}/{{redrive_id}}"

START_REDRIVE = Operation(
    id="start_redrive",
    method="POST",
    path=_REDRIVES,
    right=Right.OPERATE,
    summary="Redrive dead letters",
    description="Have the dead letters run again that are open and meant, each once, so many a second (202). The"
    " server goes on with it. With `dry_run`, only say what that would be (200).",
    body=Body(StartRedriveBody, StartRedriveBody),
    answer=RedriveAnswer,
    statuses=(202, 200),
)
LIST_REDRIVES = Operation(
    id="list_redrives",
    method="GET",
    path=_REDRIVES,
    right=Right.READ,
    summary="List redrives",
    description="Return a page of redrives, the newest first.",
    query=(
        LIMIT,
        Parameter("before", "Only redrives before this one: the `next` of the previous page."),
    ),
    answer=RedrivePage,
)
GET_REDRIVE = Operation(
    id="get_redrive",
    method="GET",
    path=_REDRIVE,
    right=Right.READ,
    summary="Get a redrive",
    description="Return a redrive, and how far it has come.",
    answer=RedriveView,
)
PAUSE_REDRIVE = Operation(
    id="pause_redrive",
    method="POST",
    path=f"{_REDRIVE}/pause",
    right=Right.OPERATE,
    summary="Pause a redrive",
    description="Run no further dead letters again for now. Those that were run go on.",
    answer=RedriveView,
    is_conflicting=True,
)
RESUME_REDRIVE = Operation(
    id="resume_redrive",
    method="POST",
    path=f"{_REDRIVE}/resume",
    right=Right.OPERATE,
    summary="Resume a redrive",
    description="Go on with a paused redrive where it stopped.",
    answer=RedriveView,
    is_conflicting=True,
)
CANCEL_REDRIVE = Operation(
    id="cancel_redrive",
    method="POST",
    path=f"{_REDRIVE}/cancel",
    right=Right.OPERATE,
    summary="Cancel a redrive",
    description="Run no further dead letters again; they stay open. Those that were run go on.",
    answer=RedriveView,
    is_conflicting=True,
)
