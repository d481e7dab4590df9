"""Turns: what mail makes of a flow, which steps start, and how the flow ends.

A turn is a pure decision. Mail for a step that has no live run, or that comes again, changes nothing. So it does not
matter in which turns mail comes, nor in which order, except that a cancel keeps from starting what has not started.
What a turn costs follows from what has changed: only the children of what has ended are judged, each once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from mainspring.core.expressions import ExpressionError
from mainspring.core.states import RunState
from mainspring.core.values import value
from mainspring.core.workflows.asking import Asking, ask_for
from mainspring.core.workflows.commands import is_paused_after, skip_steps
from mainspring.core.workflows.expressions import Evaluate
from mainspring.core.workflows.judging import find_all, judge_all, judge_children
from mainspring.core.workflows.mail import FlowNotice, Mail, StepEnded
from mainspring.core.workflows.plan import FlowPlan, find_roots
from mainspring.core.workflows.state import STATUS_OF_END, FlowPhase, FlowState, StepStatus, pack_ends
from mainspring.core.workflows.timers import FlowTimer, TimerKind, split_due

MOST_STARTS = 500
"""Steps that a turn starts, at most, unless a server says otherwise."""

_WAITING, _READY, _LIVE, _FAILED, _CANCELLED = map(
    int,
    (StepStatus.WAITING, StepStatus.READY, StepStatus.LIVE, StepStatus.FAILED, StepStatus.CANCELLED),
)
_NOBODY: tuple[int, ...] = ()


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
    plan: FlowPlan, *, now: datetime, evaluate: Evaluate | None = None, most_starts: int = MOST_STARTS
) -> FlowTurn:
    """Return the first turn of a flow: the steps without parents start, and so does the time until its deadline.

    Args:
        evaluate: needed if the workflow has expressions.
    """
    steps = bytearray(len(plan.rules))
    asking = ask_for(plan, steps, (), evaluate)
    judge_all(plan, steps, find_roots(plan, at_end=False), FlowPhase.OPEN, asking)
    deadline = plan.workflow.deadline
    timers = () if deadline is None else (FlowTimer(now + deadline, TimerKind.DEADLINE),)
    return _close(plan, FlowState(FlowPhase.OPEN, b"", 0, b"", timers), steps, _NOBODY, asking, most_starts)


def turn(
    plan: FlowPlan,
    state: FlowState,
    mails: Sequence[Mail],
    *,
    now: datetime,
    evaluate: Evaluate | None = None,
    most_starts: int = MOST_STARTS,
) -> FlowTurn:
    """Return what mail, and the timers that are due, make of a flow.

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
    skipped = skip_steps(steps, mails)
    is_paused = is_paused_after(state.is_paused, mails) and phase is not FlowPhase.ENDED
    due, timers = split_due(state.timers, now) if state.timers else ((), ())
    is_cancelled = phase is FlowPhase.OPEN and any(mail is FlowNotice.CANCEL for mail in mails)
    has_moved = ended or skipped or is_cancelled or due or is_paused is not state.is_paused
    is_over = phase is FlowPhase.ENDED or bool(state.live)  # or else it has begun without any step that runs
    if not has_moved and is_over and (is_paused or _READY not in steps):
        return FlowTurn(state)
    asking = ask_for(plan, steps, state.errors, evaluate)
    if is_cancelled:
        phase = FlowPhase.CANCELLING  # so nothing is asked of what would only be cancelled
    judge_children(plan, steps, [*ended, *skipped], phase, asking)
    if is_cancelled or (due and phase is FlowPhase.OPEN and (_LIVE in steps or _READY in steps)):
        phase = phase if is_cancelled else FlowPhase.OVERDUE
        ready = [*find_all(steps, _READY)]
        steps[:] = steps.replace(bytes([_READY]), bytes([_CANCELLED]))
        cancels = tuple(find_all(steps, _LIVE))
        judge_children(plan, steps, ready, phase, asking)
    ends = state.ends + pack_ends(ended)
    live = state.live - len(ended)
    before = FlowState(phase, state.steps, live, ends, timers, state.cause, is_paused, state.errors)
    return _close(plan, before, steps, cancels, asking, most_starts)


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


def _close(
    plan: FlowPlan,
    state: FlowState,
    steps: bytearray,
    cancels: tuple[int, ...],
    asking: Asking | None,
    most_starts: int,
) -> FlowTurn:
    """Start what is ready, as far as the turn may, or end the flow if nothing is live.

    Args:
        state: the new one, but for the steps, and those that fail without a run.
    """
    starts = _start(plan, steps, state, asking, most_starts)
    if not (state.live or starts) and _READY not in steps and _WAITING in steps:
        # But for those at the end, all have ended.
        state = replace(state, phase=FlowPhase.FINISHING, cause=state.phase, timers=())
        judge_all(plan, steps, find_roots(plan, at_end=True), state.phase, asking)
        starts = _start(plan, steps, state, asking, most_starts)
    if asking is not None and asking.failed:
        state = replace(state, ends=state.ends + pack_ends(asking.failed), errors=asking.sort_errors())
    live, is_ready = state.live + len(starts), _READY in steps
    if live or is_ready:
        going = replace(state, steps=bytes(steps), live=live)
        payloads = () if asking is None else tuple(asking.payloads.items())
        goes_on = is_ready and not state.is_paused
        return FlowTurn(going, starts, cancels, goes_on=goes_on, payloads=payloads)
    cause = state.cause if state.phase is FlowPhase.FINISHING else state.phase
    ended = FlowState(FlowPhase.ENDED, bytes(steps), 0, state.ends, cause=cause, errors=state.errors)
    end = _find_end(plan, ended)
    return FlowTurn(ended, cancels=cancels, end=end if asking is None else _add_result(end, asking))


def _start(
    plan: FlowPlan, steps: bytearray, state: FlowState, asking: Asking | None, most_starts: int
) -> tuple[int, ...]:
    """Start what is ready, unless the flow is paused.

    A step has failed if what it gets cannot be made: then others may be ready, or never.
    """
    if state.is_paused:
        return _NOBODY
    if asking is None:
        starts = [*islice(find_all(steps, _READY), most_starts)]
        for step in starts:
            steps[step] = _LIVE
        return tuple(starts)
    starts = []
    while len(starts) < most_starts and (step := steps.find(_READY)) >= 0:
        if asking.prepare(step):
            steps[step] = _LIVE
            starts.append(step)
        else:
            judge_children(plan, steps, [step], state.phase, asking)
    return tuple(sorted(starts))


def _add_result(end: FlowEnd, asking: Asking) -> FlowEnd:
    """Return how a flow has ended, with what it returns. It fails if that cannot be made."""
    if end.state is not RunState.SUCCEEDED:
        return end
    try:
        return replace(end, result=asking.make_result())
    except ExpressionError as error:
        return FlowEnd(RunState.FAILED, error=f"result: {error}")


def _find_end(plan: FlowPlan, state: FlowState) -> FlowEnd:
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
