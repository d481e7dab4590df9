"""Annotations as types that msgspec can read."""

from __future__ import annotations

import dataclasses
import functools
import operator
import types
import typing
from collections import abc
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from typing import Any
from uuid import UUID

import msgspec

from mainspring.payloads.hooks import StandIn, decode_other, is_model, read_model, stand_in

_LEAVES = frozenset({str, bool, type(None), bytes, bytearray, datetime, date, time, UUID, Decimal})
_CONTAINERS: dict[Any, Any] = {
    kind: kind
    for kind in (
        *(list, set, frozenset, tuple, dict),
        *(abc.Collection, abc.Sequence, abc.MutableSequence, abc.Set, abc.MutableSet),
        *(abc.Mapping, abc.MutableMapping),
    )
} | {abc.Iterable: list}
_PLAIN = frozenset({str, int, float, bool, type(None), list, dict, abc.Sequence, abc.Mapping, object})


class Unreadable(Exception):
    """Values of an annotation cannot be read from JSON. The text says why."""


def to_readable(annotation: Any) -> Any:
    """Return the type that msgspec is to read for an annotation that is resolved.

    Raises:
        Unreadable: there is none.
    """
    if annotation is Any or annotation is object or isinstance(annotation, typing.TypeVar):
        return Any
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        metas = [meta for meta in arguments[1:] if isinstance(meta, msgspec.Meta)]
        inner = to_readable(arguments[0])
        return typing.Annotated[(inner, *metas)] if metas else inner
    if annotation in _SPECIAL:
        return _SPECIAL[annotation]
    if annotation is None or annotation in _LEAVES:
        return annotation
    if origin is typing.Literal:
        return stand_in("Literal", _one_of(arguments))
    if origin in {typing.Union, types.UnionType}:
        return _union(arguments)
    container = _CONTAINERS.get(origin or annotation)
    if container is not None:
        inner = tuple(one if one is ... else to_readable(one) for one in arguments)
        return container[inner] if inner else container
    for alias in ("__supertype__", "__value__"):  # of NewType, and of `type X = …`
        if not isinstance(annotation, type) and hasattr(annotation, alias):
            return to_readable(getattr(annotation, alias))
    return _class(annotation, origin or annotation)


def is_plain(annotation: Any) -> bool:
    """Return whether the JSON values of an annotation are Python's already, so that nothing is to be read."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is None and (annotation is Any or annotation is None or annotation in _PLAIN):
        return True
    if origin in {typing.Required, typing.NotRequired, typing.Annotated}:
        return is_plain(arguments[0])
    if origin is typing.Literal:
        return not any(isinstance(one, Enum | bytes) for one in arguments)
    if origin in {typing.Union, types.UnionType, list, abc.Sequence}:
        return all(is_plain(one) for one in arguments)
    if origin in {dict, abc.Mapping}:
        return arguments[0] in {str, Any} and is_plain(arguments[1])
    if typing.is_typeddict(annotation):
        return all(is_plain(one) for one in typing.get_type_hints(annotation, include_extras=True).values())
    return False


def has_choice(readable: Any) -> bool:
    """Return whether a value of a readable type could be read as one of another type."""
    if isinstance(readable, type) and issubclass(readable, StandIn):
        return readable.is_choice
    return any(has_choice(one) for one in typing.get_args(readable))


def compile_readable(readable: Any) -> type[msgspec.Struct]:
    """Return a struct with one field, `value`, of a readable type. msgspec then knows the type from the first use on.

    Raises:
        Unreadable: msgspec cannot read it; for example, because nothing tells the members of a union apart.
    """
    box = msgspec.defstruct("Box", [("value", readable)])
    try:
        msgspec.json.Decoder(box, dec_hook=decode_other)
    except (TypeError, NameError) as error:
        raise Unreadable(str(error).partition(" - type ")[0]) from None
    return box


def _union(members: Sequence[Any]) -> Any:
    readable = [to_readable(member) for member in members]
    joined: Any = functools.reduce(operator.or_, readable)
    try:
        compile_readable(joined)
    except Unreadable:
        return _choice(members)
    return joined


def _choice(members: Sequence[Any]) -> Any:
    """Return a type whose values are of the first member that can be read: what is narrow first, `str` last."""
    ordered = sorted(members, key=lambda one: 2 if is_plain(one) else one in {bytes, bytearray})
    boxes = [compile_readable(one if one is timedelta else to_readable(one)) for one in ordered]

    def read(value: object) -> object:
        causes = []
        for box in boxes:
            try:
                return convert(value, box)
            except msgspec.ValidationError as error:
                causes.append(str(error).replace(" - at `$.value`", ""))
        raise ValueError("; ".join(dict.fromkeys(causes)))

    return stand_in("Choice", read, is_choice=True)


def convert(value: object, box: type[msgspec.Struct]) -> Any:
    """Return a JSON value as what a compiled type makes of it.

    Raises:
        msgspec.ValidationError: it does not fit. Places in the text begin with `$.value`.
    """
    read: Any = msgspec.convert({"value": value}, box, dec_hook=decode_other, str_keys=True)
    return read.value


def _class(annotation: Any, kind: Any) -> Any:
    if not isinstance(kind, type):
        raise Unreadable(f"JSON cannot be read into {annotation}")
    if issubclass(kind, Enum):
        return _enum(kind)
    if dataclasses.is_dataclass(kind) and is_model(kind):
        return stand_in(kind.__name__, lambda value: read_model(kind, value))
    is_record = (
        issubclass(kind, msgspec.Struct)
        or dataclasses.is_dataclass(kind)
        or hasattr(kind, "__attrs_attrs__")
        or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
        or typing.is_typeddict(kind)
        or is_model(kind)
    )
    if not is_record:
        raise Unreadable(f"JSON cannot be read into {kind.__qualname__}")
    return annotation


def _enum(kind: type[Enum]) -> Any:
    values = {type(member.value) for member in kind}
    if not issubclass(kind, Flag) and values in ({str}, {int}):
        return kind

    def read(value: object) -> Enum:
        for member in kind:
            if msgspec.to_builtins(member.value) == value:
                return member
        return kind(value)  # a combination of flags

    return stand_in(kind.__name__, read)


def _one_of(values: Sequence[Any]) -> Callable[[object], object]:
    def read(value: object) -> object:
        for one in values:
            encoded = msgspec.to_builtins(one)
            if encoded == value and type(encoded) is type(value):
                return one
        raise ValueError(f"must be one of {', '.join(map(repr, values))}")

    return read


def _duration(value: object) -> timedelta:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return timedelta(seconds=value)
    return msgspec.convert(value, timedelta)


# A bool is an int to Python and its type checkers. Durations may also be seconds, as they are in a job's definition.
_SPECIAL: dict[Any, Any] = {
    int: int | bool,
    float: float | bool,
    timedelta: stand_in("timedelta", _duration),
}
