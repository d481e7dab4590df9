"""What a turn asks expressions: whether a step runs, what it gets, and what the workflow returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from mainspring.core.expressions import ExpressionError
from mainspring.core.fields import MAX_PAYLOAD, decode_payload, encode_payload
from mainspring.core.workflows.expressions import Evaluate, Expression, Scope
from mainspring.core.workflows.maps import MOST_ITEMS, MapState
from mainspring.core.workflows.places import NO_ITEM
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.state import StepStatus

_READY, _SKIPPED, _FAILED = map(int, (StepStatus.READY, StepStatus.SKIPPED, StepStatus.FAILED))


class Asking:
    """Asks the expressions of a workflow in one turn, and notes what they make.

    Args:
        steps, ended, errors, maps: those of the turn (`Draft`); it adds to the second and the third.

    Attributes:
        payloads: what the targets of starting steps get, where it was made, by step and item.
    """

    def __init__(
        self,
        plan: FlowPlan,
        steps: bytearray,
        ended: list[int],
        errors: dict[int, str],
        maps: Mapping[int, MapState],
        evaluate: Evaluate,
    ) -> None:
        self._plan = plan
        self._ended = ended
        self._errors = errors
        self._evaluate = evaluate
        self._scope = Scope(steps, errors, maps)
        self._items: dict[int, list[object]] = {}
        self.payloads: dict[tuple[int, int], bytes] = {}

    def judge(self, step: int) -> int:
        """Return the status of a step of which the rule has said that it runs."""
        when = self._plan.when.get(step)
        if when is None:
            return _READY
        try:
            made = self.ask(when)
            if not isinstance(made, bool):
                raise ExpressionError(f"makes {_kind(made)}, and not true or false")
        except ExpressionError as error:
            self._errors[step] = f"when: {error}"
            self._ended.append(step)
            return _FAILED
        return _READY if made else _SKIPPED

    def prepare(self, step: int) -> bool:
        """Make what a step gets that starts now. Return whether it can start; it fails if not."""
        given = self._plan.given.get(step)
        if given is None or self._is_of_items(step):
            return True
        try:
            self.payloads[step, NO_ITEM] = _encode(given.make(self.ask))
        except ExpressionError as error:
            self._errors[step] = f"with: {error}"
            return False
        return True

    def _is_of_items(self, step: int) -> bool:
        """Say whether what a step gets is made anew for each of its items."""
        given = self._plan.given.get(step)
        return given is not None and step in self._plan.maps and given.asks_item

    def find_items(self, step: int) -> int | None:
        """Return how many items a map has; None if that cannot be told, for which it fails.

        What steps have returned does not change, so each turn finds the same items.
        """
        if step not in self._items:
            try:
                self._items[step] = self._make_items(step)
            except ExpressionError as error:
                self._errors[step] = f"map.over: {error}"
                return None
        return len(self._items[step])

    def _make_items(self, step: int) -> list[object]:
        over = self._plan.overs.get(step)
        if over is None:
            texts = self._plan.maps[step].over
            assert not isinstance(texts, str), "it would be in `overs`"
            return [decode_payload(text) for text in texts] if self._is_of_items(step) else [*texts]
        made = self.ask(over)
        if not isinstance(made, list):
            raise ExpressionError(f"makes {_kind(made)}, and not a list")
        if len(made) > MOST_ITEMS:
            raise ExpressionError(f"makes {len(made)} items; at most {MOST_ITEMS} fit")
        return made

    def prepare_items(self, step: int, items: Sequence[int]) -> bool:
        """Make what these items of a map get. Return whether they can start; the step fails if not."""
        given = self._plan.given.get(step)
        is_made = given is not None and self._is_of_items(step)
        if not is_made and step not in self._plan.overs:
            return True
        count = self.find_items(step)
        if count is None:
            return False
        made: dict[tuple[int, int], bytes] = {}
        for place in items:
            try:
                one = self._items[step][place]
                if given is not None and is_made:
                    one = given.make(partial(self.ask, scope=self._scope.of_item(place, one)))
                made[step, place] = _encode(one)
            except ExpressionError as error:
                self._errors[step] = f"{'with' if is_made else 'map.over'}: item {place}: {error}"
                return False
        self.payloads |= made
        return True

    def make_result(self) -> bytes | None:
        """Return what the workflow returns; None if it returns nothing.

        Raises:
            ExpressionError: it cannot be made.
        """
        return None if self._plan.result is None else _encode(self.ask(self._plan.result))

    def ask(self, expression: Expression, *, scope: Scope | None = None) -> object:
        """Return what an expression makes.

        Raises:
            ExpressionError: it makes nothing.
        """
        return self._evaluate(expression, self._scope if scope is None else scope)


def ask_for(
    plan: FlowPlan,
    steps: bytearray,
    ended: list[int],
    errors: dict[int, str],
    maps: Mapping[int, MapState],
    evaluate: Evaluate | None,
) -> Asking | None:
    """Return what asks the workflow's expressions in a turn; None if it has none.

    Raises:
        ValueError: it has some, and nothing evaluates them.
    """
    if not plan.asks:
        return None
    if evaluate is None:
        raise ValueError("the workflow has expressions, and nothing evaluates them")
    return Asking(plan, steps, ended, errors, maps, evaluate)


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
