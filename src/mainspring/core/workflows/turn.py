"""Turns: what mail makes of a flow, which steps start, and how the flow ends.

A turn is a pure decision. Mail for a step that has no live run, or that comes again, changes nothing. So it does not
matter in which turns mail comes, nor in which order, except that a cancel keeps from starting what has not started.
What a turn costs follows from what has changed: only the children of what has ended are judged, each once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

from mainspring.core.expressions import ExpressionError
from mainspring.core.states import RunState
from mainspring.core.values import value
from mainspring.core.workflows.asking import Asking
from mainspring.core.workflows.commands import is_paused_after, skip_steps
from mainspring.core.workflows.expressions import Evaluate
from mainspring.core.workflows.flow_ends import FlowEnd, find_end
from mainspring.core.workflows.mail import FlowNotice, Mail, StepEnded
from mainspring.core.workflows.places import NO_ITEM
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.starts import Draft
from mainspring.core.workflows.state import STATUS_OF_END, FlowPhase, FlowState, StepStatus, pack_ends
from mainspring.core.workflows.timers import FlowTimer, TimerKind, split_due
from mainspring.core.workflows.undoing import finish
from mainspring.core.workflows.waiting import OpenedWait, pick_answers

MOST_STARTS = 500
"""Runs that a turn starts, at most, unless a server says otherwise."""

_WAITING, _READY, _LIVE, _SUSPENDED = map(
    int, (StepStatus.WAITING, StepStatus.READY, StepStatus.LIVE, StepStatus.SUSPENDED)
)
_NOBODY: tuple[int, ...] = ()
_NOTHING: Mapping[int, str] = MappingProxyType({})


@value()
class FlowTurn:
    """What a turn has decided.

    Attributes:
        state: the flow's new state; the same object if nothing has changed.
        starts: the steps whose runs are made, lowest first.
        items: of steps that run once for each of many items, those whose runs are made.
        cancels: the steps whose live runs are cancelled, lowest first.
        goes_on: more steps are ready; the flow is to get mail to go on.
        end: how the flow has ended; None if it did not end in this turn.
        payloads: what expressions have made for the runs that start: the step, the item, and the JSON text. For a map,
            they make what each item gets, or what the items go over, which is for `NO_ITEM`.
        waits: the waits for events that start.
    """

    state: FlowState
    starts: tuple[int, ...] = _NOBODY
    items: tuple[tuple[int, Sequence[int]], ...] = ()
    cancels: tuple[int, ...] = _NOBODY
    goes_on: bool = False
    end: FlowEnd | None = None
    payloads: tuple[tuple[tuple[int, int], bytes], ...] = ()
    waits: tuple[OpenedWait, ...] = ()


def begin_flow(
    plan: FlowPlan,
    *,
    now: datetime,
    evaluate: Evaluate | None = None,
    most_starts: int = MOST_STARTS,
    refused: Mapping[int, str] = _NOTHING,
    seed: FlowState | None = None,
) -> FlowTurn:
    """Return the first turn of a flow: the steps without parents start, and so does the time until its deadline.

    For its other arguments, see `turn`.

    Args:
        seed: what it takes over (`core.workflows.seeds`); what follows that starts, too.

    Raises:
        ValueError: the seed is of another number of steps.
    """
    deadline = plan.workflow.deadline
    timers = () if deadline is None else (FlowTimer(now + deadline, TimerKind.DEADLINE),)
    state = FlowState(FlowPhase.OPEN, bytes(len(plan.rules)), 0, b"", timers)
    if seed is not None:
        _check_size(plan, seed)
        state = replace(seed, timers=timers)
    steps = bytearray(state.steps)
    draft = Draft(plan, state, steps, [], evaluate=evaluate, refused=refused, room=most_starts, now=now)
    draft.judge_roots()
    if seed is not None:
        draft.judge_children([step for step, status in enumerate(seed.steps) if status != _WAITING])
    return _close(draft, state, _NOBODY)


def turn(
    plan: FlowPlan,
    state: FlowState,
    mails: Sequence[Mail],
    *,
    now: datetime,
    evaluate: Evaluate | None = None,
    most_starts: int = MOST_STARTS,
    refused: Mapping[int, str] = _NOTHING,
) -> FlowTurn:
    """Return what mail, and the timers that are due, make of a flow.

    Args:
        plan: that of the definition with which the flow began.
        evaluate: needed if the workflow has expressions.
        most_starts: how many runs the turn may start.
        refused: the steps that cannot start, each with the reason. When their time has come, they fail.

    Raises:
        ValueError: the state is that of a flow with another number of steps.
    """
    _check_size(plan, state)
    steps, is_open = bytearray(state.steps), state.phase is FlowPhase.OPEN
    ended, items = _take_ends(plan, steps, mails)
    skipped = skip_steps(steps, mails)
    is_paused = is_paused_after(state.is_paused, mails) and state.phase is not FlowPhase.ENDED
    due, timers = split_due(state.timers, now) if state.timers else ((), ())
    is_cancelled = is_open and any(mail is FlowNotice.CANCEL for mail in mails)
    answers = pick_answers(plan, state, mails)
    has_moved = (
        ended or items or skipped or answers or is_cancelled or due or is_paused is not state.is_paused
    )
    is_over = state.phase is FlowPhase.ENDED or bool(
        state.live
    )  # or else it has begun without any step that runs
    if not has_moved and is_over and (is_paused or not _may_start(steps, state)):
        return FlowTurn(state)
    room = 0 if is_paused else most_starts
    draft = Draft(plan, state, steps, ended, evaluate=evaluate, refused=refused, room=room, now=now)
    draft.take_items(items)
    draft.waits.take(answers.values(), due)
    if is_cancelled:
        draft.phase = FlowPhase.CANCELLING  # so nothing is asked of what would only be cancelled
    is_finishing = draft.phase is FlowPhase.FINISHING
    draft.judge_children([*ended, *[step for step in skipped if is_finishing or not plan.at_end[step]]])
    cancels = _NOBODY
    is_late = is_open and any(timer.kind is TimerKind.DEADLINE for timer in due)
    if is_cancelled or (is_late and (_LIVE in steps or _READY in steps or _SUSPENDED in steps)):
        cancels = draft.stop(FlowPhase.CANCELLING if is_cancelled else FlowPhase.OVERDUE)
    return _close(draft, replace(state, timers=timers, is_paused=is_paused), cancels, old=state)


def _check_size(plan: FlowPlan, state: FlowState) -> None:
    if len(state.steps) != len(plan.rules):
        raise ValueError(f"the flow has {len(state.steps)} steps, and the workflow {len(plan.rules)}")


def _may_start(steps: bytearray, state: FlowState) -> bool:
    """Say whether a flow to which nothing has happened may have something to start."""
    return _READY in steps or any(steps[step] == _LIVE for step, _ in state.maps)


def _take_ends(plan: FlowPlan, steps: bytearray, mails: Iterable[Mail]) -> tuple[list[int], list[StepEnded]]:
    """Give the live steps whose runs have ended their status. Return them, and the mail about items."""
    ended: list[int] = []
    items: list[StepEnded] = []
    for mail in mails:
        if (
            isinstance(mail, StepEnded)
            and 0 <= (step := mail.step) < len(steps)
            and steps[step] == _LIVE  # or else it is told again, or too late
        ):
            if mail.item != NO_ITEM or step in plan.maps:
                items.append(mail)
                continue
            steps[step] = STATUS_OF_END[mail.state]
            ended.append(step)
    return ended, items


def _close(
    draft: Draft, state: FlowState, cancels: tuple[int, ...], *, old: FlowState | None = None
) -> FlowTurn:
    """Start what is ready, as far as the turn may, or end the flow if nothing is live.

    Args:
        state: the new one, but for what the draft has.
        old: that before the turn; None: the flow begins.
    """
    cause, timers = state.cause, state.timers
    draft.start()
    live, is_ready = draft.count_live(), draft.goes_on()
    if not (live or is_ready or _SUSPENDED in draft.steps) and _WAITING in draft.steps:
        # But for undos and those at the end, all have ended.
        cause, timers = finish(draft, state), ()
        live, is_ready = draft.count_live(), draft.goes_on()
    steps, ends = bytes(draft.steps), state.ends + pack_ends(draft.ended)
    errors, maps, asking = tuple(sorted(draft.errors.items())), tuple(draft.maps.items()), draft.asking
    kept = replace(
        state, steps=steps, ends=ends, cause=cause, errors=errors, maps=maps, waits=draft.waits.states
    )
    if live or is_ready or _SUSPENDED in draft.steps:
        timers = draft.waits.settle(timers) if kept.waits else timers
        new = replace(kept, phase=draft.phase, live=live, timers=timers)
        goes_on = is_ready and not state.is_paused
        if new == old:
            return FlowTurn(old, goes_on=goes_on)
        starts, items = tuple(sorted(draft.starts)), tuple(draft.items.items())
        payloads = () if asking is None else tuple(asking.payloads.items())
        opened = tuple(draft.waits.opened)
        return FlowTurn(new, starts, items, cancels, goes_on=goes_on, payloads=payloads, waits=opened)
    cause = cause if draft.phase in {FlowPhase.UNDOING, FlowPhase.FINISHING} else draft.phase
    over = replace(kept, phase=FlowPhase.ENDED, live=0, timers=(), cause=cause, is_paused=False)
    end = find_end(draft.plan, over)
    return FlowTurn(over, cancels=cancels, end=end if asking is None else _add_result(end, asking))


def _add_result(end: FlowEnd, asking: Asking) -> FlowEnd:
    """Return how a flow has ended, with what it returns. It fails if that cannot be made."""
    if end.state is not RunState.SUCCEEDED:
        return end
    try:
        return replace(end, result=asking.make_result())
    except ExpressionError as error:
        return FlowEnd(RunState.FAILED, error=f"result: {error}")
