"""Steps of durable functions: a worker has them kept, and reads those of the attempts before."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Raw, Struct, field

from mainspring.core.checkpoints import Checkpoint, CheckpointVerdict, NewCheckpoint
from mainspring.core.ids import SessionId, format_run_id
from mainspring.ports.checkpoints import KeptStepPage, KeptSteps
from mainspring.wire.protocol.leases import RunText, Token, read_json, read_run_id
from mainspring.wire.protocol.sessions import SessionText

_NO_VALUE = Raw(b"null")
StepName = Annotated[str, Meta(description="The step's name.", examples=["charge"])]
StepNumber = Annotated[
    int, Meta(ge=0, description="Which step of the name it is, in the order in which they were begun.")
]


class StepItem(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a step has come to."""

    run_id: RunText
    token: Token
    name: StepName
    number: StepNumber = 0
    is_error: Annotated[bool, Meta(description="The value says how the step failed.")] = False
    value: Annotated[Raw, Meta(description="What it returned, any JSON of at most 64 KiB.")] = field(
        default_factory=lambda: _NO_VALUE
    )


class StepsBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """What steps of attempts under way have come to."""

    session_id: SessionText
    steps: Annotated[list[StepItem], Meta(max_length=1000)]


class StepsView(Struct, kw_only=True):
    """What became of each step."""

    results: Annotated[
        list[str],
        Meta(
            description="One word per step, in order. `known`: one of the run, name and number was kept before, and"
            " stands. `stale`: the session does not hold the lease any more."
        ),
    ]
    at: Annotated[datetime, Meta(description="The engine's time.")]


class StepsWantedBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Asks for the steps that attempts before this one have kept."""

    session_id: SessionText
    run_id: RunText
    token: Token
    after_name: Annotated[str | None, Meta(description="The last name of the page before.")] = None
    after_number: Annotated[int, Meta(description="The last number of the page before.")] = -1


class KeptStepView(Struct, kw_only=True):
    """A step that is kept."""

    name: StepName
    number: StepNumber
    is_error: Annotated[bool, Meta(description="The value says how the step failed.")]
    value: Annotated[Raw, Meta(description="What it returned.")]
    kept_at: datetime


class KeptStepsView(Struct, kw_only=True):
    """A page of the steps that are kept of a run."""

    steps: list[KeptStepView]
    is_last: Annotated[bool, Meta(description="There are no more.")]
    at: Annotated[datetime, Meta(description="The engine's time.")]


def to_checkpoint(item: StepItem, session_id: SessionId, index: int) -> NewCheckpoint:
    """Read a step.

    Raises:
        InvalidInput: the text is not a run's id. The error names the field.
    """
    return NewCheckpoint(
        read_run_id(item.run_id, f"steps[{index}].run_id"),
        item.token,
        session_id,
        item.name,
        item.number,
        item.is_error,
        read_json(item.value),
    )


def from_checkpoint(item: NewCheckpoint) -> StepItem:
    """Write a step."""
    return StepItem(
        run_id=format_run_id(item.run_id),
        token=item.token,
        name=item.name,
        number=item.number,
        is_error=item.is_error,
        value=_NO_VALUE if item.value is None else Raw(item.value),
    )


def from_kept(kept: KeptSteps) -> StepsView:
    """Write what became of steps."""
    return StepsView(results=[verdict.value for verdict in kept.verdicts], at=kept.at)


def to_kept(view: StepsView) -> KeptSteps:
    """Read what became of steps."""
    return KeptSteps(tuple(CheckpointVerdict(result) for result in view.results), view.at)


def from_step(step: Checkpoint) -> KeptStepView:
    """Write a step that is kept."""
    return KeptStepView(
        name=step.name,
        number=step.number,
        is_error=step.is_error,
        value=_NO_VALUE if step.value is None else Raw(step.value),
        kept_at=step.kept_at,
    )


def from_step_page(page: KeptStepPage) -> KeptStepsView:
    """Write a page of steps."""
    return KeptStepsView(steps=[from_step(step) for step in page.steps], is_last=page.is_last, at=page.at)


def to_step_page(view: KeptStepsView, token: int) -> KeptStepPage:
    """Read a page of steps. The tokens of their attempts are not told; that of the asking one stands for them."""
    steps = []
    for step in view.steps:
        value = read_json(step.value)
        steps.append(Checkpoint(step.name, step.number, token, step.is_error, value, step.kept_at))
    return KeptStepPage(tuple(steps), view.at, view.is_last)
