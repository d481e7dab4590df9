"""Workflows: check, show the graph, and where the steps of a run are."""

from __future__ import annotations

from typing import Any

from mainspring.api.call import Call, Endpoint, handles
from mainspring.api.reading import path_job_id, path_run_id
from mainspring.core.ids import format_job_id
from mainspring.wire import operations
from mainspring.wire.workflows import (
    GraphView,
    JobGraphView,
    StepPage,
    view_graph,
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
        found.run, found.plan, found.steps, job=names.get(found.run.job_id), following=found.following
    )


ROUTES: list[Endpoint] = [check_workflow, get_job_graph, list_run_steps]
