"""The values that a flow's expressions get: the run's input, and what its steps have returned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mainspring.core.ciphertexts import is_encrypted_bytes
from mainspring.core.fields import decode_payload
from mainspring.core.ids import format_run_id
from mainspring.core.model import JobSpec, Run
from mainspring.core.states import RunState
from mainspring.core.workflows.expressions import COUNTS, Expression, Scope, StepUse, follow
from mainspring.core.workflows.maps import MapState
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.state import StepStatus, UnreadableFlow
from mainspring.engine.workflows.step_runs import FlowFacts
from mainspring.errors import MissingExtra
from mainspring.ports.expressions import Expressions
from mainspring.ports.store.flows import FlowValue

_WORDS = {status: status.name.lower() for status in StepStatus}
_HAVING_VALUES = {"result": StepStatus.SUCCEEDED, "error": StepStatus.FAILED}


class NeedsValues(Exception):
    """A turn needs what steps have returned, and that has not been read yet.

    Attributes:
        steps: their places.
    """

    def __init__(self, steps: Iterable[int]) -> None:
        super().__init__()
        self.steps: tuple[int, ...] = tuple(steps)


class FlowValues:
    """Evaluates the expressions of one flow, as a turn asks for it.

    Args:
        attempt: the number of the attempt of the workflow's run.

    Attributes:
        known: what steps have returned, or why they have failed, by their places; None for those that left nothing.
    """

    def __init__(
        self,
        expressions: Expressions | None,
        plan: FlowPlan,
        spec: JobSpec,
        facts: FlowFacts,
        *,
        attempt: int,
    ) -> None:
        self._expressions = expressions
        self._plan = plan
        self._input = spec.payload if facts.payload is None else facts.payload
        self._run = {
            "id": format_run_id(facts.run_id),
            "job": spec.name,
            "attempt": attempt,
            "fire_at": None if facts.fire_at is None else facts.fire_at.isoformat().replace("+00:00", "Z"),
        }
        self.known: dict[int, bytes | None] = {}
        self._decoded: dict[str, object] = {}

    def __call__(self, expression: Expression, scope: Scope) -> object:
        """Return what an expression makes. See `core.workflows.expressions.Evaluate`.

        Raises:
            ExpressionError: it makes nothing.
            NeedsValues: what it names is to be read first.
            UnreadableFlow: this program cannot evaluate it, or not decrypt what it gets.
        """
        values = self._values_of(expression, scope)
        if expression.path is not None and expression.path[0] in values:
            name, fields = expression.path
            return follow(values[name], fields)
        if self._expressions is None:
            raise UnreadableFlow("this program evaluates no expressions")
        try:
            program = self._expressions.compile(expression.text, expression.names.union(values))
        except MissingExtra as error:
            raise UnreadableFlow(str(error)) from None
        return program.evaluate(values)

    def _values_of(self, expression: Expression, scope: Scope) -> dict[str, object]:
        errors = scope.errors
        uses = [
            (use, place, scope.statuses[place])
            for use in expression.uses
            for place in [self._plan.places[use.step]]
        ]
        missing = {
            place: None
            for use, place, status in uses
            if status == _HAVING_VALUES.get(use.field) and place not in self.known and place not in errors
        }
        if missing:
            raise NeedsValues(missing)
        values: dict[str, object] = {"run": self._run, "input": self._decode("input", self._input)}
        if scope.item is not None:
            values["index"], values["item"] = scope.item
        for use, place, status in uses:
            if use.field == "status":
                values[use.name] = _WORDS[StepStatus(status)]
            elif use.field in COUNTS:
                values[use.name] = _count(use, scope.maps.get(place))
            elif status != _HAVING_VALUES[use.field]:
                values[use.name] = None
            elif place in errors:
                values[use.name] = errors[place]
            else:
                values[use.name] = self._read(use, self.known[place])
        return values

    def _read(self, use: StepUse, left: bytes | None) -> object:
        return self._decode(use.name, left) if use.field == "result" or left is None else left.decode()

    def _decode(self, name: str, text: bytes | None) -> object:
        """Return what JSON text stands for. It is read once, and only where somebody asks."""
        if text is None:
            return None
        if is_encrypted_bytes(text):
            raise UnreadableFlow(f"{name} cannot be decrypted here, and an expression asks for it")
        if name not in self._decoded:
            self._decoded[name] = decode_payload(text)
        return self._decoded[name]


def _count(use: StepUse, state: MapState | None) -> int:
    """Return how many items of a map have ended in the way that is asked for. One that has not begun has none."""
    return 0 if state is None else state.succeeded if use.field == "succeeded" else state.failed


def value_of(run: Run | None) -> bytes | None:
    """Return what a step's run has left for expressions: its result, or its error; None if it left nothing."""
    if run is None:
        return None
    if run.state is RunState.SUCCEEDED:
        return run.result
    return None if run.error is None else run.error.encode()


def values_to_keep(
    plan: FlowPlan, steps: Sequence[int], known: Mapping[int, bytes | None], fresh: Iterable[int]
) -> tuple[FlowValue, ...]:
    """Return those of the values read in this turn that later turns may ask for.

    Args:
        steps: the new status of each step.
        fresh: the steps that have ended in this turn.
    """
    found: list[FlowValue] = []
    for step in fresh:
        value = known.get(step)
        if value is not None and plan.keeps(step, steps):
            found.append(FlowValue(step, value))
    return tuple(found)
