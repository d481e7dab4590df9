"""How far a flow has come: one small value, so that a turn reads and writes one row."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from struct import pack, unpack

from mainspring.core.states import RunState
from mainspring.core.values import value
from mainspring.core.workflows.answers import WaitState
from mainspring.core.workflows.maps import MapState
from mainspring.core.workflows.taken import Taken
from mainspring.core.workflows.timers import Timers

Errors = tuple[tuple[int, str], ...]
Maps = tuple[tuple[int, MapState], ...]
Waits = tuple[WaitState, ...]
JOB, TIMED_OUT, REJECTED = "job", "timeout", "reject"
"""What the error of a step begins with whose job cannot run, whose wait took too long, or that somebody has rejected.
Others begin with the option of the expression."""
_END = 2
"""Bytes of a step's place in the order of ends."""


class FlowPhase(IntEnum):
    """Whether a flow starts steps. The numbers are kept.

    - `OPEN`: it does.
    - `CANCELLING`, `OVERDUE`: it does not, because it was cancelled, or its deadline has passed. It ends with what is
        live.
    - `ENDED`: it has ended.
    - `FINISHING`: all others have ended, and it starts the steps at the end.
    - `UNDOING`: before that: the steps have ended without success, and what had succeeded is undone, one by one.
    """

    OPEN = 0
    CANCELLING = 1
    ENDED = 2
    OVERDUE = 3
    FINISHING = 4
    UNDOING = 5

    @property
    def is_stopping(self) -> bool:
        """Whether nothing starts any more but what is at the end."""
        return self in {FlowPhase.CANCELLING, FlowPhase.OVERDUE}


class StepStatus(IntEnum):
    """Where a step is. The numbers are kept, a byte for each step.

    - `WAITING`: for its parents.
    - `READY`: its rule said that it runs, but the turn had started as many steps as it may.
    - `LIVE`: its run was made, and has not ended.
    - `SUCCEEDED`, `FAILED`, `CANCELLED`, `SKIPPED`: its run ended so. A step that a cancel kept from running is
        cancelled, and one that its rule skipped is skipped, both without a run.
        One whose expression cannot be evaluated, or whose job cannot run, has failed without a run.
    - `UPSTREAM_FAILED`: it does not run, because of parents that failed.
    - `SUSPENDED`: it waits for an instant or an answer (`core.workflows.waits`), without a run.
    """

    WAITING = 0
    READY = 1
    LIVE = 2
    SUCCEEDED = 3
    FAILED = 4
    CANCELLED = 5
    SKIPPED = 6
    UPSTREAM_FAILED = 7
    SUSPENDED = 8


STATUS_OF_END = {
    RunState.SUCCEEDED: StepStatus.SUCCEEDED,
    RunState.FAILED: StepStatus.FAILED,
    RunState.CANCELLED: StepStatus.CANCELLED,
    RunState.SKIPPED: StepStatus.SKIPPED,
}
"""What the final state of a step's run makes of the step."""
_KNOWN = bytes(StepStatus)
_OPEN = bytes((StepStatus.WAITING, StepStatus.READY, StepStatus.LIVE, StepStatus.SUSPENDED))


class UnreadableFlow(ValueError):
    """A kept state of a flow is of a later form, or damaged. Nothing may be decided from it."""


@value()
class FlowState:
    """How far a flow has come.

    Attributes:
        steps: the status of each step, as a byte.
        live: how many of its runs have not ended.
        ends: the steps whose runs have ended, or that have failed without one, in that order, two bytes each.
        timers: when it has a turn without mail, the first one first.
        cause: the phase that the flow was in when the last step had ended that is not one at the end.
        is_paused: it starts nothing until it is resumed.
        errors: of the steps that have failed because they could not start, in order of place: the step, and why.
        maps: how far the steps have come that run once for each of many items, from when they start.
        waits: how far the steps have come that wait for something, from when they start, or are answered.
        taken: what it has taken over from the run that its run repeats.
    """

    phase: FlowPhase
    steps: bytes
    live: int
    ends: bytes
    timers: Timers = ()
    cause: FlowPhase = FlowPhase.OPEN
    is_paused: bool = False
    errors: Errors = ()
    maps: Maps = ()
    waits: Waits = ()
    taken: Taken = ()

    @classmethod
    def restore(
        cls,
        phase: int,
        steps: bytes,
        live: int,
        ends: bytes,
        *,
        timers: Timers = (),
        cause: FlowPhase = FlowPhase.OPEN,
        is_paused: bool = False,
        errors: Errors = (),
        maps: Maps = (),
        waits: Waits = (),
        taken: Taken = (),
    ) -> FlowState:
        """Return the state that these kept parts are.

        Raises:
            UnreadableFlow: they are none.
        """
        try:
            known_phase = FlowPhase(phase)
        except ValueError:
            raise UnreadableFlow(f"phase {phase} is not known") from None
        if steps.translate(None, _KNOWN):
            raise UnreadableFlow("a status of a step is not known")
        told = [step for step, _ in (*errors, *maps)]
        told += [*(one.step for one in waits), *(one.step for one in taken)]
        if not all(0 <= step < len(steps) for step in told):
            raise UnreadableFlow("it tells of steps that do not exist")
        expected = steps.count(StepStatus.LIVE)
        expected += sum(one.live - (steps[step] == StepStatus.LIVE) for step, one in maps)
        if live != expected:
            raise UnreadableFlow(f"{live} runs do not fit {expected} of live steps")
        if known_phase is FlowPhase.ENDED and len(steps.translate(None, _OPEN)) < len(steps):
            raise UnreadableFlow("the flow has ended, and a step has not")
        state = cls(known_phase, steps, live, ends, timers, cause, is_paused, errors, maps, waits, taken)
        begun = dict(maps)  # a map may be kept from starting further items
        if any(steps[step] != StepStatus.FAILED and step not in begun for step, _ in errors):
            raise UnreadableFlow("there are errors of steps that have not failed")
        if any(one.is_whole and steps[one.step] != StepStatus.SUCCEEDED for one in taken):
            raise UnreadableFlow("it has taken over steps that have not succeeded")
        if len(ends) % _END or max(state.order_of_ends(), default=-1) >= len(steps):
            raise UnreadableFlow("the order of ends names steps that do not exist")
        return state

    def status(self, step: int) -> StepStatus:
        """Return where a step is."""
        return StepStatus(self.steps[step])

    def count_ended(self) -> int:
        """Return how many steps have ended, those included that will not run."""
        return len(self.steps.translate(None, _OPEN))

    def order_of_ends(self) -> tuple[int, ...]:
        """Return the steps whose runs have ended, the first one first."""
        return unpack(f"<{len(self.ends) // _END}H", self.ends)


def pack_ends(steps: Sequence[int]) -> bytes:
    """Return steps as `FlowState.ends` holds them."""
    return pack(f"<{len(steps)}H", *steps)
