"""Runs: submit, look at, cancel."""

from __future__ import annotations

from typing import Any

from litestar import Response, get, post
from litestar.params import FromPath
from msgspec import UNSET, UnsetType

from mainspring.api.reading import (
    AnyRequest,
    path_job_id,
    path_run_id,
    query_job_id,
    query_run_id,
    read_limit,
    read_query,
    read_struct,
)
from mainspring.api.tenancy import engine_of, tenant_of
from mainspring.core.definition.fields import (
    MAX_NAME,
    read_choice,
    read_delay,
    read_instant,
    read_payload,
    read_text,
)
from mainspring.core.ids import JobId, RunId, format_run_id
from mainspring.core.model import Priority, Run
from mainspring.core.states import RunState
from mainspring.engine.usecases.runs import Submission
from mainspring.errors import InvalidInput
from mainspring.wire.bodies import BulkSubmitItem, SubmitBody
from mainspring.wire.views import (
    BulkRunView,
    CancelView,
    RunDetail,
    RunPage,
    SubmittedView,
    view_run,
    view_run_detail,
)

MAX_BULK = 1000


@post(
    "/jobs/{job_id:str}/runs",
    operation_id="submit_run",
    summary="Submit a run of a job",
    status_code=202,
)
async def submit_run(request: AnyRequest, job_id: FromPath[str]) -> Response[SubmittedView]:
    """Submit a run (202); a repeated Idempotency-Key answers 200 with the first run."""
    return await _submit(request, path_job_id(job_id))


@post("/jobs/{job_id:str}/run", operation_id="run_job_now", summary="Run a job now", status_code=202)
async def run_now(request: AnyRequest, job_id: FromPath[str]) -> Response[SubmittedView]:
    """Submit a run of a job with its own payload, at once."""
    return await _submit(request, path_job_id(job_id))


async def _submit(request: AnyRequest, job_id: JobId) -> Response[SubmittedView]:
    body = await read_struct(request, SubmitBody)
    submission = _submission(job_id, body, key=request.headers.get("idempotency-key"), prefix="")
    submitted = await engine_of(request).runs.submit(tenant_of(request), submission)
    view = SubmittedView(run_id=format_run_id(submitted.run_id), is_new=submitted.is_new)
    return Response(view, status_code=202 if submitted.is_new else 200)


def _submission(
    job_id: JobId, body: SubmitBody | BulkSubmitItem, *, key: str | None, prefix: str
) -> Submission:
    priority = None
    if body.priority is not None:
        priority = read_choice(body.priority, f"{prefix}priority", Priority, by_name=True)
    return Submission(
        job_id=job_id,
        payload=_payload(body.payload, f"{prefix}payload"),
        run_at=None if body.run_at is None else read_instant(body.run_at, f"{prefix}run_at"),
        delay=None if body.delay is None else read_delay(body.delay, f"{prefix}delay"),
        priority=priority,
        idempotency_key=key,
    )


def _payload(value: Any | UnsetType, field: str) -> bytes | None:
    if value is UNSET:
        return None
    return b"null" if value is None else read_payload(value, field)


@post("/runs/bulk", operation_id="submit_runs", summary="Submit many runs", status_code=200)
async def submit_runs(request: AnyRequest) -> list[BulkRunView]:
    """Submit up to 1,000 runs in one transaction; one that is wrong refuses all, a used key concerns only its item."""
    items = await read_struct(request, list[BulkSubmitItem])
    if not 1 <= len(items) <= MAX_BULK:
        raise InvalidInput("body", f"must be a list of 1 to {MAX_BULK} submissions")
    ids = await _job_ids(request, items)
    submissions = [
        _submission(job_id, item, key=item.idempotency_key, prefix=f"[{index}].")
        for index, (job_id, item) in enumerate(zip(ids, items, strict=True))
    ]
    results = await engine_of(request).runs.submit_many(tenant_of(request), submissions)
    return [
        BulkRunView(
            run_id=None if result.run_id is None else format_run_id(result.run_id), status=result.status.value
        )
        for result in results
    ]


