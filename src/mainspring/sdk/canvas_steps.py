"""Steps of a workflow, made of signatures."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mainspring.core.definition.options import OPTIONS
from mainspring.core.definition.steps import STEP_OPTIONS
from mainspring.core.expressions import LONGEST
from mainspring.core.values import value
from mainspring.core.workflows.expressions import MARK, STEPS, is_expression
from mainspring.errors import InvalidInput
from mainspring.sdk.function import NO_PAYLOAD
from mainspring.sdk.references import ValueReference, refuse_deep
from mainspring.sdk.signatures import Canvas, Signature

_INPUT = "input"
_LONGEST_NAME = 40
"""Of a step, before its number. It has room for that."""
_NO_ERROR = json.dumps("a step was cancelled")
_OF_FIRES = frozenset(
    {"misfire", "catch_up", "overlap", "calendars", "max_fires", "jitter", "unique", "debounce", "throttle"}
)
"""Options that say when a job has runs, which holds no step."""
_OWN_RUNS_ONLY = (
    *(
        form
        for option in OPTIONS
        if option.name not in _OF_FIRES and option.name not in {own.name for own in STEP_OPTIONS}
        for form in option.forms
    ),
    "rate",  # which is short for a limit of `concurrency`
    "payload",
)
"""What of a job a step does not have that calls the job's function by itself."""
_OF_FUNCTIONS = frozenset({"function", "isolation", *STEP_OPTIONS.by_form})


@value()
class Left:
    """What a part leaves for the next one.

    Attributes:
        steps: those that the next one waits for.
        values: expressions, of what they return.
        is_list: the next one gets a list of the values; otherwise there is one.
    """

    steps: tuple[str, ...]
    values: tuple[str, ...]
    is_list: bool = False

    @property
    def expression(self) -> str:
        """What the next one gets."""
        return f"[{', '.join(self.values)}]" if self.is_list else self.values[0]


