"""Dead letters: list, group, discard."""

from __future__ import annotations

from mainspring.api.call import Call, Endpoint, handles
from mainspring.api.dead_filters import read_dead_filter
from mainspring.api.reading import query_run_id
from mainspring.core.fields import read_one_of, read_text
from mainspring.core.ids import format_run_id
from mainspring.wire import operations
from mainspring.wire.dead_letters import (
    DeadFilterBody,
    DeadGroups,
    DeadPage,
    DiscardBody,
    DiscardedView,
    view_dead,
    view_dead_group,
)

_LONGEST_REASON = 500


@handles(operations.LIST_DEAD_RUNS)
async def list_dead_runs(call: Call) -> DeadPage:
    query, letters = call.query, call.engine.dead_letters
    limit: int = query["limit"]
    before = query_run_id(query["before"], "before") if "before" in query else None
    is_settled = "settled" in query and read_one_of(query["settled"], "settled", ["true", "false"]) == "true"
    wanted = await read_dead_filter(call, _of_query(call), is_settled=is_settled)
    found = await letters.list_page(call.tenant, wanted, before=before, limit=limit)
    names = await letters.name_jobs([letter.run.job_id for letter in found])
    following = format_run_id(found[-1].run.id) if len(found) == limit else None
    return DeadPage([view_dead(letter, names.get(letter.run.job_id)) for letter in found], following)


@handles(operations.GROUP_DEAD_RUNS)
async def group_dead_runs(call: Call) -> DeadGroups:
    letters = call.engine.dead_letters
    wanted = await read_dead_filter(call, _of_query(call))
    groups = await letters.groups(call.tenant, wanted, limit=call.query["limit"])
    names = await letters.name_jobs([group.job_id for group in groups])
    return DeadGroups([view_dead_group(group, names.get(group.job_id)) for group in groups])


@handles(operations.DISCARD_DEAD_RUNS)
async def discard_dead_runs(call: Call, body: DiscardBody) -> DiscardedView:
    reason = read_text(body.reason, "reason", longest=_LONGEST_REASON)
    wanted = await read_dead_filter(call, body.filter, prefix="filter.")
    done = await call.engine.dead_letters.discard(
        call.tenant, wanted, reason=reason, is_dry_run=body.dry_run, by=call.actor
    )
    first = [format_run_id(run_id) for run_id in done.first]
    return DiscardedView(total=done.count, first=first, is_complete=done.is_complete, until=done.until)


def _of_query(call: Call) -> DeadFilterBody:
    query = call.query
    fields = ("job", "queue", "reason", "error", "error_group", "since", "until")
    return DeadFilterBody(**{field: query[field] for field in fields if field in query})


ROUTES: list[Endpoint] = [list_dead_runs, group_dead_runs, discard_dead_runs]
