"""What operations of several subjects have in common."""

from __future__ import annotations

from mainspring.wire.operation import Parameter

API = "/api/v1"
LIMIT = Parameter("limit", "The most to return.", default=100, bounds=(1, 1000))
BEFORE = Parameter("before", "Only runs before this one: the `next` of the previous page.")
STATE = Parameter("state", "Only runs in this state, in upper or lower case.")
MOMENT = "ISO 8601 with an offset, or so long ago, like `2h`"
RUN_FILTERS = (
    Parameter("queue", "Only runs of this queue."),
    Parameter("kind", "Only runs of this kind, like `scheduled` or `manual`, in upper or lower case."),
    Parameter("error", "Only runs whose error begins with this text. Needs `state=FAILED`."),
    Parameter("since", f"Only runs created at or after this instant, {MOMENT}."),
    Parameter("until", f"Only runs created before this instant, {MOMENT}."),
    Parameter(
        "fields", "`brief`: rows for a table, with the job's name, without payload, result and output."
    ),
)
