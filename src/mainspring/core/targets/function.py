"""Function: a registered Python function. Carried out by `executors.function`."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, ClassVar

from mainspring.core.abilities import RUNS_PROCESSES
from mainspring.core.fields import read_text
from mainspring.core.kinds import OneOf, Text
from mainspring.core.options import Option, Options, Path
from mainspring.core.targets.base import TargetType
from mainspring.core.values import value
from mainspring.errors import InvalidInput

PROCESS = "process"
"""The isolation of a function that is called in a process of its own."""


@value()
class FunctionName(Text):
    """A name under which a function is registered."""

    metavar: ClassVar[str] = "NAME"

    def read(self, value: object, path: str, old: Any) -> str:
        """Read a name; `+` is taken by the routes of labels."""
        del old
        name = read_text(value, path, longest=self.longest)
        if "+" in name:
            raise InvalidInput(path, "a function's name holds no '+'")
        return name

    def limits(self) -> str:
        """Say how long it may be."""
        return f"1 to {self.longest} printable characters, no `+`"


class FunctionType(TargetType):
    """`function`."""

    name = "function"
    summary = "Calls a function that the app registered: the server's own app, or that of a worker."
    options: ClassVar[Options] = Options(
        Option(
            name="function",
            kind=FunctionName(),
            summary="Call a registered function.",
            example="mail.send",
        ),
        Option(
            name="isolation",
            kind=OneOf((PROCESS,)),
            summary="Call the function in a process of its own.",
            detail=(
                "A crash, a leak or a loop then [harms no other run](../howto/isolate-functions.md). "
                "Workers need `executors.process.enabled`."
            ),
            default=None,
            is_nullable=True,
            example=PROCESS,
        ),
    )
    short: ClassVar[Mapping[str, str]] = {"function": "function", "isolation": "isolation"}

    def make(
        self, values: Mapping[str, Any], path: Path, *, functions: frozenset[str] | None
    ) -> dict[str, Any]:
        """Return the parameters; refuse a function that no worker offers."""
        name = values["function"]
        if functions is not None and name not in functions:
            near = get_close_matches(name, functions, n=3) or sorted(functions)[:5]
            hint = f"known are {', '.join(near)}" if near else "no worker has registered any"
            raise InvalidInput(path("function"), f"no worker has registered {name!r}; {hint}")
        return {"function": name} if values["isolation"] is None else {"function": name, "isolation": PROCESS}

    def needs(self, params: Mapping[str, Any]) -> tuple[str, ...]:
        """Return what a worker must have for a function that is called in a process of its own."""
        return (RUNS_PROCESSES,) if "isolation" in params else ()

    def route(self, params: Mapping[str, Any]) -> str:
        """Return the type with the function's name: each worker offers functions of its own."""
        return f"function:{params.get('function', '')}"
