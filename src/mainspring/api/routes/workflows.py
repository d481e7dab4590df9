"""Workflows: check, show the graph, and where the steps of a run are."""

from __future__ import annotations

from typing import Any

from mainspring.api.call import Answer, Call, Endpoint, handles
from mainspring.api.reading import path_job_id, path_run_id, query_run_id
from mainspring.core.fields import read_choice
from mainspring.core.ids import RunId, format_job_id, format_run_id
from mainspring.core.states import RunState
from mainspring.wire import operations
from mainspring.wire.workflows import (
    FlowCommandView,
    GraphView,
    ItemPage,
    JobGraphView,
    SkipStepsBody,
    StepPage,
    view_graph,
    view_items,
    view_job_graph,
    view_steps,
)


@handles(operations.CHECK_WORKFLOW)
async def check_workflow(call: Call, body: dict[str, Any]) -> GraphView:
    return view_graph(await call.engine.workflows.check(call.tenant, body))


@handles(operations.GET_JOB_GRAPH)
async def get_job_graph(call: Call) -> JobGraphView:
    found = await call.engine.workflows.graph(
        call.tenant, path_job_id(call.key), version=call.query.get("version")
    )
    job = found.job
    return view_job_graph(found.plan, job_id=format_job_id(job.id), job=job.spec.name, version=found.version)


@handles(operations.LIST_RUN_STEPS)
async def list_run_steps(call: Call) -> StepPage:
    query = call.query
    found = await call.engine.workflows.steps(
        call.tenant, path_run_id(call.key), after=query.get("after"), limit=query["limit"]
    )
    names = await call.engine.runs.name_jobs([found.run])
    return view_steps(
        found.run,
        found.plan,
        found.steps,
        is_paused=found.is_paused,
        job=names.get(found.run.job_id),
        following=found.following,
    )


@handles(operations.LIST_RUN_ITEMS)
async def list_run_items(call: Call) -> ItemPage:
    query, run_id = call.query, path_run_id(call.key)
    found = await call.engine.workflows.items(
        call.tenant,
        run_id,
        query["step"],
        state=read_choice(query["state"].upper(), "state", RunState) if "state" in query else None,
        after=query_run_id(query["after"], "after") if "after" in query else None,
        limit=query["limit"],
    )
    return view_items(run_id, query["step"], found.state, found.runs, is_last=found.is_last)


@handles(operations.PAUSE_RUN)
async def pause_run(call: Call) -> Answer[FlowCommandView]:
    run_id = path_run_id(call.key)
    await call.engine.flow_commands.pause(call.tenant, run_id, by=call.actor)
    return _accepted(run_id)


@handles(operations.RESUME_RUN)
async def resume_run(call: Call) -> Answer[FlowCommandView]:
    run_id = path_run_id(call.key)
    await call.engine.flow_commands.resume(call.tenant, run_id, by=call.actor)
    return _accepted(run_id)


@handles(operations.SKIP_RUN_STEPS)
async def skip_run_steps(call: Call, body: SkipStepsBody) -> Answer[FlowCommandView]:
    run_id = path_run_id(call.key)
    await call.engine.flow_commands.skip(call.tenant, run_id, body.steps, by=call.actor)
    return _accepted(run_id)


def _accepted(run_id: RunId) -> Answer[FlowCommandView]:
    return Answer(FlowCommandView(run_id=format_run_id(run_id)), status=202)


ROUTES: list[Endpoint] = [
    check_workflow,
    get_job_graph,
    list_run_steps,
    list_run_items,
    pause_run,
    resume_run,
    skip_run_steps,
]
