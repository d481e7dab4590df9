"""Dead letters: list, group, discard."""

from __future__ import annotations

from datetime import datetime

from mainspring.api.call import Call, Endpoint, handles
from mainspring.api.reading import query_moment, query_run_id
from mainspring.core.dead_letters import DeadFilter
from mainspring.core.fields import MAX_NAME, read_one_of, read_text
from mainspring.core.ids import JobId, format_run_id, parse_job_id
from mainspring.errors import InvalidInput
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
from mainspring.wire.operation import BULK_LIMIT

_LONGEST_REASON = 500


@handles(operations.LIST_DEAD_RUNS)
async def list_dead_runs(call: Call) -> DeadPage:
    query, letters = call.query, call.engine.dead_letters
    limit: int = query["limit"]
    before = query_run_id(query["before"], "before") if "before" in query else None
    is_settled = "settled" in query and read_one_of(query["settled"], "settled", ["true", "false"]) == "true"
    wanted = await _filter(call, _of_query(call), is_settled=is_settled)
    found = await letters.list_page(call.tenant, wanted, before=before, limit=limit)
    names = await letters.name_jobs([letter.run.job_id for letter in found])
    following = format_run_id(found[-1].run.id) if len(found) == limit else None
    return DeadPage([view_dead(letter, names.get(letter.run.job_id)) for letter in found], following)


@handles(operations.GROUP_DEAD_RUNS)
async def group_dead_runs(call: Call) -> DeadGroups:
    letters = call.engine.dead_letters
    wanted = await _filter(call, _of_query(call))
    groups = await letters.groups(call.tenant, wanted, limit=call.query["limit"])
    names = await letters.name_jobs([group.job_id for group in groups])
    return DeadGroups([view_dead_group(group, names.get(group.job_id)) for group in groups])


@handles(operations.DISCARD_DEAD_RUNS)
async def discard_dead_runs(call: Call, body: DiscardBody) -> DiscardedView:
    reason = read_text(body.reason, "reason", longest=_LONGEST_REASON)
    wanted = await _filter(call, body.filter, prefix="filter.")
    done = await call.engine.dead_letters.discard(call.tenant, wanted, reason=reason, is_dry_run=body.dry_run)
    first = [format_run_id(run_id) for run_id in done.first]
    return DiscardedView(total=done.count, first=first, is_complete=done.is_complete, until=done.until)


def _of_query(call: Call) -> DeadFilterBody:
    query = call.query
    fields = ("job", "queue", "reason", "error", "error_group", "since", "until")
    return DeadFilterBody(**{field: query[field] for field in fields if field in query})


async def _filter(
    call: Call, body: DeadFilterBody, *, is_settled: bool = False, prefix: str = ""
) -> DeadFilter:
    run_ids = body.run_ids
    if run_ids is not None and len(run_ids) > BULK_LIMIT:
        raise InvalidInput(f"{prefix}run_ids", f"has {len(run_ids):,} runs; at most {BULK_LIMIT:,} fit")
    return DeadFilter(
        job_id=None if body.job is None else await _job_id(call, body.job, f"{prefix}job"),
        queue=body.queue,
        reason=body.reason,
        error=body.error,
        error_group=body.error_group,
        since=_moment(call, body.since, f"{prefix}since"),
        until=_moment(call, body.until, f"{prefix}until"),
        run_ids=None
        if run_ids is None
        else tuple(query_run_id(text, f"{prefix}run_ids[{index}]") for index, text in enumerate(run_ids)),
        is_settled=is_settled,
    )


def _moment(call: Call, text: str | None, field: str) -> datetime | None:
    return None if text is None else query_moment(text, field, now=call.engine.now())


async def _job_id(call: Call, text: str, field: str) -> JobId:
    """Return the id of a job that is given by its id, or by its name. Only an id names a deleted one."""
    try:
        return parse_job_id(text)
    except ValueError:
        name = read_text(text, field, longest=MAX_NAME)
    found = await call.engine.jobs.find_all(call.tenant, [name])
    if not found:
        raise InvalidInput(field, f"there is no job named {name[:60]!r}; a deleted one is given by its id")
    return found[0].id


ROUTES: list[Endpoint] = [list_dead_runs, group_dead_runs, discard_dead_runs]
