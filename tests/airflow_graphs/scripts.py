"""Every way in which a run of a graph can go, and the orders in which its tasks may end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import TypeAlias

from tests.airflow_graphs.dags import Dag, End, Task
from tests.airflow_graphs.oracle import Oracle, Order, Place

Script: TypeAlias = Mapping[Place, End]
"""How each task instance ends that runs. What it does not name ends as its task does at best."""


def all_scripts(
    dag: Dag, *, varied: frozenset[str] | None = None, most_troubles: int | None = None
) -> Iterator[Script]:
    """Yield all combinations of the ends of those that run, each once.

    Ends of tasks that do not run in a combination make no further combinations.

    Args:
        varied: the tasks whose ends are varied; None is all.
        most_troubles: how many of those that run may end otherwise than at best; None is as many as there are.
    """
    waiting: list[tuple[dict[Place, End], int]] = [({}, 0)]
    while waiting:
        given, troubles = waiting.pop()
        script = dict(given)

        def choose(task: Task, item: int, script: dict[Place, End] = script, troubles: int = troubles) -> End:
            place = (task.name, item)
            if place not in script:
                if (varied is None or task.name in varied) and (
                    most_troubles is None or troubles < most_troubles
                ):
                    waiting.extend(({**script, place: end}, troubles + 1) for end in task.ends[1:])
                script[place] = task.ends[0]
            return script[place]

        Oracle(dag, choose).play(forward)
        yield script


def by_section(*sections: str) -> Callable[[Dag], Iterator[Script]]:
    """Return what varies the ends of one section at a time. Sections are apart; each is one text that names tasks."""

    def scripts(dag: Dag) -> Iterator[Script]:
        for section in sections:
            yield from all_scripts(dag, varied=frozenset(section.split()))

    return scripts


def end_of(script: Script, task: Task, item: int) -> End:
    """Return how an instance ends."""
    return script.get((task.name, item), task.ends[0])


def forward(running: Sequence[Place]) -> Sequence[Place]:
    """Let the first end next."""
    return running[:1]


def backward(running: Sequence[Place]) -> Sequence[Place]:
    """Let the last end next."""
    return running[-1:]


def together(running: Sequence[Place]) -> Sequence[Place]:
    """Let all end at once."""
    return running


def by_chance(running: Sequence[Place]) -> Sequence[Place]:
    """Let some end at once, by chance. It is the same for the same ones."""
    chance = Random(repr(running))
    return chance.sample(list(running), chance.randint(1, len(running)))


ORDERS: tuple[Order, ...] = (forward, backward, together, by_chance)
"""The orders in which each script is played."""
