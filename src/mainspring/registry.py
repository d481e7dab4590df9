"""The functions that a worker can execute, by name.

A job names its function, and that name is looked up here and nowhere else. No import path, pickle or eval is
involved, so the right to submit a job does not include the right to choose code (reliability 4.1).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from mainspring.core.values import value
from mainspring.errors import InvalidInput
from mainspring.payloads.signature import FunctionTypes, types_of

_NAME_LENGTH = 200


@value(kw_only=True)
class RegisteredFunction:
    """A registered callable, with what a call needs to know about it.

    Attributes:
        is_async: whether calling it returns a coroutine.
        signature: None if Python does not know it (some built-ins).
        names: the parameters that may be passed by keyword.
        required: those of `names` that have no default.
        has_plain_keywords: whether every parameter has a name, so that `required` and `names` decide what fits.
        types: its annotations, by which arguments are read; None if it has none.
        is_durable: whether it asks for the steps of its run (`signals.find_steps`).
    """

    name: str
    call: Callable[..., Any]
    is_async: bool
    signature: inspect.Signature | None
    names: frozenset[str]
    required: frozenset[str]
    has_plain_keywords: bool
    types: FunctionTypes | None
    is_durable: bool = False


class FunctionRegistry:
    """Functions by registered name."""

    def __init__(self) -> None:
        self._functions: dict[str, RegisteredFunction] = {}

    def add(self, name: str, call: Callable[..., Any]) -> RegisteredFunction:
        """Register a callable. Registering the same one again changes nothing.

        Raises:
            InvalidInput: another callable has the name, the name is not valid, or `call` is not callable.
        """
        if not name.strip() or len(name) > _NAME_LENGTH or not name.isprintable():
            raise InvalidInput("function", f"a function's name is 1 to {_NAME_LENGTH} printable characters")
        if not callable(call):
            raise InvalidInput("function", f"{name!r} is not callable")
        known = self._functions.get(name)
        if known is not None:
            if known.call == call:
                return known
            raise InvalidInput("function", f"the name {name!r} is already taken by another function")
        function = _describe(name, call)
        self._functions[name] = function
        return function

    def get(self, name: str) -> RegisteredFunction | None:
        """Return the function of that name, or None."""
        return self._functions.get(name)

    def names(self) -> tuple[str, ...]:
        """Return all names, sorted: the functions that this worker offers."""
        return tuple(sorted(self._functions))


def _describe(name: str, call: Callable[..., Any]) -> RegisteredFunction:
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):
        signature = None
    named = []
    is_plain = signature is not None
    for parameter in signature.parameters.values() if signature else ():
        if parameter.kind in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
            named.append(parameter)
        else:
            is_plain = False
    return RegisteredFunction(
        name=name,
        call=call,
        is_async=_is_async(call),
        signature=signature,
        names=frozenset(parameter.name for parameter in named),
        required=frozenset(parameter.name for parameter in named if parameter.default is parameter.empty),
        has_plain_keywords=is_plain,
        types=types_of(call, signature),
        is_durable=getattr(call, "is_durable", False) is True,
    )


def _is_async(call: Callable[..., Any]) -> bool:
    while isinstance(call, functools.partial):
        call = call.func
    if inspect.iscoroutinefunction(call):
        return True
    return not inspect.isroutine(call) and inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004 -- its type is wanted, not whether it can be called
