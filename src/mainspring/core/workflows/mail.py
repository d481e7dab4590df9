"""Mail: what a flow is told between its turns."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from mainspring.core.states import RunState
from mainspring.core.values import value
from mainspring.core.workflows.answers import StepAnswer
from mainspring.core.workflows.places import NO_ITEM
from mainspring.core.workflows.waits import AnswerKind


@value()
class StepEnded:
    """The run of a step has ended.

    Attributes:
        step: its place in the workflow.
        state: the final state of the run.
        item: for which of the step's items it ran; `NO_ITEM` if the step runs once.
    """

    step: int
    state: RunState
    item: int = NO_ITEM


@value()
class SkipStep:
    """A step that waits is to be skipped.

    Attributes:
        step: its place in the workflow.
    """

    step: int


SKIP = "skip"
"""How stores write `SkipStep`, where a `StepEnded` has the final state of the run."""


class FlowNotice(Enum):
    """Mail about the flow as a whole.

    - `CANCEL`: nothing more starts, and what is live is cancelled.
    - `GO_ON`: the turn before had more to start than it may.
    - `PAUSE`: nothing starts any more, and what is live goes on.
    - `RESUME`: what was kept back starts.
    """

    CANCEL = "cancel"
    GO_ON = "go_on"
    PAUSE = "pause"
    RESUME = "resume"


Mail: TypeAlias = StepEnded | SkipStep | StepAnswer | FlowNotice
_ANSWERS = frozenset(AnswerKind)


def make_mail(step: int | None, item: int, what: str, words: bytes | None = None) -> Mail:
    """Return the mail that a store has written as these columns."""
    if step is None:
        return FlowNotice(what)
    if what in _ANSWERS:
        return StepAnswer(step, AnswerKind(what), words)
    return SkipStep(step) if what == SKIP else StepEnded(step, RunState(what), item)


def columns_of_mail(mail: Mail) -> tuple[int | None, str]:
    """Return the columns `step` and `what` as which stores write mail. `tell_end` writes that of items.

    The words of an answer have a column of their own (`words_of_mail`).
    """
    if isinstance(mail, FlowNotice):
        return None, mail.value
    if isinstance(mail, StepAnswer):
        return mail.step, mail.kind.value
    return mail.step, SKIP if isinstance(mail, SkipStep) else mail.state.value


def words_of_mail(mail: Mail) -> bytes | None:
    """Return the column `value` as which stores write mail."""
    return mail.words if isinstance(mail, StepAnswer) else None
