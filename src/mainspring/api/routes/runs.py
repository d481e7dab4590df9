"""Runs: submit, show, cancel."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from msgspec import UNSET, UnsetType

from mainspring.api.call import Answer, Call, Endpoint, handles
from mainspring.api.reading import (
    check_bulk,
    path_job_id,
    path_run_id,
    query_backfill_id,
    query_job_id,
    query_moment,
    query_run_id,
)
from mainspring.core.admission import SubmissionVerdict
from mainspring.core.fields import (
    MAX_NAME,
    read_choice,
    read_delay,
    read_one_of,
    read_payload,
    read_text,
)
from mainspring.core.ids import JobId, format_run_id
from mainspring.core.model import RunKind
from mainspring.core.priorities import read_priority
from mainspring.core.redriving import FROM_FAILED, FROM_START, RedriveFrom
from mainspring.core.states import RunState
from mainspring.core.triggers.moments import read_moment_or_delay
from mainspring.engine.usecases.browsing import RunFilter
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import InvalidInput
from mainspring.ports.store.runs import SubmitResult
from mainspring.wire import operations
from mainspring.wire.bodies import BulkSubmitItem, RedriveBody, SubmitBody
from mainspring.wire.pages import BriefPage, RunPage, view_brief
from mainspring.wire.run_detail import RunDetail, view_run_detail
from mainspring.wire.views import (
    BulkRunView,
    CancelView,
    CountsView,
    SubmittedView,
    view_counts,
    view_run,
)
from mainspring.wire.why import WhyView, view_why


@handles(operations.SUBMIT_RUN)
async def submit_run(call: Call, body: SubmitBody) -> Answer[SubmittedView]:
    return await _submit(call, body)


@handles(operations.RUN_JOB_NOW)
async def run_now(call: Call, body: SubmitBody) -> Answer[SubmittedView]:
    return await _submit(call, body)


async def _submit(call: Call, body: SubmitBody) -> Answer[SubmittedView]:
    job_id = path_job_id(call.key)
    key, trace = call.fields.get("idempotency-key"), call.fields.get("traceparent")
    submission = _submission(job_id, body, key=key, trace=trace, prefix="")
    submitted = await call.engine.runs.submit(call.tenant, submission)
    view = SubmittedView(
        run_id=format_run_id(submitted.run_id), is_new=submitted.is_new, status=submitted.status.value
    )
    return Answer(view, status=201 if submitted.is_new else 200)


def _submission(
    job_id: JobId, body: SubmitBody | BulkSubmitItem, *, key: str | None, trace: str | None, prefix: str
) -> Submission:
    priority = None
    if body.priority is not None:
        priority = read_priority(body.priority, f"{prefix}priority")
    delay = None if body.delay is None else read_delay(body.delay, f"{prefix}delay")
    moment = None if body.run_at is None else read_moment_or_delay(body.run_at, f"{prefix}run_at")
    if isinstance(moment, timedelta):  # a delay in other words; so a repeated request is the same request
        if delay is not None:
            raise InvalidInput(f"{prefix}delay", "says the same as 'run_at'; give one of them")
        moment, delay = None, moment
    return Submission(
        job_id=job_id,
        payload=_payload(body.payload, f"{prefix}payload"),
        run_at=None if moment is None else moment.at,
        delay=delay,
        priority=priority,
        idempotency_key=key,
        traceparent=trace,
    )


def _payload(value: Any | UnsetType, field: str) -> bytes | None:
    if value is UNSET:
        return None
    return b"null" if value is None else read_payload(value, field)


@handles(operations.SUBMIT_RUNS)
async def submit_runs(call: Call, items: list[BulkSubmitItem]) -> list[BulkRunView]:
    check_bulk(items, "submissions")
    ids = await _job_ids(call, items)
    trace = call.fields.get("traceparent")
    submissions = [
        _submission(job_id, item, key=item.idempotency_key, trace=trace, prefix=f"[{index}].")
        for index, (job_id, item) in enumerate(zip(ids, items, strict=True))
    ]
    results = await call.engine.runs.submit_many(call.tenant, submissions)
    return [
        BulkRunView(
            run_id=None if result.run_id is None else format_run_id(result.run_id),
            status=_status(result).value,
        )
        for result in results
    ]


def _status(result: SubmitResult) -> SubmissionVerdict:
    """Return the status of one of many: that of a repeat is the first one's, unless that made a run."""
    is_repeat = result.status is SubmissionVerdict.DUPLICATE
    return result.first if is_repeat and result.first is not SubmissionVerdict.SUBMITTED else result.status


async def _job_ids(call: Call, items: list[BulkSubmitItem]) -> list[JobId]:
    for index, item in enumerate(items):
        if item.job is not None:
            read_text(item.job, f"[{index}].job", longest=MAX_NAME)
    names = list(dict.fromkeys(item.job for item in items if item.job is not None))
    jobs = await call.engine.jobs.find_all(call.tenant, names)
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


