"""The operation that says what became of runs."""

from __future__ import annotations

from mainspring.core.rights import Right
from mainspring.wire.operation import Operation, Parameter
from mainspring.wire.operations.common import API, MOMENT
from mainspring.wire.usage import UsageView

GET_USAGE = Operation(
    id="get_usage",
    method="GET",
    path=f"{API}/usage",
    right=Right.READ,
    summary="Show what became of runs",
    description="Return how many runs were made, started and ended within a time. It tells how late they started, and"
    " how long their attempts took: in all, by queue, and by the minute or hour.",
    query=(
        Parameter("since", f"From this instant on, {MOMENT}. An hour before `until` if it is not given."),
        Parameter("until", f"Until before this instant, {MOMENT}. Now if it is not given."),
        Parameter(
            "step",
            "`minute`, for at most 3 hours, or `hour`, for at most 31 days. If it is not given, the finer one that"
            " the time allows.",
        ),
        Parameter("queue", "Only runs of this queue."),
    ),
    answer=UsageView,
)
