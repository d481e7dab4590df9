"""Jobs: create, show, change, delete, pause, resume."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mainspring.api.call import Answer, Call, Endpoint, handles
from mainspring.api.reading import check_bulk, path_job_id, query_job_id, query_moment
from mainspring.core.definition import plain_from_spec, warn_of_definition
from mainspring.core.ids import format_job_id
from mainspring.core.model import Job
from mainspring.engine.common.ledger import LedgerPeriod
from mainspring.engine.usecases.ledger import check_period
from mainspring.engine.usecases.versions import JobVersion
from mainspring.errors import InvalidInput
from mainspring.wire import operations
from mainspring.wire.ledger import FireRangeList, LedgerPage, LedgerView, view_fire_range, view_ledger
from mainspring.wire.pages import JobPage
from mainspring.wire.versions import VersionPage, VersionView, view_changes
from mainspring.wire.views import (
    BulkJobView,
    Deleted,
    JobView,
    StatusView,
    view_job,
    view_status,
)
from mainspring.wire.written import JobWritten, view_written


@handles(operations.CREATE_JOB)
async def create_job(call: Call, body: dict[str, Any]) -> JobWritten:
    return await _written(call, await call.engine.jobs.create(call.tenant, body, by=call.actor), body)


@handles(operations.CREATE_JOBS)
async def create_jobs(call: Call, bodies: Any) -> list[BulkJobView]:
    check_bulk(bodies, "jobs")
    for index, body in enumerate(bodies):
        if not isinstance(body, dict):
            raise InvalidInput(f"[{index}]", "must be an object")
    jobs = await call.engine.jobs.create_many(call.tenant, bodies, by=call.actor)
    views = iter(await _view_all(call, [job for job in jobs if job is not None]))
    return [
        BulkJobView(status="name_taken", job=None)
        if job is None
        else BulkJobView(status="created", job=next(views))
        for job in jobs
    ]


@handles(operations.UPSERT_JOB)
async def upsert_job(call: Call, body: dict[str, Any]) -> Answer[JobWritten]:
    job, is_new = await call.engine.jobs.upsert(call.tenant, body, by=call.actor)
    return Answer(await _written(call, job, body), status=201 if is_new else 200)


@handles(operations.LIST_JOBS)
async def list_jobs(call: Call) -> JobPage:
    query, jobs, tenant = call.query, call.engine.jobs, call.tenant
    if "name" in query:
        found = await jobs.find_all(tenant, [query["name"]])
        return JobPage(await _view_all(call, found), None)
    limit: int = query["limit"]
    after = query_job_id(query["after"], "after") if "after" in query else None
    page = await jobs.list_page(tenant, after=after, limit=limit)
    following = format_job_id(page[-1].id) if len(page) == limit else None
    return JobPage(await _view_all(call, page), following)


@handles(operations.GET_JOB)
async def get_job(call: Call) -> JobView:
    return await _view(call, await call.engine.jobs.get(call.tenant, path_job_id(call.key)))


@handles(operations.EDIT_JOB)
async def edit_job(call: Call, body: dict[str, Any]) -> JobWritten:
    return await _edit(call, body, is_whole=False)


@handles(operations.REPLACE_JOB)
async def replace_job(call: Call, body: dict[str, Any]) -> JobWritten:
    return await _edit(call, body, is_whole=True)


async def _edit(call: Call, body: dict[str, Any], *, is_whole: bool) -> JobWritten:
    job = await call.engine.jobs.edit(
        call.tenant,
        path_job_id(call.key),
        body,
        version=call.query.get("version"),
        is_whole=is_whole,
        by=call.actor,
    )
    return await _written(call, job, body)


@handles(operations.LIST_JOB_VERSIONS)
async def list_versions(call: Call) -> VersionPage:
    limit: int = call.query["limit"]
    page = await call.engine.versions.page(
        call.tenant, path_job_id(call.key), before=call.query.get("before"), limit=limit
    )
    following = page[-1].version if len(page) == limit and page[-1].version > 1 else None
    return VersionPage([view_version(each) for each in page], following)


@handles(operations.DELETE_JOB)
async def delete_job(call: Call) -> Deleted:
    await call.engine.jobs.delete(call.tenant, path_job_id(call.key), by=call.actor)
    return Deleted()


@handles(operations.GET_JOB_STATUS)
async def get_status(call: Call) -> StatusView:
    return view_status(await call.engine.jobs.status(call.tenant, path_job_id(call.key)))


@handles(operations.LIST_JOB_FIRE_RANGES)
async def list_fire_ranges(call: Call) -> FireRangeList:
    fire_ranges = await call.engine.jobs.fire_ranges(
        call.tenant, path_job_id(call.key), limit=call.query["limit"]
    )
    return FireRangeList([view_fire_range(fire_range) for fire_range in fire_ranges])


@handles(operations.GET_JOB_LEDGER)
async def get_ledger(call: Call) -> LedgerView:
    period = _period(call)
    return view_ledger(await call.engine.ledgers.read(call.tenant, path_job_id(call.key), period))


@handles(operations.LIST_LEDGERS)
async def list_ledgers(call: Call) -> LedgerPage:
    query = call.query
    after = query_job_id(query["after"], "after") if "after" in query else None
    found, following = await call.engine.ledgers.page(
        call.tenant, _period(call), after=after, limit=query["limit"]
    )
    return LedgerPage(
        [view_ledger(each) for each in found], None if following is None else format_job_id(following)
    )


def _period(call: Call) -> LedgerPeriod:
    query, now = call.query, call.engine.now()
    from_at = query_moment(query["from"], "from", now=now) if "from" in query else None
    to_at = query_moment(query["to"], "to", now=now) if "to" in query else None
    return check_period(from_at, to_at, now=now)


@handles(operations.PAUSE_JOB)
async def pause_job(call: Call) -> JobView:
    return await _view(call, await call.engine.jobs.pause(call.tenant, path_job_id(call.key), by=call.actor))


@handles(operations.RESUME_JOB)
async def resume_job(call: Call) -> JobView:
    return await _view(call, await call.engine.jobs.resume(call.tenant, path_job_id(call.key), by=call.actor))


def view_version(found: JobVersion) -> VersionView:
    """Show a definition that a job has or had."""
    return VersionView(
        version=found.version,
        created_at=found.created_at,
        changes=view_changes(found.previous, found.spec, made_at=found.created_at),
        definition=plain_from_spec(found.spec),
    )


async def _view(call: Call, job: Job) -> JobView:
    (view,) = await _view_all(call, [job])
    return view


async def _written(call: Call, job: Job, body: dict[str, Any]) -> JobWritten:
    (trigger,) = await call.engine.jobs.triggers([job])
    offers = await call.engine.offers()
    return view_written(job, trigger, offers, warn_of_definition(body, job.spec, now=call.engine.now()))


async def _view_all(call: Call, jobs: Sequence[Job]) -> list[JobView]:
    """Show jobs, with the fires that their calendars let through."""
    triggers = await call.engine.jobs.triggers(jobs)
    offers = await call.engine.offers()
    return [view_job(job, trigger, offers) for job, trigger in zip(jobs, triggers, strict=True)]


ROUTES: list[Endpoint] = [
    create_job,
    create_jobs,
    upsert_job,
    list_jobs,
    get_job,
    edit_job,
    replace_job,
    list_versions,
    delete_job,
    get_status,
    list_fire_ranges,
    get_ledger,
    list_ledgers,
    pause_job,
    resume_job,
]