@handles(operations.LIST_JOB_RUNS)
async def list_job_runs(call: Call) -> RunPage | BriefPage:
    key = path_job_id(call.key)
    await call.engine.jobs.get(call.tenant, key)
    return await _page(call, key)


@handles(operations.LIST_RUNS)
async def list_runs(call: Call) -> RunPage | BriefPage:
    query = call.query
    return await _page(call, query_job_id(query["job_id"], "job_id") if "job_id" in query else None)


async def _page(call: Call, job_id: JobId | None) -> RunPage | BriefPage:
    query, runs = call.query, call.engine.runs
    now = call.engine.now()
    before = query_run_id(query["before"], "before") if "before" in query else None
    wanted = RunFilter(
        job_id=job_id,
        state=read_choice(query["state"].upper(), "state", RunState) if "state" in query else None,
        queue=query.get("queue"),
        kind=read_choice(query["kind"].lower(), "kind", RunKind) if "kind" in query else None,
        backfill_id=query_backfill_id(query["backfill"], "backfill") if "backfill" in query else None,
        error=query.get("error"),
        since=query_moment(query["since"], "since", now=now) if "since" in query else None,
        until=query_moment(query["until"], "until", now=now) if "until" in query else None,
    )
    is_brief = "fields" in query and read_one_of(query["fields"], "fields", ["brief"]) == "brief"
    limit: int = query["limit"]
    found = await runs.list_page(call.tenant, wanted, before=before, limit=limit, is_brief=is_brief)
    following = None if found.before is None else format_run_id(found.before)
    names = await runs.name_jobs(found.runs)
    if is_brief:
        briefs = [view_brief(run, names.get(run.job_id)) for run in found.runs]
        return BriefPage(briefs, following, found.searched_to)
    return RunPage([view_run(run, names.get(run.job_id)) for run in found.runs], following, found.searched_to)


@handles(operations.GET_RUN)
async def get_run(call: Call) -> RunDetail:
    runs, tenant, key = call.engine.runs, call.tenant, path_run_id(call.key)
    run = await runs.get(tenant, key)
    worker = await runs.worker(run)
    names = await runs.name_jobs([run])
    attempts = await runs.attempts(tenant, key)
    is_dead = run.state is RunState.FAILED
    settled = await call.engine.dead_letters.settled(key) if is_dead else None
    progress = await call.engine.run_logs.progress(run, now=call.engine.now())
    return view_run_detail(
        run, attempts, job=names.get(run.job_id), worker=worker, settled=settled, progress=progress
    )


@handles(operations.GET_RUN_WHY)
async def get_run_why(call: Call) -> WhyView:
    call.services.why_rates.take(call.caller, now=call.engine.now())
    run_id, hides_keys = path_run_id(call.key), call.principal.hides_payloads
    return view_why(await call.engine.runs.why(call.tenant, run_id, hides_keys=hides_keys))


@handles(operations.CANCEL_RUN)
async def cancel_run(call: Call) -> CancelView:
    result = await call.engine.runs.cancel(call.tenant, path_run_id(call.key), by=call.actor)
    return CancelView(result.value)


@handles(operations.REDRIVE_RUN)
async def redrive_run(call: Call, body: RedriveBody) -> Answer[SubmittedView]:
    is_newest = read_one_of(body.definition, "definition", ["newest", "kept"]) == "newest"
    payload, begin = _payload(body.payload, "payload"), _begin(body.begin)
    redriven = await call.engine.redriving.redrive(
        call.tenant, path_run_id(call.key), is_newest=is_newest, payload=payload, begin=begin, by=call.actor
    )
    assert redriven.run_id is not None, "a redrive stands for a run"
    is_new = redriven.status is SubmissionVerdict.SUBMITTED
    view = SubmittedView(run_id=format_run_id(redriven.run_id), is_new=is_new)
    return Answer(view, status=201 if is_new else 200)


def _begin(given: str | list[str] | None) -> RedriveFrom | None:
    """Return where a workflow is taken up again."""
    if isinstance(given, list):
        if not given:
            raise InvalidInput(
                "from", f"names no step; leave it out, or give {FROM_FAILED!r} or {FROM_START!r}"
            )
        return tuple(dict.fromkeys(given))
    if given not in {None, FROM_FAILED, FROM_START}:
        message = f"must be {FROM_FAILED!r}, {FROM_START!r} or a list of steps' names, not {given[:70]!r}"
        raise InvalidInput("from", message)
    return given


@handles(operations.COUNT_RUNS)
async def count_runs(call: Call) -> CountsView:
    counts = await call.engine.runs.counts(call.tenant)
    return view_counts(counts.by_state, age=counts.age)


ROUTES: list[Endpoint] = [
    submit_run,
    run_now,
    submit_runs,
    list_job_runs,
    list_runs,
    get_run,
    get_run_why,
    cancel_run,
    redrive_run,
    count_runs,
]
