"""Expressions in CEL, as far as they can be told without a library that evaluates them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from mainspring.core.values import value

LONGEST = 2048
"""Characters of an expression."""

Compile: TypeAlias = Callable[[str, frozenset[str]], object]
"""Refuses an expression that is none, by the names that it may use. See `ports.expressions`."""

_OPAQUE = re.compile(
    r"""
    (?<!\w)[bB]?[rR][bB]?(?:"{3}[\s\S]*?"{3}|'{3}[\s\S]*?'{3}|"[^"\n]*"|'[^'\n]*')       # raw text
    | (?:(?<!\w)[bB])?(?:
        "{3}(?:\\.|[^\\])*?"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'
    )
    | //[^\n]*
    | ["'][^\n]*                                                                         # does not end
    """,
    re.VERBOSE,
)
_NAME = r"[A-Za-z_]\w*\b"
_PATH = re.compile(rf"(?<![\w.]){_NAME}(?:\s*\.\s*{_NAME})*(?!\s*\()", re.ASCII)


class ExpressionError(ValueError):
    """An expression is none, or could not be evaluated with the values that there were. The message says why."""


@value()
class PathUse:
    """A name in an expression, with the fields that follow it: `steps.load.result`.

    Attributes:
        at: the column at which it begins, from 1 on.
    """

    parts: tuple[str, ...]
    at: int


def blank_literals(text: str) -> str:
    """Return an expression in which strings and comments are blank, so that what is left means what it says."""
    return _OPAQUE.sub(lambda found: " " * len(found[0]), text)


def find_paths(text: str) -> Iterator[PathUse]:
    """Yield the names that an expression uses, each with the fields that follow it. Calls of functions are none.

    A method at the end of a path is a call, too: of `input.files.size()` it is `input.files`.
    """
    for found in _PATH.finditer(blank_literals(text)):
        yield PathUse(tuple(part.strip() for part in found[0].split(".")), found.start() + 1)
