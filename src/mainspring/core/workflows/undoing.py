"""What comes once the steps of a flow have ended: undos one by one, the newest success first, and steps at the end."""

from __future__ import annotations

from mainspring.core.states import RunState
from mainspring.core.workflows.flow_ends import find_end
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.starts import Draft
from mainspring.core.workflows.state import FlowPhase, FlowState, StepStatus, pack_ends

_WAITING, _READY = int(StepStatus.WAITING), int(StepStatus.READY)
_SUCCEEDED, _SKIPPED = int(StepStatus.SUCCEEDED), int(StepStatus.SKIPPED)


def finish(draft: Draft, state: FlowState) -> FlowPhase:
    """Go on with a flow of which nothing is live, as long as steps wait. Return why the others have ended.

    Args:
        state: before the turn.
    """
    cause = state.cause
    while not (draft.count_live() or draft.goes_on()) and _WAITING in draft.steps:
        if draft.phase not in {FlowPhase.UNDOING, FlowPhase.FINISHING}:
            cause, draft.phase = draft.phase, FlowPhase.UNDOING
            _leave_out(draft, state, cause)
        undo = None if draft.phase is FlowPhase.FINISHING else _find_next(draft, state)
        if undo is not None:
            draft.steps[undo] = _READY if draft.asking is None else draft.asking.judge(undo)
            draft.start()
            continue
        is_last = draft.phase is FlowPhase.FINISHING
        draft.phase = FlowPhase.FINISHING
        draft.judge_last()
        draft.start()
        if is_last:
            break
    return cause


def _leave_out(draft: Draft, state: FlowState, cause: FlowPhase) -> None:
    """Skip the undos of what has not succeeded; all of them if the steps have done their work."""
    plan, steps = draft.plan, draft.steps
    if not plan.undoes:
        return
    ended = FlowState(cause, bytes(steps), 0, state.ends + pack_ends(draft.ended))
    is_done = is_well(plan, ended, cause)
    for undo, step in plan.undoes.items():
        if steps[undo] == _WAITING and (is_done or steps[step] != _SUCCEEDED):
            steps[undo] = _SKIPPED


def is_well(plan: FlowPlan, state: FlowState, cause: FlowPhase) -> bool:
    """Say whether a workflow has done its work, whatever became of undos and steps at the end.

    Args:
        cause: why its other steps have ended.
    """
    ends = pack_ends([step for step in state.order_of_ends() if not plan.at_end[step]])
    work = FlowState(cause, state.steps, 0, ends, cause=cause)
    return find_end(plan, work).state is RunState.SUCCEEDED


def _find_next(draft: Draft, state: FlowState) -> int | None:
    """Return the undo that comes next: that of the newest success of which none has begun."""
    plan = draft.plan
    if not plan.undoes:
        return None
    ends = (*state.order_of_ends(), *draft.ended)
    waiting = (plan.undo_of[step] for step in reversed(ends) if step in plan.undo_of)
    return next((undo for undo in waiting if draft.steps[undo] == _WAITING), None)


def was_undone(plan: FlowPlan, state: FlowState, step: int) -> bool:
    """Say whether the undo of a step has begun, however it ended.

    One that is skipped has begun if its run said so itself.
    """
    undo = plan.undo_of.get(step)
    if undo is None or state.status(undo) is StepStatus.WAITING:
        return False
    return state.status(undo) is not StepStatus.SKIPPED or undo in state.order_of_ends()
