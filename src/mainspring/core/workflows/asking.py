"""What a turn asks expressions: whether a step runs, what it gets, and what the workflow returns."""

from __future__ import annotations

from collections.abc import Iterable

from mainspring.core.expressions import ExpressionError
from mainspring.core.fields import MAX_PAYLOAD, encode_payload
from mainspring.core.workflows.expressions import Evaluate, Expression
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.state import StepStatus

_READY, _SKIPPED, _FAILED = map(int, (StepStatus.READY, StepStatus.SKIPPED, StepStatus.FAILED))


class Asking:
    """Asks the expressions of a workflow in one turn, and notes what they make.

    Attributes:
        errors: why steps have failed without a run, in this turn and before.
        failed: the steps that have failed so in this turn, in that order.
        payloads: what the targets of starting steps get, where it was made.
    """

    def __init__(
        self, plan: FlowPlan, steps: bytearray, errors: Iterable[tuple[int, str]], evaluate: Evaluate
    ) -> None:
        self._plan = plan
        self._steps = steps
        self._evaluate = evaluate
        self.errors: dict[int, str] = dict(errors)
        self.failed: list[int] = []
        self.payloads: dict[int, bytes] = {}

    def judge(self, step: int) -> int:
        """Return the status of a step of which the rule has said that it runs."""
        when = self._plan.when.get(step)
        if when is None:
            return _READY
        try:
            made = self._ask(when)
            if not isinstance(made, bool):
                raise ExpressionError(f"makes {_kind(made)}, and not true or false")
        except ExpressionError as error:
            return self._fail(step, "when", error)
        return _READY if made else _SKIPPED

    def prepare(self, step: int) -> bool:
        """Make what a step gets that starts now. Return whether it can start; it has failed if not."""
        given = self._plan.given.get(step)
        if given is None:
            return True
        try:
            self.payloads[step] = _encode(given.make(self._ask))
        except ExpressionError as error:
            self._steps[step] = self._fail(step, "with", error)
            return False
        return True

    def make_result(self) -> bytes | None:
        """Return what the workflow returns; None if it returns nothing.

        Raises:
            ExpressionError: it cannot be made.
        """
        return None if self._plan.result is None else _encode(self._ask(self._plan.result))

    def _ask(self, expression: Expression) -> object:
        return self._evaluate(expression, self._steps, self.errors)

    def _fail(self, step: int, option: str, error: ExpressionError) -> int:
        self.failed.append(step)
        self.errors[step] = f"{option}: {error}"
        return _FAILED

    def sort_errors(self) -> tuple[tuple[int, str], ...]:
        """Return the errors as a flow's state has them."""
        return tuple(sorted(self.errors.items()))


def ask_for(
    plan: FlowPlan, steps: bytearray, errors: Iterable[tuple[int, str]], evaluate: Evaluate | None
) -> Asking | None:
    """Return what asks the workflow's expressions in a turn; None if it has none.

    Raises:
        ValueError: it has some, and nothing evaluates them.
    """
    if not plan.asks:
        return None
    if evaluate is None:
        raise ValueError("the workflow has expressions, and nothing evaluates them")
    return Asking(plan, steps, errors, evaluate)


def _encode(made: object) -> bytes:
    try:
        text = encode_payload(made)
    except (ValueError, RecursionError) as error:
        raise ExpressionError(f"makes what is no JSON: {error}") from None
    if len(text) > MAX_PAYLOAD:
        raise ExpressionError(f"makes {len(text)} bytes; at most {MAX_PAYLOAD} fit, pass an artifact instead")
    return text


def _kind(made: object) -> str:
    names = {str: "text", dict: "an object", list: "a list", type(None): "null"}
    return names.get(type(made), "a number")
