"""What a step of a workflow has left, named in Python: it stands for the value that there will be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mainspring.core.workflows.expressions import MARK
from mainspring.errors import InvalidInput

_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_KEPT = frozenset({"true", "false", "null", "in"})
"""Words of the language, which are no fields."""


class ValueReference:
    """A value that there will be once a step has ended, or the run has begun.

    Fields and items of it are references, too: `files.result.names[0]`. As text, it is an expression:
    `when=f"{files.result.names}.size() > 0"`.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __getattr__(self, name: str) -> ValueReference:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, key: str | int) -> ValueReference:
        if isinstance(key, str) and _FIELD.fullmatch(key) and key not in _KEPT:
            return ValueReference(f"{self._text}.{key}")
        return ValueReference(f"{self._text}[{json.dumps(key, ensure_ascii=False)}]")

    def __iter__(self) -> Iterator[ValueReference]:
        raise TypeError(f"{self._text} has no value yet; let the step go over it")

    def __bool__(self) -> bool:
        raise TypeError(f"{self._text} has no value yet; write a condition as when={self._text + ' …'!r}")

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<reference {self._text}>"


def plain_payload(payload: object) -> dict[str, Any]:
    """Return the fields of a step that its payload makes: `with` if there are references in it, or `payload`.

    Raises:
        InvalidInput: a reference stands deeper than a field.
    """
    if isinstance(payload, ValueReference):
        return {"with": _mark(payload)}
    if not isinstance(payload, Mapping) or not any(
        isinstance(one, ValueReference) for one in payload.values()
    ):
        refuse_deep(payload, "payload")
        return {"payload": payload}
    made: dict[Any, Any] = {}
    for name, one in payload.items():
        if isinstance(one, ValueReference):
            made[name] = _mark(one)
        else:
            refuse_deep(one, f"payload.{name}")
            made[name] = one
    return {"with": made}


def _mark(reference: ValueReference) -> dict[str, str]:
    return {MARK: str(reference)}


def refuse_deep(value: object, path: str) -> None:
    """Refuse a reference in a value that is passed as it is.

    Raises:
        InvalidInput: there is one.
    """
    if isinstance(value, ValueReference):
        message = f"{value} must be the payload, or one of its fields; deeper it is not found"
        raise InvalidInput(path, message)
    if isinstance(value, Mapping):
        for name, one in value.items():
            refuse_deep(one, f"{path}.{name}")
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for place, one in enumerate(value):
            refuse_deep(one, f"{path}[{place}]")
