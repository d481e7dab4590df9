"""CEL, as `cel-expr-python` has it. It needs the extra `cel`.

The library bounds the depth of an expression and how often its loops go round, and its patterns take linear time. What
it does not bound is what a loop makes: `list.map(x, list)` of 9,000 numbers took 7 s and 1.3 GB. So that is reckoned
up before it is evaluated. Text that it is given ends with the first NUL, so such text is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any

import msgspec

from mainspring.core.expressions import LONGEST, ExpressionError, blank_literals
from mainspring.errors import MissingExtra

if TYPE_CHECKING:
    from cel_expr_python import cel

_KEPT = 4096
_MOST_ROUNDS = 10_000
"""How often the loops of an evaluation may go round, by the library's own bound."""
_MOST_COST = 32_000_000
_MAKES = re.compile(r"\.\s*map\s*\(")
_LOOPS = re.compile(r"\.\s*(?:map|filter|all|exists|exists_one)\s*\(")
_ERROR = re.compile(r"ERROR: <input>:(\d+):(\d+): ([^\n]*)")
_CODE = re.compile(r"^[A-Z_]+: |\s*\[[A-Z_]+\]\s*$")
_MOST_TOLD = 300
_ERRORS = (RuntimeError, ValueError, TypeError, OverflowError)
"""The library has none of its own."""


class CelProgram:
    """Implements `Program`."""

    def __init__(self, program: cel.Expression, error: object, text: str) -> None:
        self._program = program
        self._error = error
        plain = blank_literals(text)
        joins = plain.count("+")
        self._loops = len(_MAKES.findall(plain)) or (1 if joins and _LOOPS.search(plain) else 0)
        self._growth = 1 + joins
        self._joins = joins > 0
        self._literal = plain.count(",") + 1

    def evaluate(self, values: Mapping[str, object]) -> object:
        """See `Program`."""
        _check_text(values)
        if self._loops:
            self._check_cost(values)
        try:
            found = self._program.eval(data=dict(values))
            made: Any = found.plain_value()
        except _ERRORS as error:
            raise ExpressionError(_tell(str(error))) from None
        if found.type() == self._error:
            raise ExpressionError(_tell(str(made)))
        return _to_json(made)

    def _check_cost(self, values: Mapping[str, object]) -> None:
        size, longest = _measure(values, counts_text=self._joins)
        rounds = min(max(longest, self._literal) ** self._loops, _MOST_ROUNDS)
        if rounds * size * self._growth**self._loops > _MOST_COST:
            message = "a loop would go over too large a value; let the step that makes it return less"
            raise ExpressionError(message)


class CelExpressions:
    """Implements `Expressions`. The library is imported with the first expression."""

    def __init__(self) -> None:
        self._compile = lru_cache(maxsize=_KEPT)(_compile)

    def compile(self, text: str, names: frozenset[str]) -> CelProgram:
        """See `Expressions`."""
        return self._compile(text, names)


def _compile(text: str, names: frozenset[str]) -> CelProgram:
    try:
        from cel_expr_python import cel
    except ImportError:
        raise MissingExtra("expressions", "cel") from None
    if len(text) > LONGEST:
        raise ExpressionError(f"has {len(text)} characters; at most {LONGEST} fit")
    try:
        env = cel.NewEnv(variables=dict.fromkeys(sorted(names), cel.Type.DYN))
        program = env.compile(text)
    except _ERRORS as error:
        raise ExpressionError(_tell_refusal(str(error))) from None
    return CelProgram(program, cel.Type.ERROR, text)


def _check_text(values: Mapping[str, object]) -> None:
    """Refuse text with a NUL, after which the library sees nothing of it.

    Raises:
        ExpressionError: there is such text, or text that is no Unicode.
    """
    try:
        plain = msgspec.json.encode(values)
    except _ERRORS as error:
        raise ExpressionError(f"a value is no JSON: {error}") from None
    if b"\\u0000" in plain and _has_nul(values):
        raise ExpressionError("a value has text with a NUL, which expressions cannot read")


def _has_nul(one: object) -> bool:
    if isinstance(one, str):
        return "\0" in one
    if isinstance(one, dict):
        return any(_has_nul(key) or _has_nul(inner) for key, inner in one.items())
    return isinstance(one, list) and any(map(_has_nul, one))


def _measure(values: Mapping[str, object], *, counts_text: bool) -> tuple[int, int]:
    """Return how large values are, and how long the longest list or object in them is."""
    size, longest = 0, 1
    waiting: list[object] = list(values.values())
    while waiting:
        one = waiting.pop()
        size += 1
        if isinstance(one, str):
            size += len(one) if counts_text else len(one) // 16
        elif isinstance(one, dict):
            longest = max(longest, len(one))
            waiting += one.values()
        elif isinstance(one, list):
            longest = max(longest, len(one))
            waiting += one
    return size, longest


def _to_json(made: object) -> object:
    """Return what was made, if JSON has it.

    Raises:
        ExpressionError: JSON has no such value.
    """
    if made is None or isinstance(made, bool | int | str):
        return made
    if isinstance(made, float):
        if not isfinite(made):
            raise ExpressionError("makes a number that is not finite, which JSON does not have")
        return made
    if isinstance(made, list):
        return [_to_json(one) for one in made]
    if isinstance(made, dict):
        if not all(isinstance(key, str) for key in made):
            raise ExpressionError("makes an object with keys that are no text, which JSON does not have")
        return {key: _to_json(one) for key, one in made.items()}
    raise ExpressionError(
        f"makes a {type(made).__name__}, which JSON does not have; string(…) makes text of it"
    )


def _tell_refusal(message: str) -> str:
    """Return why an expression is none, with the places."""
    found = [
        f"at {_place(int(line), int(column))}: {_shorten(words)}"
        for line, column, words in _ERROR.findall(message)
    ]
    return "; ".join(found[:3]) or _tell(message)


def _place(line: int, column: int) -> str:
    return f"column {column}" if line == 1 else f"line {line}, column {column}"


def _shorten(words: str) -> str:
    words = words.partition(" expecting {")[0].replace("mismatched input '<EOF>'", "it ends too soon")
    return words.removesuffix(" (in container '')").removeprefix("Syntax error: ")


def _tell(message: str) -> str:
    words = _CODE.sub("", message).strip()
    return words[:_MOST_TOLD] or "it could not be evaluated"
