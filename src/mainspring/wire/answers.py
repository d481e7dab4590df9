"""Waits of workflows as they go over HTTP: what a step waits for, and what answers it."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from mainspring.core.workflows.answers import WaitState
from mainspring.core.workflows.reports import StepReport
from mainspring.core.workflows.waits import WAIT_KINDS, AnswerKind, StepWait
from mainspring.wire.views import Instant, RunIdText

_STEP = Meta(description="The name of the step.", examples=["sign_off"])
_COMMENT = Meta(
    description="Why.", examples=["looks right"], extra_json_schema={"minLength": 1, "maxLength": 500}
)
_DATA = Meta(description="What the step returns, for those that follow: any JSON, up to 64 KiB.")


class SignalBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A signal for the steps of a run that wait for it."""

    name: Annotated[str, Meta(description="The name of the signal.", examples=["stock-counted"])]
    data: Annotated[Any | UnsetType, _DATA] = UNSET


class DecisionBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which step to approve of, or to reject."""

    step: Annotated[str, _STEP]
    comment: Annotated[str | None, _COMMENT] = None


class CompletionBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which step's wait to end by hand."""

    step: Annotated[str, _STEP]
    comment: Annotated[str | None, _COMMENT] = None
    data: Annotated[Any | UnsetType, _DATA] = UNSET


class AnswerView(Struct, kw_only=True):
    """A run of a workflow that was answered. It follows it with its next turn, within a second."""

    run_id: RunIdText
    is_new: Annotated[bool, Meta(description="False: it had that answer already, and nothing has changed.")]


class WaitView(Struct, kw_only=True):
    """What a step waits for, and how it was answered."""

    kind: Annotated[str, Meta(description="What it waits for.", extra_json_schema={"enum": list(WAIT_KINDS)})]
    signal: Annotated[str | None, Meta(description="The name of the signal; null for others.")]
    topic: Annotated[str | None, Meta(description="The topic of the event; null for others.")]
    approvers: Annotated[
        list[str], Meta(description="The accounts of which one has to approve; empty: whoever may operate.")
    ]
    since: Annotated[Instant | None, Meta(description="When it started to wait; null if it has not.")]
    until: Annotated[
        Instant | None,
        Meta(description="When the wait ends by itself, or has taken too long; null if that is not set."),
    ]
    answer: Annotated[
        str | None,
        Meta(
            description="How it was answered; null if it was not.",
            extra_json_schema={"enum": [*(kind.value for kind in AnswerKind), None]},
        ),
    ]
    answered_at: Instant | None
    answered_by: Annotated[str | None, Meta(description="The account that has answered.")]
    comment: Annotated[str | None, Meta(description="Why, in the words of who has answered.")]
    is_late: Annotated[bool, Meta(description="No answer came in time.")]


def view_wait(wait: StepWait | None, report: StepReport) -> WaitView | None:
    """Show the wait of a step; None if it has none."""
    if wait is None:
        return None
    state = WaitState(report.place) if report.wait is None else report.wait
    return WaitView(
        kind=wait.kind,
        signal=wait.signal,
        topic=None if wait.event is None else wait.event.topic,
        approvers=[] if wait.approval is None else list(wait.approval.by),
        since=state.since,
        until=report.until,
        answer=None if state.kind is None else state.kind.value,
        answered_at=state.at,
        answered_by=state.by,
        comment=state.comment,
        is_late=state.is_late,
    )