class CanvasSteps:
    """Makes the steps of canvases of one workflow.

    Args:
        taken: names that steps have already.
        keeps_inputs: arguments become a part of the run's payload; otherwise, they are written into the steps.

    Attributes:
        bodies: the steps, parents first.
        inputs: the arguments of each step that has some, if they are kept.
    """

    def __init__(self, taken: Collection[str], *, keeps_inputs: bool) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.inputs: dict[str, Any] = {}
        self._taken = set(taken)
        self._keeps_inputs = keeps_inputs

    def add(
        self,
        part: Signature | Canvas,
        after: Sequence[str] = (),
        *,
        given: Left | None = None,
        first: tuple[Any, ...] = (),
        path: str = "",
    ) -> Left:
        """Add the steps of a part.

        Args:
            after: the steps that it waits for.
            given: what the part before it leaves; None: there is none.
            first: what its first calls get in front of their arguments.
            path: where it is in the whole, for errors.

        Raises:
            InvalidInput: its parts do not go together.
        """
        begin = len(self.bodies)
        if isinstance(part, Signature):
            left = self._add_call(part, after, given, first, path or part.function.name)
        elif part.is_chain:
            left = self._add_chain(part, after, given, first, path)
        else:
            left = self._add_group(part, after, given, first, path)
        names = [body["name"] for body in self.bodies[begin:]]
        for handler in part.handlers:
            self._add_handler(handler, names, _join(path, "on_error"))
        return left

    def _add_chain(
        self, chain: Canvas, after: Sequence[str], given: Left | None, first: tuple[Any, ...], path: str
    ) -> Left:
        left, at = Left(tuple(after), ()), _join(path, "chain")
        for place, part in enumerate(chain.parts):
            left = self.add(part, left.steps, given=given, first=first, path=f"{at}[{place}]")
            given, first = left, ()
        return left

    def _add_group(
        self, group: Canvas, after: Sequence[str], given: Left | None, first: tuple[Any, ...], path: str
    ) -> Left:
        at = _join(path, "group")
        steps: list[str] = []
        values: list[str] = []
        for place, part in enumerate(group.parts):
            left = self.add(part, after, given=given, first=first, path=f"{at}[{place}]")
            steps += left.steps
            is_group = isinstance(part, Canvas) and not part.is_chain
            values += (
                left.values if is_group else [left.expression]
            )  # groups within groups are one, as in Celery
        return Left(tuple(steps), tuple(values), is_list=True)

    def _add_call(
        self, call: Signature, after: Sequence[str], given: Left | None, first: tuple[Any, ...], path: str
    ) -> Left:
        name = self._name(call.function.name)
        before: tuple[Any, ...] = ()
        if not call.is_immutable:
            before = first if given is None else (ValueReference(check_length(given, path)),)
        try:
            body = {"name": name, **_target_of(call), **self._payload_of(name, call, (*before, *call.args))}
        except InvalidInput as error:
            raise InvalidInput(f"{path}.{error.field}", error.message) from None
        self.bodies.append({**body, "after": list(after)})
        return Left((name,), (f"{STEPS}.{name}.result",))

    def _add_handler(self, handler: Signature, names: Sequence[str], path: str) -> None:
        errors = ", ".join(f"{STEPS}.{name}.error" for name in names)
        given = f"([{errors}].filter(e, e != null) + [{_NO_ERROR}])[0]"
        if len(given) > LONGEST and not handler.is_immutable:
            message = f"cannot get the error of one of {len(names)} calls; use .si(…), or handle those of smaller parts"
            raise InvalidInput(path, message)
        self.add(handler, names, given=Left((), (given,)), path=path)
        place = next(
            place for place in range(len(self.bodies) - 1, -1, -1) if self.bodies[place]["after"] == [*names]
        )
        self.bodies[place]["rule"] = "one_failed"

    def _payload_of(self, name: str, call: Signature, args: tuple[Any, ...]) -> dict[str, Any]:
        """Return the fields of a step that make what its function gets."""
        for one in (*args, *call.kwargs.values()):
            if not isinstance(one, ValueReference):
                refuse_deep(one, "args")
        references = [one for one in (*args, *call.kwargs.values()) if isinstance(one, ValueReference)]
        if not references:
            payload = call.function.payload(args, call.kwargs)
            if payload is NO_PAYLOAD:
                return {}
            return self._keep(name, payload) if self._keeps_inputs else {"payload": payload}
        if call.function.definition.get("batch") is not None:
            if len(args) > 1 or call.kwargs:
                message = f"of a run of {call.function.name!r} is one value, because its function gets lists"
                raise InvalidInput("payload", message)
            return {"with": {MARK: str(args[0])}}
        arguments = call.function.arguments(args, call.kwargs)
        if isinstance(arguments, list):
            return {"with": {MARK: self._list(name, arguments)}}
        return {"with": self._fields(name, arguments)}

    def _keep(self, name: str, payload: object) -> dict[str, Any]:
        self.inputs[name] = payload
        return {"with": {MARK: f"{_INPUT}.{name}"}}

    def _fields(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        own = {field: one for field, one in arguments.items() if not isinstance(one, ValueReference)}
        if self._keeps_inputs and own:
            self.inputs[name] = own
            kept = ValueReference(_INPUT)[name]
            return {
                field: {MARK: str(one if isinstance(one, ValueReference) else kept[field])}
                for field, one in arguments.items()
            }
        for field, one in own.items():
            if is_expression(one):
                raise InvalidInput(
                    field, f"must be no object with {MARK!r} alone, which stands for an expression"
                )
        return {
            field: {MARK: str(one)} if isinstance(one, ValueReference) else one
            for field, one in arguments.items()
        }

    def _list(self, name: str, arguments: Sequence[Any]) -> str:
        """Return an expression for arguments that have no names."""
        own = [one for one in arguments if not isinstance(one, ValueReference)]
        kept = iter(range(len(own)))
        if self._keeps_inputs and own:
            self.inputs[name] = own
        shown = [
            str(one)
            if isinstance(one, ValueReference)
            else f"{_INPUT}.{name}[{next(kept)}]"
            if self._keeps_inputs
            else json.dumps(one, ensure_ascii=False)
            for one in arguments
        ]
        made = f"[{', '.join(shown)}]"
        if len(made) > LONGEST:
            message = (
                f"make an expression of {len(made)} characters; at most {LONGEST} fit, pass them by name"
            )
            raise InvalidInput("args", message)
        return made

    def _name(self, function: str) -> str:
        """Return a name for a step: its function's, and a number if that is taken."""
        plain = re.sub(r"[^a-z0-9_]+", "_", function.rpartition(".")[2].lower()).strip("_")
        plain = (plain if plain[:1].isalpha() else f"call_{plain}")[:_LONGEST_NAME]
        name, number = plain, 1
        while name in self._taken:
            number += 1
            name = f"{plain}_{number}"
        self._taken.add(name)
        return name


def _target_of(call: Signature) -> dict[str, Any]:
    """Return the fields of a step that say what runs: the job, or its function with options of its own."""
    function = call.function
    if not call.given:
        return {"job": function.name}
    definition = function.definition
    lost = [field for field in _OWN_RUNS_ONLY if definition.get(field) is not None]
    if lost:
        message = (
            f"job {function.name!r} has {', '.join(lost)}, which only its own runs keep; leave .set(…) out"
        )
        raise InvalidInput("set", message)
    body = {field: one for field, one in definition.items() if field in _OF_FUNCTIONS}
    retry = {**definition.get("retry", {}), **call.given.get("retry", {})}
    return {**body, **call.given, **({"retry": retry} if retry else {})}


def _join(path: str, part: str) -> str:
    return f"{path}.{part}" if path else part


def check_length(left: Left, path: str) -> str:
    """Return the expression of what a part leaves.

    Raises:
        InvalidInput: it is too long, because the part is a group of many calls.
    """
    made = left.expression
    if len(made) > LONGEST:
        message = (
            f"gets a list of what {len(left.values)} calls return; an expression for that has {len(made)} characters, "
            f"and at most {LONGEST} fit. Put fewer calls into a group. If nothing needs the list, let f.si(…) "
            "follow, which gets nothing of it, or let f.enqueue_many([…]) submit as many runs as you like"
        )
        raise InvalidInput(path, message)
    return made
