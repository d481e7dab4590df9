"""Reads which dead letters a request means."""

from __future__ import annotations

from datetime import datetime

from mainspring.api.call import Call
from mainspring.api.hiding import check_filters
from mainspring.api.reading import query_moment, query_run_id
from mainspring.core.dead_letters import DeadFilter
from mainspring.core.fields import MAX_NAME, read_text
from mainspring.core.ids import JobId, parse_job_id
from mainspring.errors import InvalidInput
from mainspring.wire.dead_letters import DeadFilterBody
from mainspring.wire.operation import BULK_LIMIT


async def read_dead_filter(
    call: Call, body: DeadFilterBody, *, is_settled: bool = False, prefix: str = ""
) -> DeadFilter:
    """Return which dead letters a request means.

    Args:
        prefix: what stands before the fields in errors.

    Raises:
        InvalidInput: a field is wrong, or there is no such job.
        Rejected: 403, it is told by what is hidden from the caller.
    """
    if call.principal.hides_payloads:
        check_filters({"error": body.error, "error_group": body.error_group})
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
