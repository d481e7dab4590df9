"""What a workflow's expressions name, and the values that they get for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeAlias

from mainspring.core.expressions import ExpressionError, PathUse, find_paths
from mainspring.core.fields import decode_payload
from mainspring.core.values import value
from mainspring.core.workflows.maps import MapState

STEPS = "steps"
ROOTS = frozenset({"input", "run"})
"""The names that every expression knows, besides those of steps."""
ITEM = frozenset({"item", "index"})
"""The names that it knows besides, for one of the items of a map: the item, and its place from 0 on."""
VALUES = ("result", "error")
"""What an expression may ask of a step that runs once, and of which the step's run tells."""
COUNTS = ("succeeded", "failed")
"""What it may ask of a map: how many of its items have ended so."""
FIELDS = ("status", *VALUES, *COUNTS)
"""What an expression may ask of a step."""
MARK = "cel"
"""The field of an object that stands for what an expression makes."""


@value()
class StepUse:
    """That an expression asks something of a step.

    Attributes:
        name: as the expression has it: `steps.load.result`.
    """

    name: str
    step: str
    field: str


class Expression:
    """An expression, and what it names.

    Attributes:
        text: as it was written.
        uses: what it asks of steps.
    """

    __slots__ = ("__dict__", "text", "uses")

    def __init__(self, text: str) -> None:
        self.text: str = text
        found = {use: None for path in find_paths(text) if (use := step_use(path)) is not None}
        self.uses: tuple[StepUse, ...] = tuple(found)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names for which it is compiled."""
        return ROOTS.union(use.name for use in self.uses)

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps that it names."""
        return tuple(dict.fromkeys(use.step for use in self.uses))

    @cached_property
    def asks_item(self) -> bool:
        """Whether it makes something else for each item of a map."""
        return any(path.parts[0] in ITEM for path in find_paths(self.text))

    @cached_property
    def path(self) -> tuple[str, tuple[str, ...]] | None:
        """The name and the fields that follow it, if it is nothing else. Then the value passes exactly as it is."""
        found = next(find_paths(self.text), None)
        if found is None or ".".join(found.parts) != "".join(self.text.split()):
            return None
        length = 3 if found.parts[0] == STEPS else 1
        name = ".".join(found.parts[:length])
        return (name, found.parts[length:]) if name in self.names | ITEM else None


def follow(value: object, fields: Sequence[str]) -> object:
    """Return what fields of objects lead to.

    Raises:
        ExpressionError: one of them is not there.
    """
    for field in fields:
        if not isinstance(value, dict):
            raise ExpressionError(f"there is no {field!r} in what is no object")
        if field not in value:
            raise ExpressionError(f"there is no {field!r} in the object")
        value = value[field]
    return value


def step_use(path: PathUse) -> StepUse | None:
    """Return what a path asks of a step; None if it is none of a step, or asks for what there is not."""
    if len(path.parts) < 3 or path.parts[0] != STEPS or path.parts[2] not in FIELDS:
        return None
    return StepUse(".".join(path.parts[:3]), path.parts[1], path.parts[2])


@value()
class GivenPayload:
    """What a step's target gets.

    Attributes:
        whole: makes all of it; None if it is made field by field.
        fields: by name, what makes each of them: an expression, or the value itself.
    """

    whole: Expression | None
    fields: Mapping[str, Any]

    @classmethod
    def of(cls, text: bytes) -> GivenPayload:
        """Return what the JSON of a step's `with` means."""
        plain = decode_payload(text)
        if is_expression(plain):
            return cls(Expression(plain[MARK]), {})
        return cls(
            None,
            {name: Expression(one[MARK]) if is_expression(one) else one for name, one in plain.items()},
        )

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """Those that make it."""
        if self.whole is not None:
            return (self.whole,)
        return tuple(one for one in self.fields.values() if isinstance(one, Expression))

    @property
    def asks_item(self) -> bool:
        """Whether it is another payload for each item of a map."""
        return any(one.asks_item for one in self.expressions)

    def make(self, evaluate: Callable[[Expression], object]) -> object:
        """Return what the target gets."""
        if self.whole is not None:
            return evaluate(self.whole)
        return {
            name: evaluate(one) if isinstance(one, Expression) else one for name, one in self.fields.items()
        }


def is_expression(plain: object) -> bool:
    """Say whether a value stands for what an expression makes."""
    return isinstance(plain, Mapping) and len(plain) == 1 and isinstance(plain.get(MARK), str)


@value()
class Scope:
    """What an expression is evaluated by.

    Attributes:
        statuses: the present status of each step.
        errors: why steps have failed without a run.
        maps: how far the maps have come.
        item: of a map, the item's place and the item; None: it is not asked for one of them.
    """

    statuses: Sequence[int]
    errors: Mapping[int, str]
    maps: Mapping[int, MapState]
    item: tuple[int, object] | None = None

    def of_item(self, place: int, item: object) -> Scope:
        """Return that of one of the items of a map."""
        return replace(self, item=(place, item))


Evaluate: TypeAlias = Callable[[Expression, Scope], object]
"""Evaluates an expression.

It raises `ExpressionError` if the expression has no value. What else it raises ends the turn undecided.
"""
