"""What steps of workflows decide by and get: expressions, as users write them, and what must be right about them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from mainspring.core.expressions import LONGEST, Compile, ExpressionError, find_paths
from mainspring.core.fields import kind, read_payload
from mainspring.core.kinds import FreeText, Payload, Schema
from mainspring.core.options import Option
from mainspring.core.targets.workflow import RESULT
from mainspring.core.values import value
from mainspring.core.workflows.expressions import (
    COUNTS,
    FIELDS,
    ITEM,
    MARK,
    STEPS,
    VALUES,
    Expression,
    is_expression,
)
from mainspring.core.workflows.graph import Graph
from mainspring.errors import InvalidInput, MissingExtra

_PAGE = "../howto/pass-a-result-on.md"
_OVER = "map.over"


@value()
class ExpressionText(FreeText):
    """An expression. Whether it is one is for the whole workflow to say."""

    longest: int = LONGEST
    metavar: ClassVar[str] = "CEL"

    def limits(self) -> str:
        """Say what it is."""
        return f"an expression in CEL, at most {self.longest} characters"


@value()
class GivenValues(Payload):
    """What a step's payload is made of: an object of values and expressions, or one expression for all of it."""

    def forms(self, name: str) -> tuple[str, ...]:
        """Its name in a body is a word that Python keeps for itself."""
        del name
        return ("with",)

    def read(self, value: object, path: str, old: Any) -> bytes | None:
        """Read an object, each of whose fields is a value or an expression."""
        del old
        if not isinstance(value, Mapping):
            message = f'must be an object of values and of {{"{MARK}": "…"}}, not {kind(value)}'
            raise InvalidInput(path, message)
        for where, one in _parts(value, path):
            if isinstance(one, Mapping) and MARK in one and len(one) == 1:
                ExpressionText().read(one[MARK], f"{where}.{MARK}", None)
        return read_payload(value, path)

    def schema(self) -> Schema:
        """Return an object's schema."""
        return {"type": "object"}

    def limits(self) -> str:
        """Say what it may hold."""
        return f'an object, each field a value or `{{"{MARK}": "…"}}`; or that itself'


WHEN = Option(
    name="when",
    kind=ExpressionText(),
    summary="Run it only if this expression is true.",
    detail=f"It is asked once the rule says that the step runs. If it is false, [this step is skipped]({_PAGE}).",
    is_nullable=True,
    example="steps.extract.result.rows > 0",
)
GIVEN = Option(
    name="given",
    kind=GivenValues(),
    summary="The JSON that its target gets, made of what other steps have returned.",
    detail=f"Instead of `payload`. It waits for [the steps that it names]({_PAGE}).",
    is_nullable=True,
    example={"rows": {MARK: "steps.extract.result.rows"}, "table": "orders"},
)


def _parts(value: Mapping[Any, Any], path: str) -> Iterator[tuple[str, object]]:
    """Yield what may be expressions, each with its field."""
    if MARK in value and len(value) == 1 and not isinstance(value[MARK], Mapping):
        yield path, value
        return
    for name, one in value.items():
        yield f"{path}.{name}", one


