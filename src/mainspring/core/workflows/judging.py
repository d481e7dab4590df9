"""Judging: which steps follow from others that have ended, each judged once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from mainspring.core.workflows.asking import Asking
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.rules import Parents, StepRule, StepVerdict, judge
from mainspring.core.workflows.state import FlowPhase, StepStatus

_WAITING, _READY, _LIVE, _SUCCEEDED, _FAILED, _CANCELLED, _SKIPPED, _UPSTREAM_FAILED, _SUSPENDED = map(
    int, StepStatus
)
_NOT_ENDED = frozenset({_WAITING, _READY, _LIVE, _SUSPENDED})
_STATUS_OF_VERDICT = {
    StepVerdict.WAIT: _WAITING,
    StepVerdict.RUN: _READY,
    StepVerdict.SKIP: _SKIPPED,
    StepVerdict.UPSTREAM_FAILED: _UPSTREAM_FAILED,
}


def find_all(steps: bytearray, status: int) -> Iterator[int]:
    """Yield the steps of a status, lowest first."""
    step = steps.find(status)
    while step >= 0:
        yield step
        step = steps.find(status, step + 1)


def judge_children(
    plan: FlowPlan, steps: bytearray, ended: Iterable[int], phase: FlowPhase, asking: Asking | None
) -> None:
    """Judge the steps that follow some that have ended, and those that follow from them."""
    children = {child for step in ended for child in plan.following[step]}
    judge_all(plan, steps, sorted(children), phase, asking)


def judge_all(
    plan: FlowPlan, steps: bytearray, due: list[int], phase: FlowPhase, asking: Asking | None
) -> None:
    """Give steps that wait the status that their rules say, and then those that follow from it.

    Args:
        due: the ranks of the steps, lowest first. Those that follow are added; a step comes after all its parents, so
            each is judged once.
        asking: what asks the workflow's expressions; None if it has none.
    """
    order, following, rules, pick = plan.graph.order, plan.following, plan.rules, plan.pick
    parents = plan.graph.parents
    if_runs = _CANCELLED if phase.is_stopping else _READY
    at = 0
    while at < len(due):
        step = order[due[at]]
        at += 1
        if steps[step] != _WAITING:
            continue
        if len(parents[step]) == 1:
            status = _AFTER_ONE[rules[step]][steps[parents[step][0]]]
        else:
            status = judge_step(rules[step], pick[step](steps))
        if status == _READY:
            status = if_runs if asking is None or if_runs != _READY else asking.judge(step)
        steps[step] = status
        if status in _NOT_ENDED:
            continue
        for rank in following[step]:
            place = bisect_left(due, rank, at)
            if place == len(due) or due[place] != rank:
                due.insert(place, rank)


def judge_step(rule: StepRule, parents: bytes) -> int:
    """Return the status of a step that waits, by those of its parents."""
    succeeded, skipped = parents.count(_SUCCEEDED), parents.count(_SKIPPED)
    failed = parents.count(_FAILED) + parents.count(_CANCELLED) + parents.count(_UPSTREAM_FAILED)
    still_open = len(parents) - succeeded - failed - skipped
    return _STATUS_OF_VERDICT[judge(rule, Parents(succeeded, failed, skipped, still_open))]


_AFTER_ONE = {rule: bytes(judge_step(rule, bytes([status])) for status in StepStatus) for rule in StepRule}
"""By rule and the status of an only parent, what a step becomes. Most have one, and this takes a fifth of the time."""
