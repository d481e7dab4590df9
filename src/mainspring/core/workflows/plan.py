"""A workflow as its turns need it: by place instead of by name. It is made once for each version of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

from mainspring.core.values import value
from mainspring.core.workflows.expressions import VALUES, Expression, GivenPayload
from mainspring.core.workflows.graph import Graph
from mainspring.core.workflows.maps import StepMap
from mainspring.core.workflows.model import Workflow
from mainspring.core.workflows.rules import StepRule
from mainspring.core.workflows.state import StepStatus
from mainspring.core.workflows.waits import StepWait

Statuses = Sequence[int]
"""The status of each step, as a byte."""
_NOT_STARTED = frozenset({StepStatus.WAITING, StepStatus.READY})


@value()
class FlowPlan:
    """A workflow's graph, with what else its turns look up for a step.

    Attributes:
        following: the ranks of each step's children, lowest first. A step's rank is its place in the graph's order.
        rules: of each step.
        pick: for each step what returns the statuses of its parents. It has none, one, or several.
        may_fail: which steps may fail without making the workflow fail.
        jobs: by step, the names of the jobs that steps run.
        maps: by step, for which items steps run that do not run once.
        overs: of the maps whose items are made, what makes them.
        waits: by step, what steps wait for that run nothing.
        at_end: which steps run once all others have ended. Undos are among them.
        undoes: of the undos, the steps that they undo.
        undo_of: the other way round.
        places: of the steps, by name.
        when: of the steps that have one, the expression.
        given: of the steps whose payload is made, what makes it.
        made: of the steps whose wait names an expression, that.
        result: makes the workflow's result; None if it has none.
        asks: whether its turns evaluate anything.
        users: of the steps whose results or errors expressions name, the steps that name them.
    """

    workflow: Workflow
    graph: Graph
    following: tuple[tuple[int, ...], ...]
    rules: tuple[StepRule, ...]
    pick: tuple[Callable[[Statuses], bytes], ...]
    may_fail: tuple[bool, ...]
    jobs: Mapping[int, str]
    maps: Mapping[int, StepMap]
    overs: Mapping[int, Expression]
    waits: Mapping[int, StepWait]
    at_end: tuple[bool, ...]
    undoes: Mapping[int, int]
    undo_of: Mapping[int, int]
    places: Mapping[str, int]
    when: Mapping[int, Expression]
    given: Mapping[int, GivenPayload]
    made: Mapping[int, Expression]
    result: Expression | None
    users: Mapping[int, tuple[int, ...]]
    asks: bool

    def keeps(self, step: int, statuses: Statuses) -> bool:
        """Say whether somebody may still ask for the result or error of a step that has ended."""
        users = self.users.get(step)
        if users is None:
            return False
        name = self.workflow.steps[step].name
        if self.result is not None and name in self.result.steps:
            return True
        return any(statuses[user] in _NOT_STARTED or self._has_items(user, statuses) for user in users)

    def _has_items(self, step: int, statuses: Statuses) -> bool:
        """Say whether items of a step may be yet to start, which get what expressions make."""
        return step in self.maps and statuses[step] == StepStatus.LIVE

    @classmethod
    def of(cls, workflow: Workflow) -> FlowPlan:
        """Make the plan of a workflow that was checked when it was defined."""
        places = {step.name: place for place, step in enumerate(workflow.steps)}
        graph = Graph.of([[places[name] for name in step.after] for step in workflow.steps])
        at_end = tuple(step.at_end or step.undoes is not None for step in workflow.steps)
        undoes = {
            place: places[step.undoes] for place, step in enumerate(workflow.steps) if step.undoes is not None
        }
        if any(at_end):
            graph = graph.put_last(at_end)
        when = {place: Expression(step.when) for place, step in enumerate(workflow.steps) if step.when}
        given = {
            place: GivenPayload.of(step.given) for place, step in enumerate(workflow.steps) if step.given
        }
        waits, made = _find_waits(workflow)
        maps = {place: step.map for place, step in enumerate(workflow.steps) if step.map is not None}
        overs = {step: Expression(own.over) for step, own in maps.items() if isinstance(own.over, str)}
        result = None if workflow.result is None else Expression(workflow.result)
        ranks = {step: rank for rank, step in enumerate(graph.order)}
        return cls(
            workflow=workflow,
            graph=graph,
            following=tuple(tuple(sorted(ranks[child] for child in each)) for each in graph.children),
            rules=tuple(step.rule for step in workflow.steps),
            pick=tuple(map(_picker, graph.parents)),
            may_fail=tuple(step.allow_failure for step in workflow.steps),
            jobs={place: step.job for place, step in enumerate(workflow.steps) if step.job is not None},
            maps=maps,
            overs=overs,
            waits=waits,
            at_end=at_end,
            undoes=undoes,
            undo_of={step: undo for undo, step in undoes.items()},
            places=places,
            when=when,
            given=given,
            made=made,
            result=result,
            users=_find_users(places, [*when.items(), *overs.items(), *made.items()], given, result),
            asks=bool(when or overs or given or made) or result is not None,
        )


def find_roots(plan: FlowPlan) -> list[int]:
    """Return the ranks of the steps with which a flow begins, lowest first: those without parents."""
    parents, order = plan.graph.parents, enumerate(plan.graph.order)
    return [rank for rank, step in order if not (parents[step] or plan.at_end[step])]


def find_last(plan: FlowPlan) -> list[int]:
    """Return the ranks of the steps at the end, lowest first."""
    return [rank for rank, step in enumerate(plan.graph.order) if plan.at_end[step]]


def _find_waits(workflow: Workflow) -> tuple[dict[int, StepWait], dict[int, Expression]]:
    """Return what steps wait for, and what makes it where an expression does."""
    waits = {place: step.wait for place, step in enumerate(workflow.steps) if step.wait is not None}
    made = {place: Expression(wait.made.text) for place, wait in waits.items() if wait.made is not None}
    return waits, made


def _find_users(
    places: Mapping[str, int],
    alone: Sequence[tuple[int, Expression]],
    given: Mapping[int, GivenPayload],
    result: Expression | None,
) -> dict[int, tuple[int, ...]]:
    """Return which steps ask for the result or error of which. What only the workflow asks for has no users."""
    asked = [*alone]
    asked += [(step, one) for step, made in given.items() for one in made.expressions]
    found: dict[int, dict[int, None]] = {}
    for step, one in asked:
        for use in one.uses:
            if use.field in VALUES:
                found.setdefault(places[use.step], {})[step] = None
    for use in () if result is None else result.uses:
        if use.field in VALUES:
            found.setdefault(places[use.step], {})
    return {step: tuple(users) for step, users in found.items()}


def _picker(parents: Sequence[int]) -> Callable[[Statuses], bytes]:
    if len(parents) > 1:
        several = itemgetter(*parents)
        return lambda statuses: bytes(several(statuses))
    return lambda statuses: bytes([statuses[parent] for parent in parents])
