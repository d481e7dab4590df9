"""A workflow as its turns need it: by place instead of by name. It is made once for each version of a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter

from mainspring.core.workflows.graph import Graph
from mainspring.core.workflows.model import Workflow
from mainspring.core.workflows.rules import StepRule

Statuses = Sequence[int]
"""The status of each step, as a byte."""


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """A workflow's graph, with what else its turns look up for a step.

    Attributes:
        following: the ranks of each step's children, lowest first. A step's rank is its place in the graph's order.
        rules: of each step.
        pick: for each step what returns the statuses of its parents. It has none, one, or several.
        may_fail: which steps may fail without making the workflow fail.
        at_end: which steps run once all others have ended.
    """

    workflow: Workflow
    graph: Graph
    following: tuple[tuple[int, ...], ...]
    rules: tuple[StepRule, ...]
    pick: tuple[Callable[[Statuses], bytes], ...]
    may_fail: tuple[bool, ...]
    at_end: tuple[bool, ...]

    @classmethod
    def of(cls, workflow: Workflow) -> FlowPlan:
        """Make the plan of a workflow that was checked when it was defined."""
        places = {step.name: place for place, step in enumerate(workflow.steps)}
        graph = Graph.of([[places[name] for name in step.after] for step in workflow.steps])
        at_end = tuple(step.at_end for step in workflow.steps)
        if any(at_end):
            graph = graph.put_last(at_end)
        ranks = {step: rank for rank, step in enumerate(graph.order)}
        return cls(
            workflow=workflow,
            graph=graph,
            following=tuple(tuple(sorted(ranks[child] for child in each)) for each in graph.children),
            rules=tuple(step.rule for step in workflow.steps),
            pick=tuple(map(_picker, graph.parents)),
            may_fail=tuple(step.allow_failure for step in workflow.steps),
            at_end=at_end,
        )


def find_roots(plan: FlowPlan, *, at_end: bool) -> list[int]:
    """Return the ranks of the steps without parents, lowest first: of those at the end, or of the others."""
    parents = plan.graph.parents
    order = enumerate(plan.graph.order)
    return [rank for rank, step in order if not parents[step] and plan.at_end[step] is at_end]


def _picker(parents: Sequence[int]) -> Callable[[Statuses], bytes]:
    if len(parents) > 1:
        several = itemgetter(*parents)
        return lambda statuses: bytes(several(statuses))
    return lambda statuses: bytes([statuses[parent] for parent in parents])
