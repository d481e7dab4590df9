"""Operations on calendars."""

from __future__ import annotations

from typing import Any

from mainspring.core.rights import Right
from mainspring.wire.bodies import PreviewBody
from mainspring.wire.calendars import (
    CalendarBody,
    CalendarDays,
    CalendarImported,
    CalendarPage,
    CalendarView,
    CalendarWritten,
    FireList,
    TriggerPreview,
)
from mainspring.wire.operation import ICS, Body, Operation, Parameter
from mainspring.wire.operations.common import API, LIMIT
from mainspring.wire.views import Deleted

_CALENDAR = f"{API}/calendars/{{calendar}}"
_VERSION = Parameter("version", "This version, not the newest.", bounds=(1, 999_999))
_FROM = Parameter("from", "Only fires at or after this instant, ISO 8601 with an offset; now by default.")
_COUNT = Parameter("count", "How many fires to return.", default=5, bounds=(1, 1000))

LIST_CALENDARS = Operation(
    id="list_calendars",
    method="GET",
    path=f"{API}/calendars",
    right=Right.READ,
    summary="List calendars",
    description="Return a page of the newest versions of all calendars, by name.",
    query=(LIMIT, Parameter("after", "Only calendars after this one: the `next` of the previous page.")),
    answer=CalendarPage,
)
GET_CALENDAR = Operation(
    id="get_calendar",
    method="GET",
    path=_CALENDAR,
    right=Right.READ,
    summary="Get a calendar",
    description="Return the newest version of a calendar, or a given one. Those of deleted calendars stay readable.",
    query=(_VERSION,),
    answer=CalendarView,
)
UPSERT_CALENDAR = Operation(
    id="upsert_calendar",
    method="PUT",
    path=_CALENDAR,
    right=Right.EDIT,
    summary="Create a calendar, or give it a new version",
    description="Keep a new version, and set the clocks of jobs that follow the calendar. Runs that were made stay.",
    body=Body(CalendarBody, dict[str, Any]),
    answer=CalendarWritten,
    statuses=(200, 201),
)
IMPORT_CALENDAR = Operation(
    id="import_calendar",
    method="POST",
    path=f"{_CALENDAR}/ics",
    right=Right.EDIT,
    summary="Import a calendar from an ICS file",
    description="Read the events of a file in iCalendar, and keep their times as a new version of the calendar. The "
    "same events again make none. The server needs the extra `ics`.",
    body=Body(str, bytes, media_types=(ICS,)),
    query=(
        Parameter(
            "tz", "The zone in which days begin, like `Europe/Berlin`; by default the file's, or else `UTC`."
        ),
    ),
    answer=CalendarImported,
    statuses=(200, 201),
)
DELETE_CALENDAR = Operation(
    id="delete_calendar",
    method="DELETE",
    path=_CALENDAR,
    right=Right.EDIT,
    summary="Delete a calendar",
    description="Delete a calendar that no job and no blackout uses, and no other calendar names.",
    answer=Deleted,
    is_conflicting=True,
)
LIST_CALENDAR_VERSIONS = Operation(
    id="list_calendar_versions",
    method="GET",
    path=f"{_CALENDAR}/versions",
    right=Right.READ,
    summary="List a calendar's versions",
    description="Return a page of the versions of a calendar, the newest first.",
    query=(LIMIT, Parameter("before", "Only versions before this one.", bounds=(1, 999_999))),
    answer=CalendarPage,
)
LIST_CALENDAR_DAYS = Operation(
    id="list_calendar_days",
    method="GET",
    path=f"{_CALENDAR}/days",
    right=Right.READ,
    summary="List a calendar's days",
    description="Return the dates of a range that a calendar holds at least in part, and the hours if not all day.",
    query=(
        Parameter("from", "The first date, like `2026-12-01`; today by default."),
        Parameter("to", "The last date; a year later by default."),
        _VERSION,
    ),
    answer=CalendarDays,
)
LIST_JOB_FIRES = Operation(
    id="list_job_fires",
    method="GET",
    path=f"{API}/jobs/{{job_id}}/fires",
    right=Right.READ,
    summary="List a job's next fires",
    description="Return when a job fires next, and what its calendars do with its fires.",
    query=(_FROM, _COUNT),
    answer=FireList,
)
PREVIEW_TRIGGER = Operation(
    id="preview_trigger",
    method="POST",
    path=f"{API}/triggers/preview",
    right=Right.READ,
    summary="Show when a job or a trigger would fire",
    description="Return what a job or a trigger is understood as, in words, too, with warnings and the next fires. "
    "A job of that name keeps its anchors. Nothing is stored.",
    body=Body(PreviewBody, dict[str, Any]),
    query=(_FROM, _COUNT),
    answer=TriggerPreview,
)
