"""Workflows as they go over HTTP: the graph of their steps, and where the steps of a run are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from mainspring.core.definition.workflows import MOST_STEPS
from mainspring.core.ids import RunId, format_job_id, format_run_id
from mainspring.core.model import Run
from mainspring.core.workflows.maps import MapState, StepMap
from mainspring.core.workflows.model import WorkflowStep
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.reports import StepReport
from mainspring.core.workflows.rules import StepRule
from mainspring.core.workflows.state import StepStatus
from mainspring.wire.answers import WaitView, view_wait
from mainspring.wire.views import Instant, JobIdText, RunIdText

StepNameText = Annotated[str, Meta(description="A step's name.", examples=["load"])]
RuleWord = Annotated[
    str,
    Meta(
        description="What it asks of the steps that it waits for.",
        extra_json_schema={"enum": [rule.value for rule in StepRule]},
    ),
]


class StepMapView(Struct, kw_only=True):
    """For which items a step runs."""

    count: Annotated[
        int | None,
        Meta(description="How many items there are; null if an expression makes them."),
    ]
    over: Annotated[str | None, Meta(description="The expression that makes them, if one does.")]
    max_parallel: Annotated[
        int | None, Meta(description="How many of its runs wait or run at once, at most; null is no limit.")
    ]
    tolerate: Annotated[
        float,
        Meta(description="How many items may fail without making the step fail."),
    ]


class ItemCountsView(Struct, kw_only=True):
    """How many items of a step are where."""

    total: Annotated[int, Meta(description="How many items there are.")]
    started: Annotated[int, Meta(description="How many have got a run.")]
    succeeded: int
    failed: Annotated[int, Meta(description="How many have failed, or were cancelled.")]
    skipped: int


class GraphStepView(Struct, kw_only=True):
    """A step of a workflow."""

    name: StepNameText
    type: Annotated[
        str,
        Meta(
            description="The type of its target; `job` if it runs another job, `wait` if it waits for something.",
            examples=["function"],
        ),
    ]
    function: Annotated[str | None, Meta(description="The function that it calls; null for other types.")]
    job: Annotated[str | None, Meta(description="The name of the job that it runs; null if it runs none.")]
    map: Annotated[StepMapView | None, Meta(description="For which items it runs; null if it runs once.")]
    after: Annotated[list[str], Meta(description="Its parents: the steps that it waits for.")]
    rule: RuleWord
    allow_failure: Annotated[
        bool, Meta(description="The workflow may succeed although this step has failed.")
    ]
    at_end: Annotated[
        bool, Meta(description="It runs once all other steps have ended, whatever has happened.")
    ]
    undoes: Annotated[
        str | None,
        Meta(description="The step that it undoes, if the workflow does not succeed; null: it is no undo."),
    ]
    when: Annotated[
        str | None, Meta(description="The expression that says whether it runs; null: its rule alone does.")
    ]
    level: Annotated[
        int, Meta(description="0 without parents, or else one more than the highest of its parents.")
    ]


class EdgeView(Struct, kw_only=True):
    """That one step waits for another."""

    parent: StepNameText
    child: StepNameText


class GraphView(Struct, kw_only=True):
    """The graph of a workflow's steps."""

    steps: Annotated[list[GraphStepView], Meta(description="As they were written.")]
    edges: Annotated[list[EdgeView], Meta(description="Which steps wait for which.")]
    order: Annotated[list[str], Meta(description="All steps, parents before their children.")]
    levels: Annotated[
        list[list[str]], Meta(description="The steps by level. Those of one level wait for none of it.")
    ]


class JobGraphView(GraphView, kw_only=True):
    """The graph of a job's steps."""

    job_id: JobIdText
    job: Annotated[str, Meta(description="The job's name.")]
    version: Annotated[int, Meta(description="The version of the job that the graph is of.")]


class StepView(GraphStepView, kw_only=True):
    """A step of a run of a workflow."""

    status: Annotated[
        str,
        Meta(
            description="Where the step is. `waiting` is for its parents, `live` has a run that has not ended, and"
            " `suspended` waits for what its `wait` says.",
            extra_json_schema={"enum": [status.name.lower() for status in StepStatus]},
        ),
    ]
    items: Annotated[
        ItemCountsView | None,
        Meta(description="Of a step that runs for many items, how many are where; null before it starts."),
    ]
    wait: Annotated[WaitView | None, Meta(description="What it waits for; null if it runs something.")]
    reason: Annotated[
        str | None,
        Meta(description="Why it has not run, or does not; of a run that did not succeed, why."),
    ]
    run_id: Annotated[str | None, Meta(description="The step's run; null if it has none.")]
    state: Annotated[str | None, Meta(description="The state of that run.")]
    attempt: Annotated[int | None, Meta(description="The number of its attempt.")]
    due_at: Instant | None
    started_at: Annotated[Instant | None, Meta(description="When its newest attempt started.")]
    finished_at: Instant | None
    error: Annotated[
        str | None,
        Meta(description="That of the run; of a step that failed without one, what its expression met."),
    ]


class StepPage(Struct, kw_only=True):
    """A page of the steps of a run, parents before their children; `next` is the `after` of the page that follows."""

    run_id: RunIdText
    job_id: JobIdText
    job: Annotated[str | None, Meta(description="The name of the job; null if it is not known any more.")]
    job_version: int
    status: Annotated[str, Meta(description="The state of the workflow's run.")]
    is_paused: Annotated[bool, Meta(description="It starts no more steps until it is resumed.")]
    started_at: Instant | None
    finished_at: Instant | None
    items: list[StepView]
    next: str | None


