"""Requests as bytes: what JSON or HTTP cannot carry is refused before anything is sent, by the name of its field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NoReturn

from mainspring.core.fields import is_unicode, kind, show_key
from mainspring.errors import InvalidInput
from mainspring.ports.strict_json import encode_json

_SURROGATE = "holds a lone surrogate, which is no character"


def encode_body(body: object) -> bytes:
    """Return the JSON text of a request's body.

    Raises:
        InvalidInput: a value is not JSON, or a key is not text, which JSON would turn into text without a word. The
            error's field is that of the body, after `[index].` in a list.
    """
    try:
        text = encode_json(body)
    except (TypeError, ValueError, RecursionError) as error:
        for field, part in _parts(body):
            try:
                encode_json(part)
            except (TypeError, ValueError, RecursionError) as cause:
                _refuse(field, cause)
        _refuse("body", error)
    if _find_odd_key(body) is not None:
        _refuse_key(body)
    return text


def check_texts(texts: Mapping[str, object]) -> None:
    """Refuse text that a path, query or header cannot carry.

    Raises:
        InvalidInput: a text holds a lone surrogate; the error's field is its name.
    """
    for name, text in texts.items():
        if isinstance(text, str) and not is_unicode(text):
            raise InvalidInput(name, _SURROGATE)


def check_key(name: str, key: object) -> None:
    """Refuse an id or a name with which a path would be that of another operation: `..` is resolved before it is sent.

    Raises:
        InvalidInput: it is empty, `.` or `..`, or no text; the error's field is `name`.
    """
    if not isinstance(key, str) or key in {"", ".", ".."}:
        shown = repr(key) if isinstance(key, str) else kind(key)
        right = f"an id like {name.removesuffix('id')}…" if name.endswith("_id") else "a name"
        raise InvalidInput(name, f"must be {right}, not {shown}")


def _parts(body: object) -> Iterator[tuple[str, object]]:
    """Yield each field by itself, in an object that holds nothing else."""
    if isinstance(body, Mapping):
        for name, value in body.items():
            yield show_key(name) if isinstance(name, str) else "body", {name: value}
    elif isinstance(body, list | tuple):
        for index, item in enumerate(body):
            for field, part in _parts(item):
                yield f"[{index}].{field}", part


def _find_odd_key(value: object) -> str | None:
    """Name the kind of a key that is not text; None if there is none. The value is known to end: it was encoded."""
    level: list[object] = [value]
    while level:
        below: list[object] = []
        for item in level:
            if isinstance(item, dict):
                for key in item:
                    if not isinstance(key, str):
                        return kind(key)
                below.extend(item.values())
            elif isinstance(item, list | tuple):
                below.extend(item)
        level = below
    return None


def _refuse_key(body: object) -> NoReturn:
    for field, part in _parts(body):
        odd = _find_odd_key(part)
        if odd is not None:
            raise InvalidInput(field, f"keys must be text, not {odd}")
    raise AssertionError("one part has the key")


def _refuse(field: str, error: Exception) -> NoReturn:
    if isinstance(error, UnicodeError):
        raise InvalidInput(field, _SURROGATE) from None
    raise InvalidInput(field, f"is not JSON: {str(error).partition(';')[0][:100]}") from None
