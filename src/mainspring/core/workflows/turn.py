"""Turns: what mail makes of a flow, which steps start, and how the flow ends.

A turn is a pure decision. Mail for a step that has no live run, or that comes again, changes nothing. So it does not
matter in which turns mail comes, nor in which order, except that a cancel keeps from starting what has not started.
What a turn costs follows from what has changed: only the children of what has ended are judged, each once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from mainspring.core.expressions import ExpressionError
from mainspring.core.states import RunState
from mainspring.core.values import value
from mainspring.core.workflows.asking import Asking
from mainspring.core.workflows.expressions import Evaluate
from mainspring.core.workflows.mail import FlowNotice, Mail, StepEnded
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.rules import Parents, StepRule, StepVerdict, judge
from mainspring.core.workflows.state import STATUS_OF_END, FlowPhase, FlowState, StepStatus, pack_ends

MOST_STARTS = 500
"""Steps that a turn starts, at most, unless a server says otherwise."""

_WAITING, _READY, _LIVE, _SUCCEEDED, _FAILED, _CANCELLED, _SKIPPED, _UPSTREAM_FAILED = map(int, StepStatus)
_NOT_ENDED = frozenset({_WAITING, _READY, _LIVE})
_STATUS_OF_VERDICT = {
    StepVerdict.WAIT: _WAITING,
    StepVerdict.RUN: _READY,
    StepVerdict.SKIP: _SKIPPED,
    StepVerdict.UPSTREAM_FAILED: _UPSTREAM_FAILED,
}
_NOBODY: tuple[int, ...] = ()
_NEW = FlowState(FlowPhase.OPEN, b"", 0, b"")


@value()
class FlowEnd:
    """How a flow has ended.

    Attributes:
        state: SUCCEEDED, FAILED or CANCELLED. A success wins over a cancel that kept nothing from being done.
        failed: of a flow that FAILED, the names of the steps that made it fail, in the order of their ends.
        result: of a flow that SUCCEEDED, what it returns, as JSON text; None if it returns nothing.
        error: why its result could not be made, which has made it fail.
    """

    state: RunState
    failed: tuple[str, ...] = ()
    result: bytes | None = None
    error: str | None = None


@value()
class FlowTurn:
    """What a turn has decided.

    Attributes:
        state: the flow's new state; the same object if nothing has changed.
        starts: the steps whose runs are made, lowest first.
        cancels: the steps whose live runs are cancelled, lowest first.
        goes_on: more steps are ready; the flow is to get mail to go on.
        end: how the flow has ended; None if it did not end in this turn.
        payloads: of the steps that start and whose payloads expressions have made, the step, and the JSON text.
    """

    state: FlowState
    starts: tuple[int, ...] = _NOBODY
    cancels: tuple[int, ...] = _NOBODY
    goes_on: bool = False
    end: FlowEnd | None = None
    payloads: tuple[tuple[int, bytes], ...] = ()


def begin_flow(
    plan: FlowPlan, *, evaluate: Evaluate | None = None, most_starts: int = MOST_STARTS
) -> FlowTurn:
    """Return the first turn of a flow: the steps without parents start.

    Args:
        evaluate: needed if the workflow has expressions.
    """
    steps = bytearray(len(plan.rules))
    asking = _ask_for(plan, steps, (), evaluate)
    roots = [rank for rank, step in enumerate(plan.graph.order) if not plan.graph.parents[step]]
    _judge_all(plan, steps, roots, FlowPhase.OPEN, asking)
    return _close(plan, _NEW, FlowPhase.OPEN, steps, (), _NOBODY, asking, most_starts)


def turn(
    plan: FlowPlan,
    state: FlowState,
    mails: Sequence[Mail],
    *,
    evaluate: Evaluate | None = None,
    most_starts: int = MOST_STARTS,
) -> FlowTurn:
    """Return what mail makes of a flow.

    Args:
        plan: that of the definition with which the flow began.
        evaluate: needed if the workflow has expressions.
        most_starts: how many steps the turn may start.

    Raises:
        ValueError: the state is that of a flow with another number of steps.
    """
    if len(state.steps) != len(plan.rules):
        raise ValueError(f"the flow has {len(state.steps)} steps, and the workflow {len(plan.rules)}")
    steps, phase, cancels = bytearray(state.steps), state.phase, _NOBODY
    ended = _take_ends(steps, mails)
    moved = ended
    if phase is FlowPhase.OPEN and any(mail is FlowNotice.CANCEL for mail in mails):
        phase = FlowPhase.CANCELLING
        moved = [*ended, *_find_all(steps, _READY)]
        steps[:] = steps.replace(bytes([_READY]), bytes([_CANCELLED]))
        cancels = tuple(_find_all(steps, _LIVE))
    elif not ended and _READY not in steps and (state.live or phase is FlowPhase.ENDED):
        return FlowTurn(state)
    asking = _ask_for(plan, steps, state.errors, evaluate)
    children = {child for step in moved for child in plan.following[step]}
    _judge_all(plan, steps, sorted(children), phase, asking)
    return _close(plan, state, phase, steps, ended, cancels, asking, most_starts)


def _ask_for(
    plan: FlowPlan, steps: bytearray, errors: Sequence[tuple[int, str]], evaluate: Evaluate | None
) -> Asking | None:
    """Return what asks the workflow's expressions; None if it has none."""
    if not plan.asks:
        return None
    if evaluate is None:
        raise ValueError("the workflow has expressions, and nothing evaluates them")
    return Asking(plan, steps, errors, evaluate)


