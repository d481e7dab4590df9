"""Requests as bytes: what JSON or HTTP cannot carry is refused before anything is sent, by the name of its field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NoReturn

from mainspring.core.fields import is_unicode, show_key
from mainspring.errors import InvalidInput
from mainspring.ports.strict_json import encode_json

_SURROGATE = "holds a lone surrogate, which is no character"


def encode_body(body: object) -> bytes:
    """Return the JSON text of a request's body.

    Raises:
        InvalidInput: a value is not JSON. The error's field is that of the body, after `[index].` in a list.
    """
    try:
        return encode_json(body)
    except (TypeError, ValueError, RecursionError) as error:
        for field, part in _parts(body):
            try:
                encode_json(part)
            except (TypeError, ValueError, RecursionError) as cause:
                _refuse(field, cause)
        _refuse("body", error)


def check_texts(texts: Mapping[str, object]) -> None:
    """Refuse text that a path, query or header cannot carry.

    Raises:
        InvalidInput: a text holds a lone surrogate; the error's field is its name.
    """
    for name, text in texts.items():
        if isinstance(text, str) and not is_unicode(text):
            raise InvalidInput(name, _SURROGATE)


def _parts(body: object) -> Iterator[tuple[str, object]]:
    """Yield each field by itself, in an object that holds nothing else."""
    if isinstance(body, Mapping):
        for name, value in body.items():
            yield show_key(name), {name: value}
    elif isinstance(body, list | tuple):
        for index, item in enumerate(body):
            for field, part in _parts(item):
                yield f"[{index}].{field}", part


def _refuse(field: str, error: Exception) -> NoReturn:
    if isinstance(error, UnicodeError):
        raise InvalidInput(field, _SURROGATE) from None
    raise InvalidInput(field, f"is not JSON: {str(error).partition(';')[0][:100]}") from None
