"""What a turn does with steps that wait: it starts their waits, and ends those that have come true or take too long.

The first answer to a step counts, whichever way its mail comes. One that comes before the step has started is kept, and
ends it when it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from mainspring.core.events.model import read_event_key
from mainspring.core.expressions import ExpressionError
from mainspring.core.fields import read_instant, show
from mainspring.core.values import value
from mainspring.core.workflows.answers import StepAnswer, WaitState, said_with, tell_rejection
from mainspring.core.workflows.expressions import Expression
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.state import REJECTED, TIMED_OUT, FlowState, StepStatus
from mainspring.core.workflows.timers import WHOLE, FlowTimer, TimerKind, Timers, sort_timers
from mainspring.core.workflows.waits import AnswerKind, EventWait, MadeValue, OnTimeout, StepWait
from mainspring.errors import InvalidInput

_SUSPENDED, _SUCCEEDED, _FAILED, _SKIPPED = map(
    int, (StepStatus.SUSPENDED, StepStatus.SUCCEEDED, StepStatus.FAILED, StepStatus.SKIPPED)
)
_ANSWERABLE = frozenset({int(StepStatus.WAITING), int(StepStatus.READY), _SUSPENDED})
WAIT = "wait"
"""What the error of a step begins with whose wait cannot start."""
_LONGEST = timedelta(days=3660)
"""Instants that are further away would be mistakes of an expression."""


@value()
class OpenedWait:
    """A step waits for an event from now on.

    Attributes:
        key: that of the event; None: it has none.
    """

    step: int
    topic: str
    key: str | None


def can_answer(status: int) -> bool:
    """Say whether a step in this status may still be answered."""
    return status in _ANSWERABLE


def pick_answers(plan: FlowPlan, state: FlowState, mails: Iterable[object]) -> dict[int, StepAnswer]:
    """Return by step the answers that count: the first one of each step that was not answered, and has not ended."""
    found: dict[int, StepAnswer] = {}
    if not plan.waits:
        return found
    answered = {one.step for one in state.waits if one.kind is not None}
    for mail in mails:
        if not isinstance(mail, StepAnswer) or mail.step in answered or mail.step in found:
            continue
        wait = plan.waits.get(mail.step)
        if wait is not None and wait.takes(mail.kind) and can_answer(state.steps[mail.step]):
            found[mail.step] = mail
    return found


class WaitBook:
    """The waits of a flow while a turn changes it.

    Args:
        steps, ended, errors: those of the turn (`Draft`), to which it adds.

    Attributes:
        opened: the waits for events that start in this turn.
    """

    def __init__(
        self,
        plan: FlowPlan,
        state: FlowState,
        steps: bytearray,
        ended: list[int],
        errors: dict[int, str],
        now: datetime,
    ) -> None:
        self._plan, self._steps, self._ended, self._errors, self._now = plan, steps, ended, errors, now
        self._states = {one.step: one for one in state.waits}
        self._timers: list[FlowTimer] = []
        self.opened: list[OpenedWait] = []

    @property
    def states(self) -> tuple[WaitState, ...]:
        """How far all waits have come, in order of place."""
        return tuple([self._states[step] for step in sorted(self._states)])

    def take(self, answers: Iterable[StepAnswer], due: Sequence[FlowTimer]) -> None:
        """Note answers, and end the waits that have come true, or take too long. An answer in time wins."""
        for answer in answers:
            if not can_answer(self._steps[answer.step]):
                continue  # it was skipped just now
            words = said_with(answer)
            own = self._states.get(answer.step, WaitState(answer.step))
            self._states[answer.step] = replace(
                own, kind=answer.kind, at=self._now, by=words.by, comment=words.comment
            )
            if self._steps[answer.step] == _SUSPENDED:
                self._end(answer.step, self._status_of(answer.step))
        for timer in due:
            if timer.step != WHOLE and self._steps[timer.step] == _SUSPENDED:
                late = timer.kind is TimerKind.TIMEOUT
                self._end(timer.step, self._time_out(timer.step) if late else _SUCCEEDED)

    def start(self, step: int, ask: Callable[[Expression], object] | None) -> bool:
        """Start the wait of a step. Return whether it waits; it may have come true already, or fail.

        Args:
            ask: evaluates expressions; None if the workflow has none.
        """
        own = self._states.get(step, WaitState(step))
        self._states[step] = replace(own, since=self._now)
        if own.kind is not None:
            self._end(step, self._status_of(step))
            return False
        wait = self._plan.waits[step]
        try:
            wake_at = self._find_wake(wait, step, ask)
            if wait.event is not None:
                self.opened.append(OpenedWait(step, wait.event.topic, self._find_key(wait.event, step, ask)))
        except ExpressionError as error:
            self._errors[step] = f"{WAIT}: {error}"
            self._end(step, _FAILED)
            return False
        if wake_at is not None and wake_at <= self._now:
            self._end(step, _SUCCEEDED)
            return False
        if wake_at is not None:
            self._timers.append(FlowTimer(wake_at, TimerKind.WAKE, step))
        if wait.timeout is not None:
            self._timers.append(FlowTimer(self._now + wait.timeout, TimerKind.TIMEOUT, step))
        self._steps[step] = _SUSPENDED
        return True

    def settle(self, timers: Timers) -> Timers:
        """Return a flow's timers with those of waits that have started, and without those of waits that are over."""
        kept = [*timers, *self._timers]
        return sort_timers([one for one in kept if one.step == WHOLE or self._steps[one.step] == _SUSPENDED])

    def _find_wake(
        self, wait: StepWait, step: int, ask: Callable[[Expression], object] | None
    ) -> datetime | None:
        """Return the instant that ends a wait by itself; None if none does.

        Raises:
            ExpressionError: it cannot be made.
        """
        if wait.sleep is not None:
            return self._now + wait.sleep
        if isinstance(wait.until, datetime) or wait.until is None:
            return wait.until
        assert ask is not None, "the workflow has expressions"
        try:
            instant = read_instant(ask(self._plan.made[step]), "until")
        except InvalidInput as error:
            raise ExpressionError(f"until {error.message}") from None
        if instant > self._now + _LONGEST:
            raise ExpressionError(f"until must be within {show(_LONGEST)}")
        return instant

    def _find_key(
        self, event: EventWait, step: int, ask: Callable[[Expression], object] | None
    ) -> str | None:
        """Return the key of the event that a step waits for.

        Raises:
            ExpressionError: it cannot be made.
        """
        if not isinstance(event.key, MadeValue):
            return event.key
        assert ask is not None, "the workflow has expressions"
        made = ask(self._plan.made[step])
        if isinstance(made, int) and not isinstance(made, bool):
            made = str(made)
        try:
            return None if made is None else read_event_key(made, "event.key")
        except InvalidInput as error:
            raise ExpressionError(f"event.key {error.message}") from None

    def _status_of(self, step: int) -> int:
        """Return how a step ends by its answer."""
        state = self._states[step]
        if state.kind is not AnswerKind.REJECT:
            return _SUCCEEDED
        self._errors[step] = f"{REJECTED}: {tell_rejection(state.by, state.comment)}"
        return _FAILED

    def _time_out(self, step: int) -> int:
        wait = self._plan.waits[step]
        self._states[step] = replace(self._states[step], is_late=True)
        if wait.on_timeout is OnTimeout.SKIP:
            return _SKIPPED
        assert wait.timeout is not None, "it has a timer"
        self._errors[step] = f"{TIMED_OUT}: no answer came within {show(wait.timeout)}"
        return _FAILED

    def _end(self, step: int, status: int) -> None:
        self._steps[step] = status
        self._ended.append(step)
