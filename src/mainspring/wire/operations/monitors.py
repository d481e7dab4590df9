"""Operations on monitors, and the pings of the jobs that they watch."""

from __future__ import annotations

from typing import Any

from mainspring.core.rights import Right
from mainspring.wire.monitors import MonitorBody, MonitorList, MonitorView, PingTaken
from mainspring.wire.operation import Body, Operation, Parameter
from mainspring.wire.operations.common import API
from mainspring.wire.views import Deleted

_MONITOR = f"{API}/monitors/{{monitor}}"
_PING = "/ping/{key}"
_EXIT_CODE = Parameter(
    "exit_code", "How the job ended, 0 to 255; anything but 0 is a failure.", bounds=(0, 255)
)

LIST_MONITORS = Operation(
    id="list_monitors",
    method="GET",
    path=f"{API}/monitors",
    right=Right.READ,
    summary="List monitors",
    description="Return all monitors of the tenant, by name.",
    answer=MonitorList,
)
GET_MONITOR = Operation(
    id="get_monitor",
    method="GET",
    path=_MONITOR,
    right=Right.READ,
    summary="Get a monitor",
    description="Return a monitor, as it is known now.",
    answer=MonitorView,
)
UPSERT_MONITOR = Operation(
    id="upsert_monitor",
    method="PUT",
    path=_MONITOR,
    right=Right.EDIT,
    summary="Set a monitor",
    description="Set what the body says, and the defaults for what it leaves out. The answer for a new one tells where"
    " its pings go, this once; one that there is keeps that.",
    body=Body(MonitorBody, dict[str, Any]),
    answer=MonitorView,
    statuses=(200, 201),
    is_conflicting=True,
)
DELETE_MONITOR = Operation(
    id="delete_monitor",
    method="DELETE",
    path=_MONITOR,
    right=Right.EDIT,
    summary="Delete a monitor",
    description="Delete a monitor; its pings find nothing from then on.",
    answer=Deleted,
)


def _ping(method: str, end: str, summary: str, description: str, *query: Parameter) -> Operation[PingTaken]:
    verb = "get" if method == "GET" else "post"
    return Operation(
        id=f"{verb}_ping{end.replace('/', '_')}",
        method=method,
        path=f"{_PING}{end}",
        right=Right.PUBLIC,
        summary=summary,
        description=description,
        query=query,
        answer=PingTaken,
        is_rationed=True,
    )


_DONE = (
    "",
    "Say that a job is done",
    "Note that the job is done: a success, unless an exit code says otherwise.",
)
_START = ("/start", "Say that a job begins", "Note that the job begins.")
_EXTEND = ("/extend", "Say that a job still works", "Give the job its time to run again, from now on.")
_FAIL = ("/fail", "Say that a job failed", "Note that the job has failed.")
GET_PING = _ping("GET", *_DONE, _EXIT_CODE)
POST_PING = _ping("POST", *_DONE, _EXIT_CODE)
GET_PING_START = _ping("GET", *_START)
POST_PING_START = _ping("POST", *_START)
GET_PING_EXTEND = _ping("GET", *_EXTEND)
POST_PING_EXTEND = _ping("POST", *_EXTEND)
GET_PING_FAIL = _ping("GET", *_FAIL)
POST_PING_FAIL = _ping("POST", *_FAIL)
