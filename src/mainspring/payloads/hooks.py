"""What msgspec asks for types that it does not know: those of pydantic, and our own stand-ins for annotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec


class _Anything(type):
    """Takes any value for an instance, because msgspec checks what a hook returns."""

    def __instancecheck__(cls, instance: object) -> bool:
        return True


class StandIn(metaclass=_Anything):
    """Stands for a type in an annotation, and reads its values in a way of its own.

    Attributes:
        read: makes a value of a JSON value; raises ValueError if that is wrong.
        is_choice: it stands for types of which it takes the first that can be read.
    """

    read: Callable[[Any], object]
    is_choice: bool = False


def stand_in(name: str, read: Callable[[Any], object], *, is_choice: bool = False) -> type[StandIn]:
    """Make a type that msgspec reads by calling `read` with the JSON value."""
    return cast(
        "type[StandIn]", _Anything(name, (StandIn,), {"read": staticmethod(read), "is_choice": is_choice})
    )


def encode_other(value: object) -> object:
    """Return a pydantic model as JSON values. Pydantic is asked, never imported.

    Raises:
        TypeError: it is something else.
    """
    serializer: Any = getattr(type(value), "__pydantic_serializer__", None)
    if serializer is None:
        raise TypeError(f"JSON has nothing for an object of type {type(value).__name__}")
    return serializer.to_python(value, mode="json", by_alias=True, round_trip=True)


def decode_other(kind: Any, value: object) -> object:
    """Return an instance of a stand-in's type, or of a pydantic model.

    Raises:
        ValueError: the value is wrong, or the type is another one.
    """
    if isinstance(kind, type) and issubclass(kind, StandIn):
        return kind.read(value)
    if not is_model(kind):
        raise ValueError(f"JSON cannot be read into {getattr(kind, '__name__', kind)}")
    return read_model(kind, value)


def is_model(kind: object) -> bool:
    """Return whether a type is a model or a dataclass of pydantic."""
    return hasattr(kind, "__pydantic_validator__")


def read_model(kind: Any, value: object) -> object:
    """Have pydantic read a value as it reads JSON.

    Raises:
        ValueError: it does not fit.
    """
    try:
        return kind.__pydantic_validator__.validate_json(msgspec.json.encode(value))
    except ValueError as error:
        raise ValueError(_first_of(error)) from None


def _first_of(error: Any) -> str:
    """Return the first of the faults that pydantic has found, with its place."""
    fault = error.errors(include_url=False)[0]
    place = ".".join(str(step) for step in fault["loc"])
    return f"{fault['msg']}, at {place}" if place else str(fault["msg"])
