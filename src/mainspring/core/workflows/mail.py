"""Mail: what a flow is told between its turns."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from mainspring.core.states import RunState
from mainspring.core.values import value


@value()
class StepEnded:
    """The run of a step has ended.

    Attributes:
        step: its place in the workflow.
        state: the final state of the run.
    """

    step: int
    state: RunState


class FlowNotice(Enum):
    """Mail about the flow as a whole.

    - `CANCEL`: nothing more starts, and what is live is cancelled.
    - `GO_ON`: the turn before had more to start than it may.
    """

    CANCEL = "cancel"
    GO_ON = "go_on"


Mail: TypeAlias = StepEnded | FlowNotice