def _take_ends(steps: bytearray, mails: Iterable[Mail]) -> list[int]:
    """Give the live steps whose runs have ended their status, and return them."""
    ended: list[int] = []
    for mail in mails:
        if (
            isinstance(mail, StepEnded)
            and 0 <= (step := mail.step) < len(steps)
            and steps[step] == _LIVE  # or else it is told again, or too late
        ):
            steps[step] = STATUS_OF_END[mail.state]
            ended.append(step)
    return ended


def _find_all(steps: bytearray, status: int) -> Iterator[int]:
    """Yield the steps of a status, lowest first."""
    step = steps.find(status)
    while step >= 0:
        yield step
        step = steps.find(status, step + 1)


def _judge_all(
    plan: FlowPlan, steps: bytearray, due: list[int], phase: FlowPhase, asking: Asking | None
) -> None:
    """Give steps that wait the status that their rules say, and then those that follow from it.

    Args:
        due: the ranks of the steps, lowest first. Those that follow are added; a step comes after all its parents, so
            each is judged once.
    """
    order, following, rules, pick = plan.graph.order, plan.following, plan.rules, plan.pick
    parents = plan.graph.parents
    if_runs = _READY if phase is FlowPhase.OPEN else _CANCELLED
    at = 0
    while at < len(due):
        step = order[due[at]]
        at += 1
        if steps[step] != _WAITING:
            continue
        if len(parents[step]) == 1:
            status = _AFTER_ONE[rules[step]][steps[parents[step][0]]]
        else:
            status = _judge_step(rules[step], pick[step](steps))
        if status == _READY:
            status = if_runs if asking is None or if_runs != _READY else asking.judge(step)
        steps[step] = status
        if status in _NOT_ENDED:
            continue
        for rank in following[step]:
            place = bisect_left(due, rank, at)
            if place == len(due) or due[place] != rank:
                due.insert(place, rank)


def _judge_step(rule: StepRule, parents: bytes) -> int:
    """Return the status of a step that waits, by those of its parents."""
    succeeded, skipped = parents.count(_SUCCEEDED), parents.count(_SKIPPED)
    failed = parents.count(_FAILED) + parents.count(_CANCELLED) + parents.count(_UPSTREAM_FAILED)
    still_open = len(parents) - succeeded - failed - skipped
    return _STATUS_OF_VERDICT[judge(rule, Parents(succeeded, failed, skipped, still_open))]


_AFTER_ONE = {rule: bytes(_judge_step(rule, bytes([status])) for status in StepStatus) for rule in StepRule}
"""By rule and the status of an only parent, what a step becomes. Most have one, and this takes a fifth of the time."""


def _close(
    plan: FlowPlan,
    old: FlowState,
    phase: FlowPhase,
    steps: bytearray,
    ended: Sequence[int],
    cancels: tuple[int, ...],
    asking: Asking | None,
    most_starts: int,
) -> FlowTurn:
    """Start what is ready, as far as the turn may, or end the flow if nothing is live."""
    if asking is None:
        starts = tuple(islice(_find_all(steps, _READY), most_starts))
        for step in starts:
            steps[step] = _LIVE
    else:
        starts = _start_asked(plan, steps, asking, most_starts)
    live = old.live - len(ended) + len(starts)
    ends, errors = old.ends + pack_ends(ended), old.errors
    payloads: tuple[tuple[int, bytes], ...] = ()
    if asking is not None:
        ends += pack_ends(asking.failed)
        errors, payloads = asking.sort_errors(), tuple(asking.payloads.items())
    goes_on = _READY in steps
    if live or goes_on:
        return FlowTurn(
            FlowState(phase, bytes(steps), live, ends, errors), starts, cancels, goes_on, payloads=payloads
        )
    state = FlowState(FlowPhase.ENDED, bytes(steps), 0, ends, errors)
    end = _find_end(plan, state, was_cancelled=phase is FlowPhase.CANCELLING)
    return FlowTurn(state, cancels=cancels, end=end if asking is None else _add_result(end, asking))


def _start_asked(plan: FlowPlan, steps: bytearray, asking: Asking, most_starts: int) -> tuple[int, ...]:
    """Start what is ready. A step has failed if what it gets cannot be made: then others may be ready, or never."""
    starts: list[int] = []
    while len(starts) < most_starts and (step := steps.find(_READY)) >= 0:
        if asking.prepare(step):
            steps[step] = _LIVE
            starts.append(step)
        else:
            _judge_all(plan, steps, list(plan.following[step]), FlowPhase.OPEN, asking)
    return tuple(sorted(starts))


def _add_result(end: FlowEnd, asking: Asking) -> FlowEnd:
    """Return how a flow has ended, with what it returns. It fails if that cannot be made."""
    if end.state is not RunState.SUCCEEDED:
        return end
    try:
        return replace(end, result=asking.make_result())
    except ExpressionError as error:
        return FlowEnd(RunState.FAILED, error=f"result: {error}")


def _find_end(plan: FlowPlan, state: FlowState, *, was_cancelled: bool) -> FlowEnd:
    """Return how a flow of which nothing is live has ended."""
    steps = state.steps
    unwell = [step for step in state.order_of_ends() if steps[step] in {_FAILED, _CANCELLED}]
    failed = [plan.workflow.steps[step].name for step in unwell if not plan.may_fail[step]]
    if was_cancelled and (failed or _CANCELLED in steps):
        return FlowEnd(RunState.CANCELLED)
    return FlowEnd(RunState.FAILED, tuple(failed)) if failed else FlowEnd(RunState.SUCCEEDED)
