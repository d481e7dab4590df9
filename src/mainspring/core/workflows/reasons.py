"""Says in words why a step has not run, or does not: which of its parents are why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from mainspring.core.workflows.plan import FlowPlan, Statuses
from mainspring.core.workflows.rules import Parents, StepRule, StepVerdict, judge
from mainspring.core.workflows.state import StepStatus

_MOST_NAMED = 5
_NO_ERRORS: Mapping[int, str] = MappingProxyType({})
_OPEN = frozenset({StepStatus.WAITING, StepStatus.READY, StepStatus.LIVE})
_UNWELL = frozenset({StepStatus.FAILED, StepStatus.CANCELLED, StepStatus.UPSTREAM_FAILED})
_WORDS = {
    StepStatus.SUCCEEDED: "succeeded",
    StepStatus.FAILED: "failed",
    StepStatus.CANCELLED: "was cancelled",
    StepStatus.SKIPPED: "was skipped",
    StepStatus.UPSTREAM_FAILED: "did not run",
}
_BARRED_BY = {
    StepRule.ALL_SUCCESS: {StepStatus.SKIPPED},
    StepRule.ALL_FAILED: {StepStatus.SUCCEEDED, StepStatus.SKIPPED},
    StepRule.NONE_SKIPPED: {StepStatus.SKIPPED},
}
"""By rule, the ends of a single parent that have its step skipped."""


def explain_step(
    plan: FlowPlan, statuses: Statuses, step: int, errors: Mapping[int, str] = _NO_ERRORS
) -> str | None:
    """Return why a step without a run has none; None if its rule said that it runs.

    Args:
        statuses: those of all steps.
        step: its place. It has no run.
        errors: why steps have failed without a run.
    """
    status = StepStatus(statuses[step])
    parents = plan.graph.parents[step]
    if status is StepStatus.WAITING:
        return f"waits for {_name(plan, _those(statuses, parents, _OPEN))}"
    if status is StepStatus.READY:
        return "starts next"
    if status is StepStatus.CANCELLED:
        return "the workflow was cancelled before it started"
    if status is StepStatus.UPSTREAM_FAILED:
        return _tell(plan, statuses, _those(statuses, parents, _UNWELL))
    if status is StepStatus.SKIPPED:
        return _why_skipped(plan, statuses, step)
    error = errors.get(step)
    return None if error is None else f"its {error.partition(':')[0]} cannot be evaluated"


def _why_skipped(plan: FlowPlan, statuses: Statuses, step: int) -> str:
    rule, parents = plan.rules[step], plan.graph.parents[step]
    if step in plan.when and _says(rule, [statuses[parent] for parent in parents]) is StepVerdict.RUN:
        return f"when is false: {plan.when[step].text}"
    barring = _BARRED_BY.get(rule)
    if barring is not None:
        return _tell(plan, statuses, _those(statuses, parents, barring))
    return "no parent failed" if rule is StepRule.ONE_FAILED else "all parents were skipped"


def _says(rule: StepRule, parents: Collection[int]) -> StepVerdict:
    """Return what a rule says of parents that have ended, or of those that had by the time it was asked."""
    succeeded = sum(one == StepStatus.SUCCEEDED for one in parents)
    skipped = sum(one == StepStatus.SKIPPED for one in parents)
    still_open = sum(one in _OPEN for one in parents)
    failed = len(parents) - succeeded - skipped - still_open
    return judge(rule, Parents(succeeded, failed, skipped, still_open))


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