async def _job_ids(request: AnyRequest, items: list[BulkSubmitItem]) -> list[JobId]:
    for index, item in enumerate(items):
        if item.job is not None:
            read_text(item.job, f"[{index}].job", longest=MAX_NAME)
    names = list(dict.fromkeys(item.job for item in items if item.job is not None))
    jobs = await engine_of(request).jobs.find_all(tenant_of(request), names)
    by_name = {job.spec.name: job.id for job in jobs}
    ids = []
    for index, item in enumerate(items):
        if (item.job is None) == (item.job_id is None):
            raise InvalidInput(f"[{index}].job_id", "give either job_id or job (a name)")
        if item.job_id is not None:
            ids.append(query_job_id(item.job_id, f"[{index}].job_id"))
        elif item.job in by_name:
            ids.append(by_name[item.job])
        else:
            raise InvalidInput(f"[{index}].job", f"there is no job named {str(item.job)[:60]!r}")
    return ids


@get("/jobs/{job_id:str}/runs", operation_id="list_job_runs", summary="List the runs of a job")
async def list_job_runs(request: AnyRequest, job_id: FromPath[str]) -> RunPage:
    """Return a page of the job's runs, the newest first, finished ones included."""
    values = read_query(request, {"state", "before", "limit"})
    key = path_job_id(job_id)
    await engine_of(request).jobs.get(tenant_of(request), key)
    return await _page(request, values, key)


@get("/runs", operation_id="list_runs", summary="List runs")
async def list_runs(request: AnyRequest) -> RunPage:
    """Return a page of runs, the newest first; of one job (deleted ones too) with `job_id`."""
    values = read_query(request, {"state", "before", "limit", "job_id"})
    job_id = query_job_id(values["job_id"], "job_id") if "job_id" in values else None
    return await _page(request, values, job_id)


async def _page(request: AnyRequest, values: dict[str, str], job_id: JobId | None) -> RunPage:
    limit = read_limit(values)
    before = query_run_id(values["before"], "before") if "before" in values else None
    state = read_choice(values["state"].upper(), "state", RunState) if "state" in values else None
    runs: list[Run] = await engine_of(request).runs.list_page(
        tenant_of(request), job_id=job_id, state=state, before=before, limit=limit
    )
    following = format_run_id(RunId(runs[-1].id)) if len(runs) == limit else None
    return RunPage([view_run(run) for run in runs], following)


@get("/runs/{run_id:str}", operation_id="get_run", summary="Get a run")
async def get_run(request: AnyRequest, run_id: FromPath[str]) -> RunDetail:
    """Return a run with its attempts, output and result."""
    runs, tenant, key = engine_of(request).runs, tenant_of(request), path_run_id(run_id)
    return view_run_detail(await runs.get(tenant, key), await runs.attempts(tenant, key))


@post("/runs/{run_id:str}/cancel", operation_id="cancel_run", summary="Cancel a run", status_code=200)
async def cancel_run(request: AnyRequest, run_id: FromPath[str]) -> CancelView:
    """Cancel a run: one that waits ends at once, one that runs is asked to stop (completion wins)."""
    result = await engine_of(request).runs.cancel(tenant_of(request), path_run_id(run_id))
    return CancelView(result.value)


@get("/counts", operation_id="count_runs", summary="Count runs by state")
async def count_runs(request: AnyRequest) -> dict[str, int]:
    """Return how many runs are in each state, finished ones within retention included."""
    counts = await engine_of(request).runs.counts(tenant_of(request))
    return {state.value: counts.get(state, 0) for state in RunState}


ROUTES: list[Any] = [
    submit_run,
    run_now,
    submit_runs,
    list_job_runs,
    list_runs,
    get_run,
    cancel_run,
    count_runs,
]
