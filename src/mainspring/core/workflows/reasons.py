"""Says in words why a step has not run, or does not: which of its parents are why."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mainspring.core.times import write_instant
from mainspring.core.workflows.answers import tell_answer
from mainspring.core.workflows.judging import judge_step
from mainspring.core.workflows.plan import FlowPlan, Statuses
from mainspring.core.workflows.rules import StepRule
from mainspring.core.workflows.state import JOB, REJECTED, TIMED_OUT, FlowPhase, FlowState, StepStatus
from mainspring.core.workflows.timers import earliest
from mainspring.core.workflows.undoing import is_well
from mainspring.core.workflows.waits import StepWait

_MOST_NAMED = 5
_OPEN = frozenset({StepStatus.WAITING, StepStatus.READY, StepStatus.LIVE, StepStatus.SUSPENDED})
_UNWELL = frozenset({StepStatus.FAILED, StepStatus.CANCELLED, StepStatus.UPSTREAM_FAILED})
_WORDS = {
    StepStatus.SUCCEEDED: "succeeded",
    StepStatus.FAILED: "failed",
    StepStatus.CANCELLED: "was cancelled",
    StepStatus.SKIPPED: "was skipped",
    StepStatus.UPSTREAM_FAILED: "did not run",
}
_BY_HAND = "someone skipped it"
_BARRED_BY = {
    StepRule.ALL_SUCCESS: {StepStatus.SKIPPED},
    StepRule.ALL_FAILED: {StepStatus.SUCCEEDED, StepStatus.SKIPPED},
    StepRule.NONE_SKIPPED: {StepStatus.SKIPPED},
}
"""By rule, the ends of a single parent that have its step skipped."""


def explain_step(plan: FlowPlan, state: FlowState, step: int) -> str | None:
    """Return why a step without a run has none, or who has ended its wait; None if its rule said that it runs.

    Args:
        state: that of the flow.
        step: its place. It has no run.
    """
    statuses, status = state.steps, state.status(step)
    parents = plan.graph.parents[step]
    if step in plan.undoes and status in {StepStatus.WAITING, StepStatus.SKIPPED}:
        return _explain_undo(plan, state, step)
    if status is StepStatus.WAITING and plan.at_end[step] and state.phase is not FlowPhase.FINISHING:
        return "runs once all other steps have ended"
    if status is StepStatus.WAITING:
        return f"waits for {_name(plan, _those(statuses, parents, _OPEN))}"
    if status is StepStatus.READY:
        return "waits until the workflow is resumed" if state.is_paused else "starts next"
    if status is StepStatus.SUSPENDED:
        return _what_it_waits_for(plan.waits[step], state, step)
    begun = next((one for one in state.waits if one.step == step and one.since is not None), None)
    if status is StepStatus.CANCELLED:
        is_late = FlowPhase.OVERDUE in {state.phase, state.cause}
        what = "the deadline passed" if is_late else "the workflow was cancelled"
        return f"{what} {'before it started' if begun is None else 'while it waited'}"
    if status is StepStatus.UPSTREAM_FAILED:
        return _tell(plan, statuses, _those(statuses, parents, _UNWELL))
    if status is StepStatus.SKIPPED:
        if begun is not None:
            return "no answer came in time" if begun.is_late else _BY_HAND
        return _why_skipped(plan, statuses, step)
    error = dict(state.errors).get(step)
    if error is None:
        return next((tell_answer(one) for one in state.waits if one.step == step), None)
    option = error.partition(":")[0]
    if option == JOB and plan.workflow.steps[step].job is None:
        return "it cannot start"
    return _WHY_FAILED.get(option, f"its {option} cannot be evaluated")


_WHY_FAILED = {JOB: "its job cannot run", TIMED_OUT: "no answer came in time", REJECTED: "it was rejected"}
"""By what their errors begin with, why steps have failed."""


def _what_it_waits_for(wait: StepWait, state: FlowState, step: int) -> str:
    """Return what a step waits for that has started."""
    until = earliest(tuple([timer for timer in state.timers if timer.step == step]))
    at = "" if until is None else f" until {write_instant(until)}"
    if wait.signal is not None:
        return f"waits for the signal {wait.signal!r}{at}"
    if wait.event is not None:
        return f"waits for an event of {wait.event.topic!r}{at}"
    if wait.approval is None:
        return f"waits{at}"
    who = " or ".join(wait.approval.by)
    return f"waits for an approval{f' by {who}' if who else ''}{at}"


def _explain_undo(plan: FlowPlan, state: FlowState, undo: int) -> str:
    """Return why an undo has not run, or does not."""
    step = plan.undoes[undo]
    name = _name(plan, [step])
    if state.status(undo) is StepStatus.WAITING:
        if state.phase is FlowPhase.UNDOING:
            return "waits until what ended after its step is undone"
        return f"undoes {name} if the workflow does not succeed"
    status = state.status(step)
    if status in _WORDS and status is not StepStatus.SUCCEEDED:
        return f"{name} {_WORDS[status]}"
    if state.phase in {FlowPhase.FINISHING, FlowPhase.ENDED} and is_well(plan, state, state.cause):
        return "nothing had to be undone"
    has_begun = state.phase in {FlowPhase.UNDOING, FlowPhase.FINISHING, FlowPhase.ENDED}
    return _tell_false(plan, undo) if has_begun and undo in plan.when else _BY_HAND


def _why_skipped(plan: FlowPlan, statuses: Statuses, step: int) -> str:
    rule, parents = plan.rules[step], plan.graph.parents[step]
    said = judge_step(rule, plan.pick[step](statuses))
    if said == StepStatus.READY and step in plan.when:
        return _tell_false(plan, step)
    if said != StepStatus.SKIPPED:
        return _BY_HAND
    barring = _BARRED_BY.get(rule)
    if barring is not None:
        return _tell(plan, statuses, _those(statuses, parents, barring))
    return "no parent failed" if rule is StepRule.ONE_FAILED else "all parents were skipped"


def _tell_false(plan: FlowPlan, step: int) -> str:
    return f"when is false: {plan.when[step].text}"


def _those(statuses: Statuses, parents: Iterable[int], wanted: Collection[StepStatus]) -> list[int]:
    return [parent for parent in parents if statuses[parent] in wanted]


def _tell(plan: FlowPlan, statuses: Statuses, steps: list[int]) -> str:
    """Return what became of steps, like `clean failed, check did not run`."""
    named = [f"{_name(plan, [one])} {_WORDS[StepStatus(statuses[one])]}" for one in steps[:_MOST_NAMED]]
    return ", ".join(named) + _more(steps)


def _name(plan: FlowPlan, steps: list[int]) -> str:
    return ", ".join(plan.workflow.steps[one].name for one in steps[:_MOST_NAMED]) + _more(steps)


def _more(steps: list[int]) -> str:
    return f" and {len(steps) - _MOST_NAMED} more" if len(steps) > _MOST_NAMED else ""
