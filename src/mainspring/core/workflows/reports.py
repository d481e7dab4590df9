"""Tells where the steps of a run are, from what is kept of its flow."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from mainspring.core.ids import format_run_id
from mainspring.core.model import Run
from mainspring.core.states import FINAL_STATES
from mainspring.core.values import value
from mainspring.core.workflows.answers import WaitState
from mainspring.core.workflows.maps import MapState
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.reasons import explain_step
from mainspring.core.workflows.state import STATUS_OF_END, FlowPhase, FlowState, StepStatus


@value(kw_only=True)
class StepReport:
    """Where a step of a run is.

    Attributes:
        place: its place in the workflow.
        run: the step's own; None if it has none, or its run is no longer kept.
        reason: why it has none.
        error: of a step that has failed because it could not start, what its expression met, or why its job cannot run.
        items: how far it has come if it runs for many items, and has started.
        wait: how far its wait has come, if it has one that has started or was answered.
        until: of a wait under way, when it ends by itself, or takes too long; None: never.
    """

    place: int
    status: StepStatus
    run: Run | None
    reason: str | None
    error: str | None = None
    items: MapState | None = None
    wait: WaitState | None = None
    until: datetime | None = None


def report_step(
    plan: FlowPlan, run: Run, state: FlowState | None, runs: Mapping[int, Run], place: int
) -> StepReport:
    """Tell where a step is.

    Args:
        run: that of the workflow.
        state: that of the run's flow; None if it has not begun.
        runs: those of the steps that run once, by place.
    """
    if state is None or (_is_seed(run, state) and state.status(place) is StepStatus.WAITING):
        return _not_begun(run, place)
    own, items, error = runs.get(place), dict(state.maps).get(place), dict(state.errors).get(place)
    if own is not None:
        reason = own.reason
    elif items is None or error is not None:
        reason = _tell_taken(state, place) or explain_step(plan, state, place)
    elif (reason := _tell_taken(state, place)) is None:
        has_failed = state.status(place) is StepStatus.FAILED
        reason = f"{items.failed} of {items.count} items failed" if has_failed else None
    return StepReport(
        place=place,
        status=state.status(place),
        run=own,
        reason=reason,
        error=None if error is None else error.partition(": ")[2],
        items=items,
        wait=next((one for one in state.waits if one.step == place), None),
        until=next((timer.at for timer in state.timers if timer.step == place), None),
    )


def _tell_taken(state: FlowState, place: int) -> str | None:
    """Return whose success a step has taken over as a whole; None if it has not."""
    for one in state.taken:
        if one.step == place and one.is_whole:
            return f"taken over from {format_run_id(one.flow_id)}"
    return None


def _is_seed(run: Run, state: FlowState) -> bool:
    """Say whether a run has ended before its flow began, so that there is only what that would have taken over."""
    return run.state in FINAL_STATES and state.phase is not FlowPhase.ENDED


def _not_begun(run: Run, place: int) -> StepReport:
    """Tell of a step of a run that waits to begin, or has ended before."""
    if run.state in FINAL_STATES:
        status, reason = STATUS_OF_END[run.state], "the workflow ended before it began"
    else:
        status, reason = StepStatus.WAITING, "the workflow has not begun"
    return StepReport(place=place, status=status, run=None, reason=reason)
