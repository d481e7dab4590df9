"""How a flow has ended, from what became of its steps."""

from __future__ import annotations

from mainspring.core.states import RunState
from mainspring.core.values import value
from mainspring.core.workflows.judging import find_all
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.state import FlowPhase, FlowState, StepStatus

_FAILED, _CANCELLED = int(StepStatus.FAILED), int(StepStatus.CANCELLED)


@value()
class FlowEnd:
    """How a flow has ended.

    Attributes:
        state: SUCCEEDED, FAILED or CANCELLED. A success wins over a cancel that kept nothing from being done.
        failed: of a flow that FAILED, the names of the steps that made it fail, in the order of their ends.
        is_overdue: it FAILED because its deadline passed, whatever its steps say.
        result: of a flow that SUCCEEDED, what it returns, as JSON text; None if it returns nothing.
        error: why its result could not be made, which has made it fail.
    """

    state: RunState
    failed: tuple[str, ...] = ()
    is_overdue: bool = False
    result: bytes | None = None
    error: str | None = None


def find_end(plan: FlowPlan, state: FlowState) -> FlowEnd:
    """Return how a flow of which nothing is live has ended."""
    steps = state.steps
    unwell = [step for step in state.order_of_ends() if steps[step] in {_FAILED, _CANCELLED}]
    failed = [plan.workflow.steps[step].name for step in unwell if not plan.may_fail[step]]
    if state.cause is FlowPhase.CANCELLING and (failed or _was_cut_short(plan, steps)):
        return FlowEnd(RunState.CANCELLED)
    if state.cause is FlowPhase.OVERDUE:
        return FlowEnd(RunState.FAILED, tuple(failed), is_overdue=True)
    return FlowEnd(RunState.FAILED, tuple(failed)) if failed else FlowEnd(RunState.SUCCEEDED)


def _was_cut_short(plan: FlowPlan, steps: bytes) -> bool:
    """Say whether a cancel kept anything from being done. Steps at the end are none of its business."""
    return any(not plan.at_end[step] for step in find_all(bytearray(steps), _CANCELLED))
