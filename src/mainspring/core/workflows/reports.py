"""Tells where the steps of a run are, from what is kept of its flow."""

from __future__ import annotations

from collections.abc import Mapping

from mainspring.core.model import Run
from mainspring.core.states import FINAL_STATES
from mainspring.core.values import value
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.reasons import explain_step
from mainspring.core.workflows.state import STATUS_OF_END, FlowState, StepStatus


@value(kw_only=True)
class StepReport:
    """Where a step of a run is.

    Attributes:
        place: its place in the workflow.
        run: the step's own; None if it has none, or its run is no longer kept.
        reason: why it has none.
        error: of a step that has failed without a run, what its expression met.
    """

    place: int
    status: StepStatus
    run: Run | None
    reason: str | None
    error: str | None = None


def report_step(
    plan: FlowPlan, run: Run, state: FlowState | None, runs: Mapping[int, Run], place: int
) -> StepReport:
    """Tell where a step is.

    Args:
        run: that of the workflow.
        state: that of the run's flow; None if it has not begun.
        runs: those of the steps, by place.
    """
    if state is None:
        return _not_begun(run, place)
    own = runs.get(place)
    reason = explain_step(plan, state, place) if own is None else own.reason
    error = dict(state.errors).get(place)
    return StepReport(
        place=place,
        status=state.status(place),
        run=own,
        reason=reason,
        error=None if error is None else error.partition(": ")[2],
    )


def _not_begun(run: Run, place: int) -> StepReport:
    """Tell of a step of a run that waits to begin, or has ended before."""
    if run.state in FINAL_STATES:
        status, reason = STATUS_OF_END[run.state], "the workflow ended before it began"
    else:
        status, reason = StepStatus.WAITING, "the workflow has not begun"
    return StepReport(place=place, status=status, run=None, reason=reason)
