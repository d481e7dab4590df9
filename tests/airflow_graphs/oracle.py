"""What Airflow makes of a graph, task by task: written from its documentation, apart from the code under test.

The scheduler looks at each task that has not begun, again and again, and judges it by the ends that it sees then. So
the order in which tasks end may change what becomes of others, and the oracle is told an order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from tests.airflow_graphs.dags import Dag, End, Rule, State, Task

Place: TypeAlias = tuple[str, int]
"""A task instance: the task's name and the item; `UNMAPPED` if the task is not mapped, or could not be."""
UNMAPPED = -1

Choose: TypeAlias = Callable[[Task, int], End]
"""Says how an instance ends that runs."""
Order: TypeAlias = Callable[[Sequence[Place]], Sequence[Place]]
"""Says which of those that run end next, together."""


class Verdict(Enum):
    """What the scheduler says of a task."""

    WAIT = "wait"
    RUN = "run"
    SKIP = State.SKIPPED
    FAIL = State.UPSTREAM_FAILED


@dataclass(frozen=True, slots=True)
class Story:
    """How a run went.

    Attributes:
        ends: of all instances.
        ran: how those ended that ran.
        is_success: of the run as a whole.
    """

    ends: Mapping[Place, State]
    ran: Mapping[Place, End]
    is_success: bool

    def end_of(self, name: str) -> State:
        """Return how a task has ended; of a mapped one, failed if an instance has."""
        states = [state for (other, _), state in self.ends.items() if other == name]
        return State.FAILED if State.FAILED in states else states[0]

    def tell(self) -> str:
        """Return how those ended that ran, in one line."""
        return ", ".join(f"{name} {end}" for (name, _), end in self.ran.items())


class Oracle:
    """A scheduler that carries out one run."""

    def __init__(self, dag: Dag, choose: Choose) -> None:
        self._dag = dag
        self._choose = choose
        self._waiting = {task.name for task in dag.tasks}
        self._running: dict[Place, End] = {}
        self._ran: dict[Place, End] = {}
        self._open = dict.fromkeys(self._waiting, 0)
        self._ends: dict[str, dict[int, State]] = {task.name: {} for task in dag.tasks}

    def play(self, order: Order) -> Story:
        """Carry out the run."""
        self._schedule(self._waiting)
        while self._running:
            changed: set[str] = set()
            for place in order(list(self._running)):
                changed |= self._finish(place)
            self._schedule(changed)
        ends = {(name, item): state for name, items in self._ends.items() for item, state in items.items()}
        leaves = [state for (name, _), state in ends.items() if name in self._dag.leaves]
        is_success = all(state in {State.SUCCESS, State.SKIPPED} for state in leaves)
        return Story(ends, self._ran, is_success)

    def _finish(self, place: Place) -> set[str]:
        """End an instance. Return the tasks that have changed."""
        name, item = place
        end = self._running.pop(place)
        self._open[name] -= 1
        self._ends[name][item] = end.state
        for other in end.skips:  # at once, whatever the scheduler has said of it before
            assert (other, UNMAPPED) not in self._ran, "what is skipped has not begun"
            self._ends[other][UNMAPPED] = State.SKIPPED
            self._waiting.discard(other)
        return {name, *end.skips}

    def _schedule(self, changed: Collection[str]) -> None:
        """Judge the tasks for which something has changed, and then those for which something follows from that."""
        changed = set(changed)
        for task in self._dag.tasks:
            if task.name not in self._waiting or not (
                task.name in changed or self._dag.setups or changed.intersection(task.after)
            ):
                continue
            verdict = self._judge(task)
            if verdict is Verdict.WAIT:
                continue
            self._waiting.remove(task.name)
            changed.add(task.name)
            if verdict is Verdict.RUN:
                self._start(task)
            else:
                self._ends[task.name][UNMAPPED] = verdict.value

    def _start(self, task: Task) -> None:
        items = [UNMAPPED] if task.over is None else list(range(task.over))
        if not items:
            self._ends[task.name][UNMAPPED] = State.SKIPPED  # a map over nothing
        self._open[task.name] = len(items)
        for item in items:
            place = (task.name, item)
            self._ran[place] = self._running[place] = self._choose(task, item)

    def _judge(self, task: Task) -> Verdict:
        if self._dag.setups and not task.is_teardown:
            verdict = self._judge_scopes(task)
            if verdict is not Verdict.RUN:
                return verdict
        if not task.after or task.rule is Rule.ALWAYS:
            return Verdict.RUN
        setups = [name for name in task.after if self._dag.by_name[name].is_setup]
        return judge(task.rule, self._see(task.after), self._see(setups))

    def _judge_scopes(self, task: Task) -> Verdict:
        """Say what the setups do to a task in whose scopes it is, but not directly behind them."""
        setups = [name for name in self._dag.setups if task.name in self._dag.scope(name)]
        indirect = self._see([name for name in setups if name not in task.after])
        return judge(Rule.ALL_SUCCESS, indirect, indirect)

    def _see(self, names: Iterable[str]) -> Seen:
        """Count how the instances of tasks have ended, and those that have not."""
        ended: list[State] = []
        still_open = 0
        for name in names:
            ended += self._ends[name].values()
            still_open += (name in self._waiting) + self._open[name]
        count = ended.count
        return Seen(
            count(State.SUCCESS),
            count(State.FAILED),
            count(State.UPSTREAM_FAILED),
            count(State.SKIPPED),
            still_open,
        )


class Seen(NamedTuple):
    """How many instances have ended, and how."""

    succeeded: int
    failed_themselves: int
    upstream_failed: int
    skipped: int
    open: int

    @property
    def failed(self) -> int:
        """Those that failed, and those that did not run for that reason."""
        return self.failed_themselves + self.upstream_failed


_WAIT, _RUN, _SKIP, _FAIL = Verdict


def judge(rule: Rule, seen: Seen, setups: Seen) -> Verdict:
    """Return what a trigger rule says of a task whose upstream looks like this now."""
    later = _WAIT if seen.open else None
    match rule:
        case Rule.ALL_SUCCESS:
            return _FAIL if seen.failed else _SKIP if seen.skipped else later or _RUN
        case Rule.ALL_FAILED:
            return _SKIP if seen.succeeded or seen.skipped else later or _RUN
        case Rule.ALL_DONE:
            return later or _RUN
        case Rule.ALL_SKIPPED:
            return _SKIP if seen.succeeded or seen.failed else later or _RUN
        case Rule.ONE_SUCCESS:
            return _RUN if seen.succeeded else later or (_FAIL if seen.failed else _SKIP)
        case Rule.ONE_FAILED:
            return _RUN if seen.failed else later or _SKIP
        case Rule.ONE_DONE:
            ran = seen.succeeded or seen.failed_themselves
            return _RUN if ran else later or _SKIP
        case Rule.NONE_FAILED:
            return _FAIL if seen.failed else later or _RUN
        case Rule.NONE_FAILED_MIN_ONE_SUCCESS:
            return _FAIL if seen.failed else later or (_RUN if seen.succeeded else _SKIP)
        case Rule.NONE_SKIPPED:
            return _SKIP if seen.skipped else later or _RUN
        case Rule.ALL_DONE_SETUP_SUCCESS:
            if later or setups.succeeded or not (setups.failed or setups.skipped):
                return later or _RUN
            return _FAIL if setups.failed else _SKIP
    raise AssertionError(rule)
