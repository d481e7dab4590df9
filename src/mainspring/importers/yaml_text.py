"""Reads YAML as JSON would have it: by the rules of YAML 1.2, so that `no`, `1:30` and a date are text."""

from __future__ import annotations

import re
from typing import Any

from mainspring.errors import InvalidInput, MissingExtra

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]{1,40}", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,3})?", re.ASCII)
_MOST_VALUES = 100_000
_DEEPEST = 100
_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("null", "bool", "int", "float", "str", "timestamp", "merge", "value", "seq", "map")
)
_TEXT = "tag:yaml.org,2002:str"


def read_yaml(text: str, field: str) -> tuple[Any, dict[str, list[int]]]:
    """Read YAML. Return the value, and for each list at the top the lines in which its items begin.

    Raises:
        InvalidInput: it is not one document of YAML, or has what JSON has not; the message has the line.
        MissingExtra: the package that reads YAML is not installed.
    """
    nodes = _compose(text, field)
    if len(nodes) > 1:
        line = nodes[1].start_mark.line + 1
        raise InvalidInput(
            field,
            f"has more than one document (the second begins in line {line}); give each a file of its own",
        )
    return (_Reader(field, text).read(nodes[0], 0), _lines_of(nodes[0])) if nodes else (None, {})


def read_documents(text: str, field: str) -> list[Any]:
    """Read any number of documents of YAML, one after another.

    Raises:
        InvalidInput, MissingExtra: as from `read_yaml`.
    """
    reader = _Reader(field, text)
    return [reader.read(node, 0) for node in _compose(text, field)]


def _compose(text: str, field: str) -> list[Any]:
    try:
        import yaml
    except ImportError:
        raise MissingExtra("jobs in YAML cannot be read (TOML needs no extra)", "yaml") from None
    try:
        return list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" (line {mark.line + 1})"
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise InvalidInput(field, f"is not YAML: {problem}{where}") from None


def _lines_of(node: Any) -> dict[str, list[int]]:
    if node.id != "mapping":
        return {}
    return {
        str(key.value): [item.start_mark.line + 1 for item in value.value]
        for key, value in node.value
        if value.id == "sequence"
    }


class _Reader:
    """Turns the nodes of a text into values.

    How many is bounded by the length of the text, since a name may stand for a large part.
    """

    def __init__(self, field: str, text: str) -> None:
        self._field = field
        self._left = max(_MOST_VALUES, len(text))

    def read(self, node: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            raise self._wrong(node, "it has too many values, or too deep ones")
        if node.tag not in _TAGS:
            raise self._wrong(node, f"the tag {node.tag[:60]} has no meaning here")
        if node.id == "scalar":
            return self._scalar(node)
        if node.id == "sequence":
            return [self.read(item, depth + 1) for item in node.value]
        return self._mapping(node, depth)

    def _mapping(self, node: Any, depth: int) -> dict[str, Any]:
        read: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            name = key.value if key.id == "scalar" else None
            if name is None:
                raise self._wrong(key, "a field's name is text")
            if name == "<<" and key.style is None:
                parts = value.value if value.id == "sequence" else [value]
                for part in parts:
                    if part.id != "mapping":
                        raise self._wrong(value, "<< goes with an object")
                    merged = self._mapping(part, depth + 1) | merged
                continue
            if name in read:
                raise self._wrong(key, f"{name[:60]!r} stands there twice")
            read[name] = self.read(value, depth + 1)
        return merged | read

    @staticmethod
    def _scalar(node: Any) -> Any:
        text: str = node.value
        if node.style is not None or node.tag == _TEXT:
            return text
        if text in _NULL:
            return None
        if text in _BOOLEANS:
            return _BOOLEANS[text]
        if _INT.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text) and abs(float(text)) != float("inf"):
            return float(text)
        return text

    def _wrong(self, node: Any, message: str) -> InvalidInput:
        return InvalidInput(self._field, f"{message} (line {node.start_mark.line + 1})")
