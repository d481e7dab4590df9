"""Says in our own words what msgspec refuses in a body: the field's path, and what would be right there."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from msgspec import ValidationError, inspect

from mainspring.core.fields import check_known, show_key
from mainspring.errors import InvalidInput

_PLACE = re.compile(r"(.*) - at `\$\.?((?:\.?\w+|\[[0-9]+\]|\[\.\.\.\])*)`", re.DOTALL)
_FIELD = re.compile(r"Object (missing required|contains unknown) field `(.*)`", re.DOTALL)
_GOT = re.compile(r"Expected `.*`, got `(\w+)`")
_STEP = re.compile(r"\[([0-9]+|\.\.\.)\]|([^.\[\]]+)")
_OUT_OF_RANGE = "out of range"
_SHOWN = {
    "array": "a list",
    "bool": "true or false",
    "int": "a number",
    "null": "null",
    "object": "an object",
    "str": "text",
}
"""Values as they stand in messages. A float is not among them: where it is wrong, it is not whole."""


def refuse_body_of(kind: Any, error: ValidationError, text: bytes = b"") -> NoReturn:
    """Refuse a body, naming the field and what would be right.

    Args:
        kind: the type that the body was read as.
        error: why msgspec could not read it.
        text: the body, to find a number in it for which msgspec tells no full path.

    Raises:
        InvalidInput: always.
    """
    place = _PLACE.fullmatch(str(error))
    message, path = place.groups() if place is not None else (str(error), "")
    wanted = _type_at(kind, path)
    named = _FIELD.fullmatch(message)
    if named is not None:
        prefix, name = f"{path}." if path else "", named.group(2)
        check_known([name], _field_names(wanted), prefix=prefix)
        raise InvalidInput(f"{prefix}{name}", "is missing")
    if _OUT_OF_RANGE in message:
        path = _find_number(text) or path.partition("[...]")[0]
    right = _describe(wanted)
    if right is None:
        raise InvalidInput(path or "body", "is out of range; give a number between -1.7e308 and 1.7e308")
    got = _GOT.fullmatch(message)
    shown = None if got is None else _SHOWN.get(got.group(1))
    raise InvalidInput(
        path or "body", f"must be {right}" if shown is None else f"must be {right}, not {shown}"
    )


def _type_at(kind: Any, path: str) -> inspect.Type:
    """Return the type that a body has at a path; any where it says no more."""
    found = inspect.type_info(kind)
    for step in _STEP.finditer(path):
        found = next(_enter(found, step.group(2)), inspect.AnyType())
    return found


def _enter(within: inspect.Type, field: str | None) -> Iterator[inspect.Type]:
    """Yield the type of a field, or of a list's items."""
    for one in _choices(within):
        if field is None and isinstance(one, inspect.ListType):
            yield one.item_type
        elif isinstance(one, inspect.StructType):
            yield from (each.type for each in one.fields if each.encode_name == field)


def _field_names(within: inspect.Type) -> list[str]:
    structs = (one for one in _choices(within) if isinstance(one, inspect.StructType))
    return [field.encode_name for one in structs for field in one.fields]


def _choices(within: inspect.Type) -> Iterator[inspect.Type]:
    """Yield the types of which a value may be, without what is said about them."""
    if isinstance(within, inspect.Metadata):
        yield from _choices(within.type)
    elif isinstance(within, inspect.UnionType):
        for one in within.types:
            yield from _choices(one)
    else:
        yield within


def _describe(wanted: inspect.Type) -> str | None:
    """Say which values are right; None if any is."""
    words = [_name(one, _example(wanted)) for one in _choices(wanted)]
    return " or ".join(word for word in words if word) or None


def _name(wanted: inspect.Type, example: object) -> str:
    match wanted:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return f"a whole number{_bounds(wanted.ge, wanted.le)}"
        case inspect.FloatType():
            return f"a number{_bounds(wanted.ge, wanted.le)}"
        case inspect.StrType() if isinstance(example, str):
            return f"text like {example!r}"
        case inspect.StrType():
            return f"text{_lengths(wanted.min_length, wanted.max_length, 'characters')}"
        case inspect.DateTimeType():
            return "an instant like 2026-11-21T09:00:00+01:00"
        case inspect.ListType():
            return f"a list{_lengths(wanted.min_length, wanted.max_length, 'items')}"
        case inspect.StructType():
            return "an object"
    return ""


def _example(wanted: inspect.Type) -> object:
    """Return the first example that is told of a type."""
    if isinstance(wanted, inspect.Metadata):
        told = (wanted.extra_json_schema or {}).get("examples")
        return told[0] if told else _example(wanted.type)
    if isinstance(wanted, inspect.UnionType):
        return next((found for found in map(_example, wanted.types) if found is not None), None)
    return None


def _bounds(lowest: float | None, highest: float | None) -> str:
    return "" if lowest is None or highest is None else f" from {lowest} to {highest}"


def _lengths(lowest: int | None, highest: int | None, of: str) -> str:
    if highest is None:
        return ""
    return f" of {lowest} to {highest} {of}" if lowest else f" of at most {highest} {of}"


def _find_number(text: bytes) -> str | None:
    """Return the path of the first number of a body that no float can hold."""
    try:
        return next(_find_infinite(json.loads(text, parse_int=float), ""), None)
    except ValueError:  # it is no JSON, which would have been found later
        return None


def _find_infinite(value: object, path: str) -> Iterator[str]:
    if isinstance(value, float) and not math.isfinite(value):
        yield path
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_infinite(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _find_infinite(item, f"{path}.{show_key(name)}" if path else show_key(name))
