"""Graphs in Airflow's own terms, as its documentation has them: tasks, trigger rules, and how a task may end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any


class State(StrEnum):
    """How a task instance has ended."""

    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"
    UPSTREAM_FAILED = "upstream_failed"


class Rule(StrEnum):
    """The trigger rules; the last one is that of every teardown."""

    ALL_SUCCESS = "all_success"
    ALL_FAILED = "all_failed"
    ALL_DONE = "all_done"
    ALL_SKIPPED = "all_skipped"
    ONE_SUCCESS = "one_success"
    ONE_FAILED = "one_failed"
    ONE_DONE = "one_done"
    NONE_FAILED = "none_failed"
    NONE_FAILED_MIN_ONE_SUCCESS = "none_failed_min_one_success"
    NONE_SKIPPED = "none_skipped"
    ALWAYS = "always"
    ALL_DONE_SETUP_SUCCESS = "all_done_setup_success"


@dataclass(frozen=True, slots=True)
class End:
    """One of the ways in which a task that runs may end.

    Attributes:
        value: what its function returns.
        skips: the tasks that it has skipped at once.
        name: what tells it from others of the same task.
    """

    state: State
    value: Any = None
    skips: frozenset[str] = frozenset()
    name: str = ""

    def __str__(self) -> str:
        return self.name or (self.state if self.value is None else f"{self.state} {self.value}")


SUCCESS, FAILED, SKIPPED = End(State.SUCCESS), End(State.FAILED), End(State.SKIPPED)


@dataclass(frozen=True, slots=True)
class Task:
    """A task.

    Attributes:
        after: its direct upstream.
        ends: how it may end when it runs.
        over: how many items it is mapped over; None: it is not mapped.
        is_setup, is_teardown: its part in a scope.
        is_minded: of a teardown, whether its failure is one of the run.
    """

    name: str
    after: tuple[str, ...] = ()
    rule: Rule = Rule.ALL_SUCCESS
    ends: tuple[End, ...] = (SUCCESS, FAILED)
    over: int | None = None
    is_setup: bool = False
    is_teardown: bool = False
    is_minded: bool = False


@dataclass(frozen=True)
class Dag:
    """Tasks, each after its upstream."""

    tasks: tuple[Task, ...]
    by_name: Mapping[str, Task] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {task.name: task for task in self.tasks})

    @cached_property
    def downstream(self) -> Mapping[str, tuple[str, ...]]:
        """Return the names of those directly behind each task."""
        return {
            task.name: tuple(other.name for other in self.tasks if task.name in other.after)
            for task in self.tasks
        }

    @cached_property
    def behind(self) -> Mapping[str, frozenset[str]]:
        """Return the names of all that are behind each task."""
        found: dict[str, frozenset[str]] = {}
        for task in reversed(self.tasks):
            direct = self.downstream[task.name]
            found[task.name] = frozenset(direct).union(*(found[name] for name in direct))
        return found

    @cached_property
    def setups(self) -> tuple[str, ...]:
        """Return the names of the tasks that set something up."""
        return tuple(task.name for task in self.tasks if task.is_setup)

    def scope(self, setup: str) -> frozenset[str]:
        """Return the tasks that need what a setup has set up: those between it and its teardown; all without one."""
        closing = {name for name in self.downstream[setup] if self.by_name[name].is_teardown}
        return frozenset(
            name for name in self.behind[setup] if not closing or closing.intersection(self.behind[name])
        )

    @cached_property
    def leaves(self) -> frozenset[str]:
        """Return the tasks whose states are the run's: those with nothing behind them, teardowns left out."""
        counted = {task.name for task in self.tasks if not task.is_teardown or task.is_minded}
        return frozenset(name for name in counted if not counted.intersection(self.downstream[name]))


def task(name: str, after: str = "", rule: Rule = Rule.ALL_SUCCESS, **fields: Any) -> Task:
    """Make a task. Its upstream is named in one text."""
    return Task(name, tuple(after.split()), rule, **fields)


def branch(name: str, after: str = "", *, choices: Sequence[str], rule: Rule = Rule.ALL_SUCCESS) -> Task:
    """Make a branching task: it follows one of these, and skips the others."""
    ends = [
        End(State.SUCCESS, value=one, skips=frozenset(choices) - {one}, name=f"follows {one}")
        for one in choices
    ]
    return task(name, after, rule, ends=(*ends, FAILED))


def condition(name: str, after: str = "", *, skips: Sequence[str]) -> Task:
    """Make a task that looks whether a condition holds, and if not, skips these."""
    ends = (
        End(State.SUCCESS, value=True),
        End(State.SUCCESS, value=False, skips=frozenset(skips)),
        FAILED,
    )
    return task(name, after, ends=ends)
