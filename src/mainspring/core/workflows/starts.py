"""What a turn works on: it starts steps that are ready, and items of maps, as far as it may."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice

from mainspring.core.states import RunState
from mainspring.core.workflows.asking import Asking, ask_for
from mainspring.core.workflows.expressions import Evaluate
from mainspring.core.workflows.judging import find_all, judge_all, judge_children
from mainspring.core.workflows.mail import StepEnded
from mainspring.core.workflows.maps import MapState, count_startable, is_exceeded
from mainspring.core.workflows.plan import FlowPlan, find_last, find_roots
from mainspring.core.workflows.state import JOB, FlowPhase, FlowState, StepStatus
from mainspring.core.workflows.waiting import WaitBook

_READY, _LIVE, _SUCCEEDED = map(int, (StepStatus.READY, StepStatus.LIVE, StepStatus.SUCCEEDED))
_FAILED, _CANCELLED, _SUSPENDED = map(int, (StepStatus.FAILED, StepStatus.CANCELLED, StepStatus.SUSPENDED))


class Draft:
    """A flow's state while a turn changes it.

    Args:
        state: before the turn.
        steps: that of each step, which mail may have changed.
        refused: the steps that cannot start, each with the reason.
        room: how many runs may be made.

    Attributes:
        ended: the steps that have ended in this turn, in that order.
        starts: the steps whose runs are made.
        items: of maps, the items whose runs are made.
        taken: of maps, the items that were taken over.
        asking: asks the workflow's expressions; None if it has none.
        waits: those of its steps that wait.
    """

    __slots__ = (
        "asking",
        "ended",
        "errors",
        "items",
        "maps",
        "phase",
        "plan",
        "refused",
        "room",
        "starts",
        "steps",
        "taken",
        "waits",
    )

    def __init__(
        self,
        plan: FlowPlan,
        state: FlowState,
        steps: bytearray,
        ended: list[int],
        *,
        evaluate: Evaluate | None,
        refused: Mapping[int, str],
        room: int,
        now: datetime,
    ) -> None:
        self.plan: FlowPlan = plan
        self.phase: FlowPhase = state.phase
        self.steps: bytearray = steps
        self.ended: list[int] = ended
        self.errors: dict[int, str] = dict(state.errors)
        self.maps: dict[int, MapState] = dict(state.maps)
        self.refused: Mapping[int, str] = refused
        self.room: int = room
        self.starts: list[int] = []
        self.items: dict[int, Sequence[int]] = {}
        self.taken: dict[int, bytes] = {one.step: one.items for one in state.taken if not one.is_whole}
        self.asking: Asking | None = ask_for(plan, steps, ended, self.errors, self.maps, evaluate)
        self.waits: WaitBook = WaitBook(plan, state, steps, ended, self.errors, now)

    def take_items(self, mails: Iterable[StepEnded]) -> None:
        """Count the items whose runs have ended, and end the maps that this ends."""
        by_step: dict[int, list[tuple[int, RunState]]] = {}
        for mail in mails:
            if mail.step in self.maps:
                by_step.setdefault(mail.step, []).append((mail.item, mail.state))
        for step, ends in by_step.items():
            self.maps[step] = self.maps[step].take_ends(ends)
        self._end_maps()

    def judge_roots(self) -> None:
        """Judge the steps that follow no other, but for those at the end."""
        judge_all(self.plan, self.steps, find_roots(self.plan), self.phase, self.asking)

    def judge_last(self) -> None:
        """Judge the steps at the end: all of them, since some that others follow may have been skipped before."""
        judge_all(self.plan, self.steps, find_last(self.plan), self.phase, self.asking)

    def judge_children(self, steps: Iterable[int]) -> None:
        """Judge the steps that wait for these, and those that follow."""
        judge_children(self.plan, self.steps, steps, self.phase, self.asking)

    def start(self) -> None:
        """Start what is ready, while there is room. What ends at once may let others start."""
        if not self.phase.is_stopping:
            for step in self._open_maps():
                self._go_on(step)
        while ended := [*self._start_ready(), *self._end_maps()]:
            self.judge_children(ended)

    def _start_ready(self) -> list[int]:
        """Start steps. Return those that have ended at once: they cannot start, or what they wait for has come."""
        failed: list[int] = []
        over: list[int] = []
        for step in list(islice(find_all(self.steps, _READY), self.room)):
            if not self.room:
                break
            if step in self.plan.waits:
                if not self.waits.start(step, None if self.asking is None else self.asking.ask):
                    over.append(step)
                continue
            count = self._count_items(step) if self._can_start(step) else None
            if count is None:
                self.steps[step] = _FAILED
                failed.append(step)
                continue
            self.steps[step] = _LIVE
            if step in self.plan.maps:
                self.maps[step] = MapState(count)
                self._start_items(step)
            else:
                self.starts.append(step)
                self.room -= 1
        self.ended += failed
        return [*failed, *over]

    def _count_items(self, step: int) -> int | None:
        """Return how many items a step runs for, 0 if it runs once; None if that cannot be told."""
        if step in self.plan.overs:
            assert self.asking is not None, "the plan asks something"
            return self.asking.find_items(step)
        return len(self.plan.maps[step].over) if step in self.plan.maps else 0

    def _can_start(self, step: int) -> bool:
        """Say whether runs of a step can be made now. If not, note why."""
        if step in self.refused:
            self.errors[step] = f"{JOB}: {self.refused[step]}"
            return False
        return self.asking is None or self.asking.prepare(step)

    def _go_on(self, step: int) -> None:
        """Start further items of a map. If they cannot start any more, it fails once its runs have ended."""
        if self.room and self._count_startable(step) > 0 and self._can_start(step):
            self._start_items(step)

    def _start_items(self, step: int) -> None:
        """Start as many items of a map as there is room for."""
        count = min(self._count_startable(step), self.room)
        if count <= 0:
            return
        before = self.maps[step]
        items: Sequence[int] = range(before.started, before.started + count)
        state = before.start(count)
        if step in self.taken:
            state, items = before.start_around(count, self.taken[step])
        if self.asking is None or self.asking.prepare_items(step, items):
            self.maps[step] = state
            self.items |= {step: items} if items else {}
            self.room -= len(items)

    def _open_maps(self) -> list[int]:
        return [step for step in self.maps if self.steps[step] == _LIVE]

    def _count_startable(self, step: int) -> int:
        if step in self.errors:
            return 0
        return count_startable(self.plan.maps[step], self.maps[step])

    def stop(self, phase: FlowPhase) -> tuple[int, ...]:
        """Keep from starting what has not started. Return the steps whose live runs are to be cancelled."""
        self.phase = phase
        stopped = [*find_all(self.steps, _READY), *find_all(self.steps, _SUSPENDED)]
        for step in stopped:
            self.steps[step] = _CANCELLED
        ended = self._end_maps()
        cancels = tuple(find_all(self.steps, _LIVE))
        self.judge_children([*stopped, *ended])
        return cancels

    def _end_maps(self) -> list[int]:
        """Give the maps their status of which nothing is live, nor will be, and return them."""
        is_stopping = self.phase.is_stopping
        ended = [
            step
            for step in self._open_maps()
            if not self.maps[step].live and (is_stopping or not self._count_startable(step))
        ]
        for step in ended:
            state = self.maps[step]
            is_unwell = step in self.errors or is_exceeded(self.plan.maps[step], state)
            if is_stopping:
                self.steps[step] = _CANCELLED if is_unwell or state.started < state.count else _SUCCEEDED
            else:
                self.steps[step] = _FAILED if is_unwell else _SUCCEEDED
        self.ended += ended
        return ended

    def count_live(self) -> int:
        """Return how many runs have not ended, those included that are made."""
        return self.steps.count(_LIVE) + sum(self.maps[step].live - 1 for step in self._open_maps())

    def goes_on(self) -> bool:
        """Say whether there is more to start."""
        return _READY in self.steps or (
            not self.phase.is_stopping and any(self._count_startable(step) > 0 for step in self._open_maps())
        )
