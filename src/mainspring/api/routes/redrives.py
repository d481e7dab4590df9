"""Redrives: make, show, pause, resume, cancel."""

from __future__ import annotations

from mainspring.api.call import Answer, Call, Endpoint, handles
from mainspring.api.dead_filters import read_dead_filter
from mainspring.api.reading import path_redrive_id, query_redrive_id
from mainspring.core.fields import read_one_of
from mainspring.core.ids import format_redrive_id, format_run_id
from mainspring.core.redrives import RedriveChange
from mainspring.wire import operations
from mainspring.wire.redrives import (
    RedriveAnswer,
    RedrivePage,
    RedriveView,
    StartRedriveBody,
    view_dead_version,
    view_redrive,
)


@handles(operations.START_REDRIVE)
async def start_redrive(call: Call, body: StartRedriveBody) -> Answer[RedriveAnswer]:
    is_newest = read_one_of(body.definition, "definition", ["newest", "kept"]) == "newest"
    wanted = await read_dead_filter(call, body.filter, prefix="filter.")
    planned = await call.engine.redrives.create(
        call.tenant, wanted, rate=body.rate, is_newest=is_newest, is_dry_run=body.dry_run, by=call.actor
    )
    names = await call.engine.dead_letters.name_jobs([one.job_id for one in planned.versions])
    answer = RedriveAnswer(
        total=planned.count,
        versions=[view_dead_version(one, names.get(one.job_id)) for one in planned.versions],
        first=[format_run_id(run_id) for run_id in planned.first],
        redrive=None if planned.redrive is None else view_redrive(planned.redrive),
    )
    return Answer(answer, status=200 if planned.redrive is None else 202)


@handles(operations.LIST_REDRIVES)
async def list_redrives(call: Call) -> RedrivePage:
    limit: int = call.query["limit"]
    before = call.query.get("before")
    found = await call.engine.redrives.list_page(
        call.tenant, before=None if before is None else query_redrive_id(before, "before"), limit=limit
    )
    following = format_redrive_id(found[-1].id) if len(found) == limit else None
    return RedrivePage([view_redrive(redrive) for redrive in found], following)


@handles(operations.GET_REDRIVE)
async def get_redrive(call: Call) -> RedriveView:
    return view_redrive(await call.engine.redrives.get(call.tenant, path_redrive_id(call.key)))


@handles(operations.PAUSE_REDRIVE)
async def pause_redrive(call: Call) -> RedriveView:
    return await _change(call, RedriveChange.PAUSE)


@handles(operations.RESUME_REDRIVE)
async def resume_redrive(call: Call) -> RedriveView:
    return await _change(call, RedriveChange.RESUME)


@handles(operations.CANCEL_REDRIVE)
async def cancel_redrive(call: Call) -> RedriveView:
    return await _change(call, RedriveChange.CANCEL)


async def _change(call: Call, change: RedriveChange) -> RedriveView:
    return view_redrive(
        await call.engine.redrives.change(call.tenant, path_redrive_id(call.key), change, by=call.actor)
    )


ROUTES: list[Endpoint] = [
    start_redrive,
    list_redrives,
    get_redrive,
    pause_redrive,
    resume_redrive,
    cancel_redrive,
]
