"""Turns: what mail makes of a flow, which steps start, and how the flow ends.

A turn is a pure decision. Mail for a step that has no live run, or that comes again, changes nothing. So it does not
matter in which turns mail comes, nor in which order, except that a cancel keeps from starting what has not started.
What a turn costs follows from what has changed: only the children of what has ended are judged, each once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice

from mainspring.core.states import RunState
from mainspring.core.values import value
from mainspring.core.workflows.mail import FlowNotice, Mail, StepEnded
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.rules import Parents, StepRule, StepVerdict, judge
from mainspring.core.workflows.state import STATUS_OF_END, FlowPhase, FlowState, StepStatus, pack_ends
from mainspring.core.workflows.timers import FlowTimer, TimerKind, split_due

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


@value()
class FlowEnd:
    """How a flow has ended.

    Attributes:
        state: SUCCEEDED, FAILED or CANCELLED. A success wins over a cancel that kept nothing from being done.
        failed: of a flow that FAILED, the names of the steps that made it fail, in the order of their ends.
        is_overdue: it FAILED because its deadline passed, whatever its steps say.
    """

    state: RunState
    failed: tuple[str, ...] = ()
    is_overdue: bool = False


@value()
class FlowTurn:
    """What a turn has decided.

    Attributes:
        state: the flow's new state; the same object if nothing has changed.
        starts: the steps whose runs are made, lowest first.
        cancels: the steps whose live runs are cancelled, lowest first.
        goes_on: more steps are ready; the flow is to get mail to go on.
        end: how the flow has ended; None if it did not end in this turn.
    """

    state: FlowState
    starts: tuple[int, ...] = _NOBODY
    cancels: tuple[int, ...] = _NOBODY
    goes_on: bool = False
    end: FlowEnd | None = None


def begin_flow(plan: FlowPlan, *, now: datetime, most_starts: int = MOST_STARTS) -> FlowTurn:
    """Return the first turn of a flow: the steps without parents start, and so does the time until its deadline."""
    steps = bytearray(len(plan.rules))
    roots = [rank for rank, step in enumerate(plan.graph.order) if not plan.graph.parents[step]]
    _judge_all(plan, steps, roots, FlowPhase.OPEN)
    deadline = plan.workflow.deadline
    timers = () if deadline is None else (FlowTimer(now + deadline, TimerKind.DEADLINE),)
    return _close(plan, FlowState(FlowPhase.OPEN, b"", 0, b"", timers), steps, _NOBODY, most_starts)


def turn(
    plan: FlowPlan,
    state: FlowState,
    mails: Sequence[Mail],
    *,
    now: datetime,
    most_starts: int = MOST_STARTS,
) -> FlowTurn:
    """Return what mail, and the timers that are due, make of a flow.

    Args:
        plan: that of the definition with which the flow began.
        most_starts: how many steps the turn may start.

    Raises:
        ValueError: the state is that of a flow with another number of steps.
    """
    if len(state.steps) != len(plan.rules):
        raise ValueError(f"the flow has {len(state.steps)} steps, and the workflow {len(plan.rules)}")
    steps, phase, cancels = bytearray(state.steps), state.phase, _NOBODY
    ended = _take_ends(steps, mails)
    due, timers = split_due(state.timers, now) if state.timers else ((), ())
    is_cancelled = phase is FlowPhase.OPEN and any(mail is FlowNotice.CANCEL for mail in mails)
    if not (ended or is_cancelled or due or _READY in steps):  # as always once the flow has ended
        return FlowTurn(state)
    _judge_children(plan, steps, ended, phase)
    if is_cancelled or (due and phase is FlowPhase.OPEN and (_LIVE in steps or _READY in steps)):
        phase = FlowPhase.CANCELLING if is_cancelled else FlowPhase.OVERDUE
        ready = [*_find_all(steps, _READY)]
        steps = steps.replace(bytes([_READY]), bytes([_CANCELLED]))
        cancels = tuple(_find_all(steps, _LIVE))
        _judge_children(plan, steps, ready, phase)
    ends = state.ends + pack_ends(ended)
    before = FlowState(phase, state.steps, state.live - len(ended), ends, timers)
    return _close(plan, before, steps, cancels, most_starts)


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


def _judge_children(plan: FlowPlan, steps: bytearray, ended: Iterable[int], phase: FlowPhase) -> None:
    """Judge the steps that follow some that have ended, and those that follow from them."""
    children = {child for step in ended for child in plan.following[step]}
    _judge_all(plan, steps, sorted(children), phase)


def _judge_all(plan: FlowPlan, steps: bytearray, due: list[int], phase: FlowPhase) -> None:
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
            status = if_runs
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
    plan: FlowPlan, state: FlowState, steps: bytearray, cancels: tuple[int, ...], most_starts: int
) -> FlowTurn:
    """Start what is ready, as far as the turn may, or end the flow if nothing is live.

    Args:
        state: the new one, but for the steps.
    """
    phase, timers = state.phase, state.timers
    starts = tuple(islice(_find_all(steps, _READY), most_starts))
    for step in starts:
        steps[step] = _LIVE
    live = state.live + len(starts)
    goes_on = _READY in steps
    if live or goes_on:
        return FlowTurn(FlowState(phase, bytes(steps), live, state.ends, timers), starts, cancels, goes_on)
    ended = FlowState(FlowPhase.ENDED, bytes(steps), 0, state.ends, cause=phase)
    return FlowTurn(ended, cancels=cancels, end=_find_end(plan, ended))


def _find_end(plan: FlowPlan, state: FlowState) -> FlowEnd:
    """Return how a flow of which nothing is live has ended."""
    steps = state.steps
    unwell = [step for step in state.order_of_ends() if steps[step] in {_FAILED, _CANCELLED}]
    failed = [plan.workflow.steps[step].name for step in unwell if not plan.may_fail[step]]
    if state.cause is FlowPhase.CANCELLING and (failed or _CANCELLED in steps):
        return FlowEnd(RunState.CANCELLED)
    if state.cause is FlowPhase.OVERDUE:
        return FlowEnd(RunState.FAILED, tuple(failed), is_overdue=True)
    return FlowEnd(RunState.FAILED, tuple(failed)) if failed else FlowEnd(RunState.SUCCEEDED)
