"""The graph of a workflow's steps: cycles, order, levels and ancestors. Steps are known by their places, from 0 on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from mainspring.core.values import value

Links = Sequence[Sequence[int]]
"""For each step its parents."""


@value()
class Graph:
    """A graph without cycles.

    Attributes:
        parents: of each step, as they were given.
        children: of each step, in the order of their places.
        levels: of each step: 0 without parents, or else one more than the highest of its parents.
        order: all steps, parents before their children: by level, and within a level by place.
    """

    parents: tuple[tuple[int, ...], ...]
    children: tuple[tuple[int, ...], ...]
    levels: tuple[int, ...]
    order: tuple[int, ...]

    @classmethod
    def of(cls, links: Links) -> Graph:
        """Make the graph of these links.

        Raises:
            CycleError: they have a cycle.
        """
        children: list[list[int]] = [[] for _ in links]
        levels = [0] * len(links)
        for step in TopologicalSorter(dict(enumerate(links))).static_order():
            levels[step] = max([levels[parent] + 1 for parent in links[step]], default=0)
        for step, parents in enumerate(links):
            for parent in parents:
                children[parent].append(step)
        return cls(
            parents=tuple(map(tuple, links)),
            children=tuple(map(tuple, children)),
            levels=tuple(levels),
            order=tuple(sorted(range(len(links)), key=levels.__getitem__)),
        )

    def put_last(self, last: Sequence[bool]) -> Graph:
        """Return the same graph, with some steps on levels behind those of all others. None of these is their child."""
        behind = (
            max([level for level, is_last in zip(self.levels, last, strict=True) if not is_last], default=-1)
            + 1
        )
        levels = tuple([level + behind * is_last for level, is_last in zip(self.levels, last, strict=True)])
        order = tuple(sorted(range(len(levels)), key=levels.__getitem__))
        return replace(self, levels=levels, order=order)

    def ancestors(self, step: int) -> frozenset[int]:
        """Return all steps that end before this one can start: its parents, theirs, and so on."""
        found: set[int] = set()
        waiting = [*self.parents[step]]
        while waiting:
            parent = waiting.pop()
            if parent not in found:
                found.add(parent)
                waiting += self.parents[parent]
        return frozenset(found)


def find_cycles(links: Links, most: int) -> Iterator[tuple[int, ...]]:
    """Yield up to so many cycles that have no step in common, each from its first step by place on.

    The steps of a cycle follow one another, and the first follows the last.
    """
    left = {step: list(parents) for step, parents in enumerate(links)}
    for _ in range(most):
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            cycle: list[int] = error.args[1][:-1]
            begin = cycle.index(min(cycle))
            yield (*cycle[begin:], *cycle[:begin])
            for step in cycle:
                left[step] = []
        else:
            return
