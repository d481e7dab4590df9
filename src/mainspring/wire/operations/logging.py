"""Operations on the log of the server that answers."""

from __future__ import annotations

from mainspring.core.rights import Right
from mainspring.wire.logging import LoggingBody, LoggingView
from mainspring.wire.operation import Body, Operation
from mainspring.wire.operations.common import API

GET_LOGGING = Operation(
    id="get_logging",
    method="GET",
    path=f"{API}/logging",
    right=Right.ADMIN,
    summary="Show the log's level",
    description="Return which log lines the server that answers writes.",
    answer=LoggingView,
    is_conflicting=True,
)
SET_LOGGING = Operation(
    id="set_logging",
    method="PUT",
    path=f"{API}/logging",
    right=Right.ADMIN,
    summary="Set the log's level for a while",
    description="Have the server that answers write other log lines, until the duration is over. Other servers and"
    " workers go on as they are. The usual level ends a change at once.",
    body=Body(LoggingBody, LoggingBody),
    answer=LoggingView,
    is_conflicting=True,
)
