"""Workflow: a graph of steps, each with a target of its own. The engine carries it out, no worker does."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from typing import Any, ClassVar

from mainspring.core.expressions import LONGEST, Compile
from mainspring.core.kinds import FreeText, Kind, Schema
from mainspring.core.options import Option, Options, Path
from mainspring.core.targets.base import TargetType
from mainspring.core.times import Duration
from mainspring.core.values import value


@value()
class StepList(Kind):
    """A list of steps. `core.definition.workflows` reads it, because it tells all errors at once."""

    is_nested: ClassVar[bool] = True

    def schema(self) -> Schema:
        """Return a list's schema."""
        from mainspring.core.definition.steps import step_schema  # reads targets, of which this is one

        return {"type": "array", "minItems": 1, "items": step_schema()}

    def limits(self) -> str:
        """Say what the list has."""
        return "a list of steps"


@value()
class WorkflowBody(Kind):
    """The short form: an object of all options."""

    def schema(self) -> Schema:
        """Return an object's schema."""
        return WorkflowType.options.schema()

    def limits(self) -> str:
        """Say what the object has."""
        return "an object of `steps`, and of the other options"


_STEPS = Option(
    name="steps",
    kind=StepList(),
    summary="The steps, in any order.",
    example=[
        {"name": "extract", "function": "extract"},
        {"name": "load", "function": "load", "after": ["extract"]},
    ],
)
DEADLINE = Option(
    name="deadline",
    kind=Duration(timedelta(seconds=1), timedelta(days=366)),
    summary="How long a run of it may take, from when its first steps start.",
    detail="Then nothing more starts, what is live is cancelled, and the run is FAILED.",
    default=None,
    is_nullable=True,
    example="4h",
)
RESULT = Option(
    name="result",
    kind=FreeText(longest=LONGEST),
    summary="An expression that makes the result of the run.",
    default=None,
    is_nullable=True,
    example="steps.extract.result.rows",
)
_WORKFLOW = Option(
    name="workflow",
    kind=WorkflowBody(),
    summary="Run steps, each after those that it names.",
    example={"steps": _STEPS.example},
)


class WorkflowType(TargetType):
    """`workflow`. Its parameters are what `core.definition.workflows.plain_from_workflow` returns."""

    name = "workflow"
    summary = "Runs steps, each once the steps before it have ended as its rule asks for."
    options: ClassVar[Options] = Options(_STEPS, DEADLINE, RESULT)
    short: ClassVar[Mapping[str, str]] = {_WORKFLOW.name: _STEPS.name}

    @cached_property
    def short_options(self) -> tuple[tuple[str, Option], ...]:
        """The short form's field, an object of all options."""
        return ((_WORKFLOW.name, _WORKFLOW),)

    def make(
        self, values: Mapping[str, Any], path: Path, *, functions: frozenset[str] | None
    ) -> dict[str, Any]:
        """Return the parameters; refuse steps that are wrong.

        Raises:
            InvalidFields: it has all errors.
        """
        return self.read_body(values, path("").rstrip("."), types=None, functions=functions)

    def read_body(
        self,
        body: object,
        path: str,
        *,
        types: frozenset[str] | None,
        functions: frozenset[str] | None,
        compile_: Compile | None = None,
    ) -> dict[str, Any]:
        """Return the parameters that an object of all options makes, as a user wrote it.

        Args:
            path: where the user wrote it, for errors.
            types: target types that are accepted; None is all.
            functions: names of functions that are known; None is not to be checked.
            compile_: refuses expressions that are none; None: only the steps that they name are checked.

        Raises:
            InvalidFields: it has all errors.
        """
        from mainspring.core.definition.workflows import plain_from_workflow, read_workflow  # likewise

        workflow = read_workflow(body, path, types=types, functions=functions, compile_=compile_)
        return plain_from_workflow(workflow)