class ItemView(Struct, kw_only=True):
    """The run of an item of a step."""

    item: Annotated[int, Meta(description="The place of the item in the list, from 0 on.")]
    run_id: RunIdText
    state: Annotated[str, Meta(description="The state of that run.")]
    reason: str | None
    attempt: Annotated[int, Meta(description="The number of its attempt.")]
    due_at: Instant
    started_at: Annotated[Instant | None, Meta(description="When its newest attempt started.")]
    finished_at: Instant | None
    error: str | None


class ItemPage(Struct, kw_only=True):
    """A page of the items of a step that have a run; `next` is the `after` of the page that follows."""

    run_id: RunIdText
    step: StepNameText
    counts: Annotated[ItemCountsView | None, Meta(description="How many are where; null before it starts.")]
    items: list[ItemView]
    next: str | None


def view_items(
    run_id: RunId, step: str, counts: MapState | None, runs: Sequence[Run], *, is_last: bool
) -> ItemPage:
    """Show a page of the items of a step."""
    return ItemPage(
        run_id=format_run_id(run_id),
        step=step,
        counts=None if counts is None else _view_counts(counts),
        items=[_view_item(run, run.place.item) for run in runs if run.place is not None],
        next=None if is_last else format_run_id(runs[-1].id),
    )


def _view_item(run: Run, item: int) -> ItemView:
    return ItemView(
        item=item,
        run_id=format_run_id(run.id),
        state=run.state.value,
        reason=run.reason,
        attempt=run.attempt,
        due_at=run.due_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
        error=run.error,
    )


class SkipStepsBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which steps to skip."""

    steps: Annotated[
        list[str],
        Meta(
            min_length=1,
            max_length=MOST_STEPS,
            description="The names of steps that have no run yet.",
            examples=[["load"]],
        ),
    ]


class FlowCommandView(Struct, kw_only=True):
    """A run of a workflow that was told of a command. It follows it with its next turn, within a second."""

    run_id: RunIdText


def view_steps(
    run: Run,
    plan: FlowPlan,
    steps: Sequence[StepReport],
    *,
    is_paused: bool,
    job: str | None,
    following: str | None,
) -> StepPage:
    """Show a page of the steps of a run.

    Args:
        run: that of the workflow.
        is_paused: it starts no more steps until it is resumed.
        job: the name of its job.
        following: the name of the last step, if there are further ones.
    """
    return StepPage(
        run_id=format_run_id(run.id),
        job_id=format_job_id(run.job_id),
        job=job,
        job_version=run.version,
        status=run.state.value,
        is_paused=is_paused,
        started_at=run.started_at,
        finished_at=run.finished_at,
        items=[_view_report(plan, one) for one in steps],
        next=following,
    )


def _view_report(plan: FlowPlan, report: StepReport) -> StepView:
    graph = _view_step(plan.workflow.steps[report.place], plan.graph.levels[report.place])
    run = report.run
    return StepView(
        name=graph.name,
        type=graph.type,
        function=graph.function,
        job=graph.job,
        map=graph.map,
        after=graph.after,
        rule=graph.rule,
        allow_failure=graph.allow_failure,
        at_end=graph.at_end,
        undoes=graph.undoes,
        when=graph.when,
        level=graph.level,
        status=report.status.name.lower(),
        items=None if report.items is None else _view_counts(report.items),
        wait=view_wait(plan.workflow.steps[report.place].wait, report),
        reason=report.reason,
        run_id=None if run is None else format_run_id(run.id),
        state=None if run is None else run.state.value,
        attempt=None if run is None else run.attempt,
        due_at=None if run is None else run.due_at,
        started_at=None if run is None else run.started_at,
        finished_at=None if run is None else run.finished_at,
        error=report.error if run is None else run.error,
    )


def _view_counts(state: MapState) -> ItemCountsView:
    return ItemCountsView(
        total=state.count,
        started=state.started,
        succeeded=state.succeeded,
        failed=state.failed,
        skipped=state.skipped,
    )


def view_graph(plan: FlowPlan) -> GraphView:
    """Show a graph."""
    steps, graph = plan.workflow.steps, plan.graph
    levels: list[list[str]] = [[] for _ in range(max(graph.levels) + 1)]
    for place in graph.order:
        levels[graph.levels[place]].append(steps[place].name)
    return GraphView(
        steps=[_view_step(step, graph.levels[place]) for place, step in enumerate(steps)],
        edges=[EdgeView(parent=parent, child=step.name) for step in steps for parent in step.after],
        order=[steps[place].name for place in graph.order],
        levels=levels,
    )


def _view_map(own: StepMap) -> StepMapView:
    over = own.over if isinstance(own.over, str) else None
    return StepMapView(
        count=None if over is not None else len(own.over),
        over=over,
        max_parallel=own.max_parallel,
        tolerate=own.tolerate,
    )


def view_job_graph(plan: FlowPlan, *, job_id: str, job: str, version: int) -> JobGraphView:
    """Show the graph of a job's steps."""
    graph = view_graph(plan)
    return JobGraphView(
        steps=graph.steps,
        edges=graph.edges,
        order=graph.order,
        levels=graph.levels,
        job_id=job_id,
        job=job,
        version=version,
    )


def _type_of(step: WorkflowStep) -> str:
    if step.target is not None:
        return step.target.type
    return "job" if step.wait is None else "wait"


def _view_step(step: WorkflowStep, level: int) -> GraphStepView:
    target, own = step.target, step.map
    return GraphStepView(
        name=step.name,
        type=_type_of(step),
        function=target.params.get("function") if target is not None and target.type == "function" else None,
        job=step.job,
        map=None if own is None else _view_map(own),
        after=list(step.after),
        rule=step.rule.value,
        allow_failure=step.allow_failure,
        at_end=step.at_end,
        undoes=step.undoes,
        when=step.when,
        level=level,
    )
