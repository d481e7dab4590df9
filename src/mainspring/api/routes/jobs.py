"""Jobs: create, look at, change, delete, pause, resume."""

from __future__ import annotations

from typing import Any

from litestar import Response, delete, get, patch, post, put
from litestar.params import FromPath

from mainspring.api.reading import (
    AnyRequest,
    path_job_id,
    query_job_id,
    read_json,
    read_limit,
    read_object,
    read_query,
)
from mainspring.api.tenancy import engine_of, tenant_of
from mainspring.core.ids import format_job_id
from mainspring.errors import InvalidInput
from mainspring.wire.views import (
    BulkJobView,
    Deleted,
    FireRangeList,
    JobPage,
    JobView,
    LedgerView,
    StatusView,
    view_fire_range,
    view_job,
    view_ledger,
    view_status,
)

MAX_BULK = 1000


@post("/jobs", operation_id="create_job", summary="Create a job")
async def create_job(request: AnyRequest) -> JobView:
    """Create a job. The name must be free; a job that can never fire is refused."""
    body = await read_object(request)
    return view_job(await engine_of(request).jobs.create(tenant_of(request), body))


@post("/jobs/bulk", operation_id="create_jobs", summary="Create many jobs", status_code=200)
async def create_jobs(request: AnyRequest) -> list[BulkJobView]:
    """Create up to 1,000 jobs in one transaction; one that is wrong refuses all, a taken name only itself."""
    bodies = await read_json(request)
    if not isinstance(bodies, list) or not 1 <= len(bodies) <= MAX_BULK:
        raise InvalidInput("body", f"must be a list of 1 to {MAX_BULK} jobs")
    for index, body in enumerate(bodies):
        if not isinstance(body, dict):
            raise InvalidInput(f"[{index}]", "must be an object")
    jobs = await engine_of(request).jobs.create_many(tenant_of(request), bodies)
    return [
        BulkJobView(
            status="created" if job is not None else "name_taken",
            job=view_job(job) if job is not None else None,
        )
        for job in jobs
    ]


@put("/jobs", operation_id="upsert_job", summary="Create a job, or redefine the one of that name")
async def upsert_job(request: AnyRequest) -> Response[JobView]:
    """Create the job (201), or give the existing job of that name this definition (200)."""
    body = await read_object(request)
    job, is_new = await engine_of(request).jobs.upsert(tenant_of(request), body)
    return Response(view_job(job), status_code=201 if is_new else 200)


@get("/jobs", operation_id="list_jobs", summary="List jobs")
async def list_jobs(request: AnyRequest) -> JobPage:
    """Return a page of jobs in order of creation, or the one of a given name."""
    values = read_query(request, {"after", "limit", "name"})
    jobs, tenant = engine_of(request).jobs, tenant_of(request)
    if "name" in values:
        found = await jobs.find_all(tenant, [values["name"]])
        return JobPage([view_job(job) for job in found], None)
    limit = read_limit(values)
    after = query_job_id(values["after"], "after") if "after" in values else None
    page = await jobs.list_page(tenant, after=after, limit=limit)
    following = format_job_id(page[-1].id) if len(page) == limit else None
    return JobPage([view_job(job) for job in page], following)


@get("/jobs/{job_id:str}", operation_id="get_job", summary="Get a job")
async def get_job(request: AnyRequest, job_id: FromPath[str]) -> JobView:
    """Return a job with its full definition and its next fires."""
    return view_job(await engine_of(request).jobs.get(tenant_of(request), path_job_id(job_id)))


@patch("/jobs/{job_id:str}", operation_id="edit_job", summary="Change a job")
async def edit_job(request: AnyRequest, job_id: FromPath[str]) -> JobView:
    """Change the given fields (a merge patch); a new version is kept, waiting runs keep theirs."""
    body = await read_object(request)
    return view_job(await engine_of(request).jobs.edit(tenant_of(request), path_job_id(job_id), body))


@delete("/jobs/{job_id:str}", operation_id="delete_job", summary="Delete a job", status_code=200)
async def delete_job(request: AnyRequest, job_id: FromPath[str]) -> Deleted:
    """Delete a job: its name is free at once, waiting runs are cancelled, its runs stay readable by id."""
    await engine_of(request).jobs.delete(tenant_of(request), path_job_id(job_id))
    return Deleted()


@get("/jobs/{job_id:str}/status", operation_id="get_job_status", summary="Get a job's status")
async def get_status(request: AnyRequest, job_id: FromPath[str]) -> StatusView:
    """Return the status of the job's newest run that is due or started."""
    return view_status(await engine_of(request).jobs.status(tenant_of(request), path_job_id(job_id)))


@get(
    "/jobs/{job_id:str}/fire-ranges", operation_id="list_job_fire_ranges", summary="List a job's fire ranges"
)
async def list_fire_ranges(request: AnyRequest, job_id: FromPath[str]) -> FireRangeList:
    """Return the stretches of fire times that are kept as one record: catch-ups and gaps with their reasons."""
    limit = read_limit(read_query(request, {"limit"}))
    fire_ranges = await engine_of(request).jobs.fire_ranges(
        tenant_of(request), path_job_id(job_id), limit=limit
    )
    return FireRangeList([view_fire_range(fire_range) for fire_range in fire_ranges])


@get("/jobs/{job_id:str}/ledger", operation_id="get_job_ledger", summary="Get a job's ledger")
async def get_ledger(request: AnyRequest, job_id: FromPath[str]) -> LedgerView:
    """Compare what the trigger owed in the last day, since the job was last changed, with what is on record."""
    return view_ledger(await engine_of(request).jobs.ledger(tenant_of(request), path_job_id(job_id)))


@post("/jobs/{job_id:str}/pause", operation_id="pause_job", summary="Pause a job", status_code=200)
async def pause_job(request: AnyRequest, job_id: FromPath[str]) -> JobView:
    """Stop a job's clock; the fires that are not made meanwhile are on record."""
    return view_job(await engine_of(request).jobs.pause(tenant_of(request), path_job_id(job_id)))


@post("/jobs/{job_id:str}/resume", operation_id="resume_job", summary="Resume a job", status_code=200)
async def resume_job(request: AnyRequest, job_id: FromPath[str]) -> JobView:
    """Start a job's clock again, from now on."""
    return view_job(await engine_of(request).jobs.resume(tenant_of(request), path_job_id(job_id)))


ROUTES: list[Any] = [
    create_job,
    create_jobs,
    upsert_job,
    list_jobs,
    get_job,
    edit_job,
    delete_job,
    get_status,
    list_fire_ranges,
    get_ledger,
    pause_job,
    resume_job,
]
