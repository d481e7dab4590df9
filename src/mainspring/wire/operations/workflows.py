"""Operations on workflows."""

from __future__ import annotations

from typing import Any

from mainspring.core.rights import Right
from mainspring.wire.answers import AnswerView, CompletionBody, DecisionBody, SignalBody
from mainspring.wire.bodies import WorkflowCheckBody
from mainspring.wire.operation import Body, Operation, Parameter
from mainspring.wire.operations.common import API, LIMIT, STATE
from mainspring.wire.workflows import (
    FlowCommandView,
    GraphView,
    ItemPage,
    JobGraphView,
    SkipStepsBody,
    StepPage,
)

CHECK_WORKFLOW = Operation(
    id="check_workflow",
    method="POST",
    path=f"{API}/workflows/check",
    right=Right.READ,
    summary="Check a workflow",
    description="Return the graph of a workflow: the order and the levels of its steps. What is wrong with the steps is"
    " told at once. Nothing is stored.",
    body=Body(WorkflowCheckBody, dict[str, Any]),
    answer=GraphView,
)
GET_JOB_GRAPH = Operation(
    id="get_job_graph",
    method="GET",
    path=f"{API}/jobs/{{job_id}}/graph",
    right=Right.READ,
    summary="Get the graph of a workflow",
    description="Return the steps of a job that is a workflow: which wait for which, by which rules, and their levels.",
    query=(
        Parameter("version", "Which version of the job; by default the newest.", bounds=(1, 999_999_999)),
    ),
    answer=JobGraphView,
    is_conflicting=True,
)
LIST_RUN_STEPS = Operation(
    id="list_run_steps",
    method="GET",
    path=f"{API}/runs/{{run_id}}/steps",
    right=Right.READ,
    summary="List the steps of a run",
    description="Return a page of the steps of a workflow's run, parents before their children: where each is, its run,"
    " its times, and why it does not run.",
    query=(
        LIMIT,
        Parameter("after", "Only steps after the one of this name: the `next` of the previous page."),
    ),
    answer=StepPage,
    is_conflicting=True,
)
LIST_RUN_ITEMS = Operation(
    id="list_run_items",
    method="GET",
    path=f"{API}/runs/{{run_id}}/items",
    right=Right.READ,
    summary="List the items of a step",
    description="Return a page of the runs of a step that runs once for each of many items, in the order in which they"
    " were made. Items that have not started have none.",
    query=(
        Parameter("step", "The name of the step.", is_required=True),
        STATE,
        LIMIT,
        Parameter("after", "Only runs after the one of this id: the `next` of the previous page."),
    ),
    answer=ItemPage,
    is_conflicting=True,
)
PAUSE_RUN = Operation(
    id="pause_run",
    method="POST",
    path=f"{API}/runs/{{run_id}}/pause",
    right=Right.OPERATE,
    summary="Pause a workflow's run",
    description="Have a workflow's run start no more steps until it is resumed. Steps that are under way go on, and so"
    " does the time until its deadline.",
    answer=FlowCommandView,
    statuses=(202,),
    is_conflicting=True,
)
RESUME_RUN = Operation(
    id="resume_run",
    method="POST",
    path=f"{API}/runs/{{run_id}}/resume",
    right=Right.OPERATE,
    summary="Resume a workflow's run",
    description="Have a paused run of a workflow start the steps that it has kept back.",
    answer=FlowCommandView,
    statuses=(202,),
    is_conflicting=True,
)
SKIP_RUN_STEPS = Operation(
    id="skip_run_steps",
    method="POST",
    path=f"{API}/runs/{{run_id}}/skip",
    right=Right.OPERATE,
    summary="Skip steps of a run",
    description="Have steps of a workflow's run skipped that have no run yet. What waits for them goes by its rule.",
    body=Body(SkipStepsBody, SkipStepsBody),
    answer=FlowCommandView,
    statuses=(202,),
    is_conflicting=True,
)
SEND_SIGNAL = Operation(
    id="send_signal",
    method="POST",
    path=f"{API}/runs/{{run_id}}/signals",
    right=Right.SUBMIT,
    summary="Send a signal to a run",
    description="Give a signal to the steps of a workflow's run that wait for it, or will (202). A signal that the run"
    " has got already changes nothing (200).",
    body=Body(SignalBody, SignalBody),
    answer=AnswerView,
    statuses=(202, 200),
    is_conflicting=True,
)
APPROVE_RUN_STEP = Operation(
    id="approve_run_step",
    method="POST",
    path=f"{API}/runs/{{run_id}}/approve",
    right=Right.READ,
    summary="Approve of a step",
    description="Approve of a step of a workflow's run that waits for that, or will (202). It takes the right operate,"
    " or to be one of those whom the step names. If it was approved already, nothing changes (200).",
    body=Body(DecisionBody, DecisionBody),
    answer=AnswerView,
    statuses=(202, 200),
    is_conflicting=True,
)
REJECT_RUN_STEP = Operation(
    id="reject_run_step",
    method="POST",
    path=f"{API}/runs/{{run_id}}/reject",
    right=Right.READ,
    summary="Reject a step",
    description="Reject what a step of a workflow's run asks for, so that the step fails (202). Who may do that, may"
    " approve. If it was rejected already, nothing changes (200).",
    body=Body(DecisionBody, DecisionBody),
    answer=AnswerView,
    statuses=(202, 200),
    is_conflicting=True,
)
COMPLETE_RUN_STEP = Operation(
    id="complete_run_step",
    method="POST",
    path=f"{API}/runs/{{run_id}}/complete",
    right=Right.OPERATE,
    summary="End the wait of a step",
    description="End the wait of a step of a workflow's run by hand, as if what it waits for had come (202). If that"
    " was done already, nothing changes (200).",
    body=Body(CompletionBody, CompletionBody),
    answer=AnswerView,
    statuses=(202, 200),
    is_conflicting=True,
)
