"""Turns the arguments of a call into the payload of a job."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mainspring.errors import InvalidInput


def payload_of(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
    """Return the JSON that calls a function with these arguments; None if there are none.

    Raises:
        InvalidInput: they do not fit, or are not JSON.
    """
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise InvalidInput("args", f"do not fit the function: {error}") from None
    if not args and not kwargs:
        return None
    payload: object = list(args)
    if kwargs:
        payload = dict(kwargs) if not args else _by_name(bound)
    try:
        json.dumps(payload, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput("args", f"are not JSON: {error}; give plain values") from None
    return payload


def _by_name(bound: inspect.BoundArguments) -> dict[str, Any]:
    """Return arguments by their names, because a payload is a list or an object."""
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind in {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL}:
            raise InvalidInput("args", f"go beside kwargs, but {name!r} cannot be given by name")
        named |= value if kind is inspect.Parameter.VAR_KEYWORD else {name: value}
    return named