def expressions_of(body: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield the expressions of a step as it was written, each with its field. What is none is refused elsewhere."""
    if not isinstance(body, Mapping):
        return
    if isinstance(body.get(WHEN.name), str):
        yield f"{path}.{WHEN.name}", body[WHEN.name]
    yield from _over_of(body, path)
    yield from _given_of(body, path)
    yield from _made_of(body, path)


def _made_of(body: Mapping[Any, Any], path: str) -> Iterator[tuple[str, str]]:
    """Yield what a step that waits has an expression make."""
    wait = body.get("wait")
    if not isinstance(wait, Mapping):
        return
    if is_expression(wait.get("until")):
        yield f"{path}.wait.until.{MARK}", wait["until"][MARK]
    event = wait.get("event")
    if isinstance(event, Mapping) and is_expression(event.get("key")):
        yield f"{path}.wait.event.key.{MARK}", event["key"][MARK]


def _over_of(body: Mapping[Any, Any], path: str) -> Iterator[tuple[str, str]]:
    own = body.get("map")
    if isinstance(own, Mapping) and isinstance(own.get("over"), str):
        yield f"{path}.{_OVER}", own["over"]


def _given_of(body: Mapping[Any, Any], path: str) -> Iterator[tuple[str, str]]:
    given = body.get(GIVEN.key)
    if isinstance(given, Mapping):
        for where, one in _parts(given, f"{path}.{GIVEN.key}"):
            if is_expression(one):
                yield f"{where}.{MARK}", one[MARK]  # type: ignore[index]  # it is an object


def steps_named(body: object) -> dict[str, str]:
    """Return the steps that a step as it was written gets something of, each with the field: it waits for them."""
    found: dict[str, str] = {}
    if isinstance(body, Mapping):
        own = ((_OVER, _over_of(body, "")), (GIVEN.key, _given_of(body, "")), ("wait", _made_of(body, "")))
        for field, texts in own:
            for _, text in texts:
                found = {**dict.fromkeys(Expression(text).steps, field), **found}
    return found


def check_expressions(
    bodies: Sequence[object],
    links: Sequence[Sequence[int]],
    result: object,
    path: str,
    *,
    compile_: Compile | None,
    add: Callable[[str, str], None],
    hint: Callable[[str, Collection[str]], str],
) -> None:
    """Refuse expressions that are none, or name what there is not.

    Args:
        bodies: the steps as they were written. Their links have no cycle.
        result: the workflow's, as it was written.
        path: the workflow's field.
        compile_: None: what they say is not looked at, only what they name.
        add: takes the field and the message of each error.
        hint: asks whether another name was meant.
    """
    checker = _Checker(bodies, links, compile_, add, hint)
    for place, body in enumerate(bodies):
        for where, text in expressions_of(body, f"{path}.{STEPS}[{place}]"):
            is_of_item = _has_map(body) and not where.endswith((f".{WHEN.name}", f".{_OVER}"))
            checker.check(where, text, place, ITEM if is_of_item else frozenset())
    if isinstance(result, str):
        checker.check(f"{path}.{RESULT.name}", result, None)


class _Checker:
    """Looks at the expressions of one workflow."""

    def __init__(
        self,
        bodies: Sequence[object],
        links: Sequence[Sequence[int]],
        compile_: Compile | None,
        add: Callable[[str, str], None],
        hint: Callable[[str, Collection[str]], str],
    ) -> None:
        self._places = {
            body["name"]: place
            for place, body in reversed([*enumerate(bodies)])
            if isinstance(body, Mapping) and isinstance(body.get("name"), str)
        }
        self._maps = frozenset(place for place, body in enumerate(bodies) if _has_map(body))
        self._graph = Graph.of(links)
        self._compile = compile_
        self._add = add
        self._hint = hint
        self._ancestors: dict[int, frozenset[int]] = {}

    def check(self, where: str, text: str, step: int | None, more: frozenset[str] = frozenset()) -> None:
        """Look at one. Of the workflow's own, the step is None: it may name all. It knows more names besides."""
        errors = list(self._misnamed(text, step))
        for message in errors:
            self._add(where, message)
        if self._compile is None or errors or not 0 < len(text) <= LONGEST:
            return
        try:
            self._compile(text, Expression(text).names | more)
        except ExpressionError as error:
            self._add(where, str(error))
        except MissingExtra as error:
            self._compile = None  # it is told once
            self._add(where, f"this server evaluates no expressions: {error}")

    def _misnamed(self, text: str, step: int | None) -> Iterator[str]:
        for path in find_paths(text):
            if path.parts[0] != STEPS:
                continue
            at = f"at column {path.at}: "
            if len(path.parts) < 3:
                yield f"{at}say what of the step: {self._ways(path.parts[1] if len(path.parts) > 1 else 'NAME')}"
                continue
            name, field = path.parts[1:3]
            place = self._places.get(name)
            if place is None:
                yield f"{at}there is no step {name[:70]!r}{self._hint(name[:70], self._places)}"
            elif field not in FIELDS:
                yield f"{at}there is no {field[:70]!r} of a step; ask for {self._ways(name)}"
            elif field in VALUES and place in self._maps:
                yield f"{at}{name!r} runs for many items, each with its own {field}; ask for {self._ways(name)}"
            elif field in COUNTS and place not in self._maps:
                yield f"{at}{name!r} has no items to count; ask for {self._ways(name)}"
            elif step is not None and place not in self._ancestors_of(step):
                yield f"{at}the step does not wait for {name!r}; name that in 'after'"

    def _ancestors_of(self, step: int) -> frozenset[int]:
        if step not in self._ancestors:
            self._ancestors[step] = self._graph.ancestors(step)
        return self._ancestors[step]

    def _ways(self, name: str) -> str:
        fields = COUNTS if self._places.get(name) in self._maps else VALUES
        *first, last = (f"{STEPS}.{name}.{field}" for field in ("status", *fields))
        return f"{', '.join(first)} or {last}"


def _has_map(body: object) -> bool:
    """Say whether a step as it was written runs once for each of many items."""
    return isinstance(body, Mapping) and body.get("map") is not None
