"""Backfills: make, show, pause, resume, cancel."""

from __future__ import annotations

from typing import Any

from mainspring.api.call import Answer, Call, Endpoint, handles
from mainspring.api.reading import path_backfill_id, path_job_id, query_backfill_id, query_job_id
from mainspring.core.backfill import BackfillChange
from mainspring.core.ids import format_backfill_id
from mainspring.wire import operations
from mainspring.wire.backfills import BackfillAnswer, BackfillPage, BackfillView, view_backfill, view_plan


@handles(operations.CREATE_BACKFILL)
async def create_backfill(call: Call, body: dict[str, Any]) -> Answer[BackfillAnswer]:
    job_id, rights = path_job_id(call.key), call.principal.shared_rights
    planned = await call.engine.backfills.create(call.tenant, job_id, body, rights=rights, by=call.actor)
    options = planned.request.options
    answer = BackfillAnswer(
        plan=view_plan(planned.plan, rate=options.rate.text, max_live=options.max_live),
        backfill=None if planned.backfill is None else view_backfill(planned.backfill),
    )
    return Answer(answer, status=200 if planned.backfill is None else 202)


@handles(operations.LIST_BACKFILLS)
async def list_backfills(call: Call) -> BackfillPage:
    limit: int = call.query["limit"]
    job_id, before = call.query.get("job_id"), call.query.get("before")
    found = await call.engine.backfills.list_page(
        call.tenant,
        job_id=None if job_id is None else query_job_id(job_id, "job_id"),
        before=None if before is None else query_backfill_id(before, "before"),
        limit=limit,
    )
    following = format_backfill_id(found[-1].id) if len(found) == limit else None
    return BackfillPage([view_backfill(backfill) for backfill in found], following)


@handles(operations.GET_BACKFILL)
async def get_backfill(call: Call) -> BackfillView:
    return view_backfill(await call.engine.backfills.get(call.tenant, path_backfill_id(call.key)))


@handles(operations.PAUSE_BACKFILL)
async def pause_backfill(call: Call) -> BackfillView:
    return await _change(call, BackfillChange.PAUSE)


@handles(operations.RESUME_BACKFILL)
async def resume_backfill(call: Call) -> BackfillView:
    return await _change(call, BackfillChange.RESUME)


@handles(operations.CANCEL_BACKFILL)
async def cancel_backfill(call: Call) -> BackfillView:
    return await _change(call, BackfillChange.CANCEL)


async def _change(call: Call, change: BackfillChange) -> BackfillView:
    backfill_id = path_backfill_id(call.key)
    return view_backfill(await call.engine.backfills.change(call.tenant, backfill_id, change, by=call.actor))


ROUTES: list[Endpoint] = [
    create_backfill,
    list_backfills,
    get_backfill,
    pause_backfill,
    resume_backfill,
    cancel_backfill,
]
