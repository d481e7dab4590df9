"""The port of expressions: what steps of workflows decide and pass on by the values of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Program(Protocol):
    """An expression that was compiled."""

    def evaluate(self, values: Mapping[str, object]) -> object:
        """Return what it makes of values: what JSON has, in Python.

        Args:
            values: by the names for which it was compiled; those suffice that it uses.

        Raises:
            ExpressionError: it cannot be evaluated with these values, or what it makes is no JSON.
        """
        ...


class Expressions(Protocol):
    """A language of expressions. They have neither input nor output, and end in bounded time and memory."""

    def compile(self, text: str, names: frozenset[str]) -> Program:
        """Compile an expression.

        Args:
            names: those that it may use, with dots in them where it names them so: `steps.load.result`.

        Raises:
            ExpressionError: it is none, or uses another name.
            MissingExtra: what compiles is not installed here.
        """
        ...
