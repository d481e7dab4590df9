"""A graph as a workflow of Mainspring, and what its turns make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mainspring.core.definition.workflows import plain_from_workflow, read_workflow
from mainspring.core.states import RunState
from mainspring.core.workflows.expressions import Expression, Scope
from mainspring.core.workflows.mail import StepEnded
from mainspring.core.workflows.places import NO_ITEM
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.state import StepStatus
from mainspring.core.workflows.turn import begin_flow, turn
from mainspring.expressions.cel import CelExpressions
from tests.airflow_graphs.dags import SKIPPED, Dag, State
from tests.airflow_graphs.oracle import UNMAPPED, Order, Place
from tests.airflow_graphs.scripts import Script, end_of

_STATES = {
    State.SUCCESS: RunState.SUCCEEDED,
    State.FAILED: RunState.FAILED,
    State.SKIPPED: RunState.SUCCEEDED,  # no run skips itself: it returns what it has not found
}
_CEL = CelExpressions()
_NOW = datetime(2026, 1, 5, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a workflow went.

    Attributes:
        ends: of all steps.
        ran: the steps that had a run, or the items of a step for which it had one.
        state: of the run as a whole.
    """

    ends: Mapping[str, StepStatus]
    ran: frozenset[Place]
    state: RunState


class Ours:
    """A workflow, read as users write it."""

    def __init__(self, steps: Sequence[Mapping[str, Any]]) -> None:
        workflow = read_workflow({"steps": list(steps)}, compile_=_CEL.compile)
        self.plain = plain_from_workflow(workflow)
        self._plan = FlowPlan.of(workflow)
        self.names = [step.name for step in workflow.steps]

    def play(self, dag: Dag, script: Script, order: Order) -> Outcome:
        """Run the workflow, with the steps ending as the tasks of the same names do."""
        evaluate = _Values(self.names, script)
        decided = begin_flow(self._plan, now=_NOW, evaluate=evaluate)
        live: list[Place] = []
        ran: set[Place] = set()
        while decided.end is None:
            started = [(self.names[step], UNMAPPED) for step in decided.starts]
            started += [(self.names[step], item) for step, items in decided.items for item in items]
            live += started
            ran.update(started)
            chosen = order(live)
            live = [place for place in live if place not in chosen]
            mails = [self._mail(dag, script, place) for place in chosen]
            decided = turn(self._plan, decided.state, mails, now=_NOW, evaluate=evaluate)
        ends = {name: decided.state.status(step) for step, name in enumerate(self.names)}
        return Outcome(ends, frozenset(ran), decided.end.state)

    def _mail(self, dag: Dag, script: Script, place: Place) -> StepEnded:
        name, item = place
        state = _STATES[end_of(script, dag.by_name[name], item).state]
        return StepEnded(self.names.index(name), state, item=NO_ITEM if item == UNMAPPED else item)


class _Values:
    """What expressions get: what the steps have returned, and as the run's input, which steps are not wanted."""

    def __init__(self, names: Sequence[str], script: Script) -> None:
        self._names = names
        self._script = script
        self._input = {"skip": [name for (name, _), end in script.items() if end == SKIPPED]}

    def __call__(self, expression: Expression, scope: Scope) -> object:
        values: dict[str, object] = {"input": self._input, "run": {}}
        for use in expression.uses:
            status = StepStatus(scope.statuses[self._names.index(use.step)])
            if use.field == "status":
                values[use.name] = status.name.lower()
            else:
                end = self._script.get((use.step, UNMAPPED))
                values[use.name] = end.value if end and status is StepStatus.SUCCEEDED else None
        return _CEL.compile(expression.text, expression.names).evaluate(values)
