"""Reads and writes the values of one annotation."""

from __future__ import annotations

import inspect
import re
from typing import Any

import msgspec

from mainspring.core.fields import kind
from mainspring.errors import InvalidInput
from mainspring.payloads.hooks import encode_other
from mainspring.payloads.readable import (
    Unreadable,
    compile_readable,
    convert,
    has_choice,
    is_plain,
    to_readable,
)

_JSON_TYPES = (str, int, float, type(None), list, tuple, dict)
_PATHS = re.compile(r" - at `\$\.value\.?(?P<path>[^`]*)`$")
_QUALIFIERS = re.compile(r"\b(?:\w+\.|<locals>\.)+")
_BOOLS = re.compile(r"\b(?:bool \| (int|float)|(int|float) \| bool)\b")


class Codec:
    """Reads and writes the values of one annotation.

    Args:
        annotation: a resolved annotation, or text that could not be resolved.
        default: what is always right, too.

    Attributes:
        is_plain: its JSON values are Python's already; `decode` would return what it gets.
    """

    __slots__ = ("_box", "_default", "_refusal", "_shown", "_simple", "_tells_apart", "is_plain")

    def __init__(self, annotation: Any, *, default: object = inspect.Parameter.empty) -> None:
        self._default = default
        self._shown = show_annotation(annotation)
        self._refusal: str | None = None
        self._box: type[msgspec.Struct] | None = None
        self._simple = annotation if annotation in (str, int, bool, list, dict) else ()
        self._tells_apart = True
        self.is_plain: bool = False
        try:
            self._compile(annotation)
        except Unreadable as error:
            self._refusal, self.is_plain = str(error), True

    def _compile(self, annotation: Any) -> None:
        if isinstance(annotation, str):
            raise Unreadable("the name is not known at run time; import it outside of `if TYPE_CHECKING`")
        try:
            self.is_plain = is_plain(annotation)
            readable = to_readable(annotation)
            self._tells_apart = not has_choice(readable)
            self._box = compile_readable(readable)
        except (
            RecursionError,
            NameError,
        ) as error:  # an alias of itself; a name in a class that is not known
            raise Unreadable(str(error)) from None

    def encode(self, value: Any, field: str) -> object:
        """Return a value as JSON values. One of a plain annotation stays as it is.

        Raises:
            InvalidInput: it does not fit the annotation, or would be read as something else; the field is `field`.
        """
        if isinstance(value, self._simple):
            return value
        if self._box is None:
            if isinstance(value, _JSON_TYPES):
                return value
            message = f"must be JSON, not {type(value).__name__}, because {self._shown} cannot be read: {self._refusal}"
            raise InvalidInput(field, message)
        try:
            encoded = msgspec.to_builtins(value, str_keys=True, enc_hook=encode_other)
            again = convert(encoded, self._box)
        except (TypeError, ValueError, RecursionError) as error:
            if value is self._default:
                return value
            raise self._refuse(error, field, value, type(value).__name__) from None
        if not self._tells_apart and again != value:
            shown = f"{type(value).__name__} would be read as {type(again).__name__}"
            raise InvalidInput(field, f"must be {self._shown}, told apart as JSON; this {shown}")
        return value if self.is_plain else encoded

    def decode(self, value: object, field: str) -> Any:
        """Return JSON values as what the annotation says.

        Raises:
            InvalidInput: they do not fit; the field is `field`.
        """
        if self._box is None or value is self._default:
            return value
        try:
            return convert(value, self._box)
        except (TypeError, ValueError, RecursionError) as error:
            raise self._refuse(error, field, value, kind(value)) from None

    def _refuse(self, error: Exception, field: str, value: object, got: str) -> InvalidInput:
        text = str(error)
        found = _PATHS.search(text)
        cause = _BOOLS.sub(r"\1\2", _PATHS.sub("", text)).replace("`", "")
        if found and found["path"]:
            return InvalidInput(
                field, f"must be {self._shown}: {cause[:1].lower()}{cause[1:]}, at {found['path']}"
            )
        if cause.startswith("Expected "):
            return InvalidInput(field, f"must be {self._shown}, not {got}")
        if cause.startswith("Invalid ") and isinstance(value, str):
            return InvalidInput(field, f"must be {self._shown}, not {value[:60]!r}")
        return InvalidInput(field, f"must be {self._shown}: {cause}")


def show_annotation(annotation: Any) -> str:
    """Write an annotation as its author did, without the modules of its names."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _QUALIFIERS.sub("", text)
