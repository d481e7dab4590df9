"""Operations on dead letters. `runs` has the one that runs a failed run again."""

from __future__ import annotations

from mainspring.core.rights import Right
from mainspring.wire.dead_letters import DeadGroups, DeadPage, DiscardBody, DiscardedView
from mainspring.wire.operation import Body, Operation, Parameter
from mainspring.wire.operations.common import API, BEFORE, LIMIT, MOMENT

_DEAD = f"{API}/dead-runs"
_FILTERS = (
    Parameter("job", "Only those of this job, a name or an id."),
    Parameter("queue", "Only those of this queue."),
    Parameter("reason", "Only those that failed for this reason, like `deadline`."),
    Parameter("error", "Only those whose error has this text in it."),
    Parameter("error_group", "Only those whose error is of exactly this group."),
    Parameter("since", f"Only those that failed at or after this instant, {MOMENT}."),
    Parameter("until", f"Only those that failed before this instant, {MOMENT}."),
)

LIST_DEAD_RUNS = Operation(
    id="list_dead_runs",
    method="GET",
    path=_DEAD,
    right=Right.READ,
    summary="List dead letters",
    description="Return a page of the runs that failed for good and were neither redriven nor discarded, the newest"
    " runs first.",
    query=(
        LIMIT,
        BEFORE,
        *_FILTERS,
        Parameter("settled", "`true`: those that were redriven or discarded, not the open ones."),
    ),
    answer=DeadPage,
)
GROUP_DEAD_RUNS = Operation(
    id="group_dead_runs",
    method="GET",
    path=f"{_DEAD}/groups",
    right=Right.READ,
    summary="Group dead letters",
    description="Return how many open dead letters of each job failed alike, the largest groups first.",
    query=(LIMIT, *_FILTERS),
    answer=DeadGroups,
)
DISCARD_DEAD_RUNS = Operation(
    id="discard_dead_runs",
    method="POST",
    path=f"{_DEAD}/discard",
    right=Right.OPERATE,
    summary="Discard dead letters",
    description="Take dead letters off the list for good, with a reason. A discarded run is not redriven any more."
    " With `dry_run`, only say how many that would be.",
    body=Body(DiscardBody, DiscardBody),
    answer=DiscardedView,
    is_rationed=True,
)
