"""Adds signatures that were put together to a workflow that has a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mainspring.core.values import value
from mainspring.sdk.canvas_steps import CanvasSteps, check_length
from mainspring.sdk.references import ValueReference
from mainspring.sdk.signatures import Canvas, Signature
from mainspring.sdk.workflow import AppStep


@value()
class AddedSteps:
    """What `AppWorkflow.add` has added.

    Attributes:
        steps: those that end last, for others to wait for.
        result: what they will have returned: a list, if the last of the canvas is a group.
    """

    steps: tuple[AppStep, ...]
    result: ValueReference


def add_canvas(
    steps: list[AppStep],
    canvas: Signature | Canvas,
    after: Sequence[str],
    *,
    check: Callable[[Mapping[str, Any]], None],
) -> AddedSteps:
    """Add the steps of a canvas to those of a workflow.

    Args:
        steps: those that it has. What is added comes behind them, unless something is wrong.
        after: the steps that the first calls wait for.
        check: refuses a step that is wrong by itself.

    Raises:
        InvalidInput: parts do not go together, or a field of a step is wrong.
    """
    made = CanvasSteps([step.name for step in steps], keeps_inputs=False)
    left = made.add(canvas, after)
    result = ValueReference(check_length(left, "result"))
    for body in made.bodies:
        check(body)
    added = {body["name"]: AppStep(body["name"], body) for body in made.bodies}
    steps += added.values()
    return AddedSteps(tuple(added[name] for name in left.steps), result)
