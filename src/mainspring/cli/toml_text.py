"""Writes definitions of jobs as TOML, and reads TOML as JSON would have it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any

from mainspring.errors import InvalidInput

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LITERAL = re.compile(r"[\t\n\x20-\x7e\x80-\U0010ffff]*")


def write_toml(fields: Mapping[str, Any]) -> str:
    """Return a table as TOML, a field per line. What is nested stands in the line of its field.

    Raises:
        InvalidInput: a value is null, for which TOML has no word.
    """
    return "".join(f"{_key(name)} = {_value(value, name)}\n" for name, value in fields.items())


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _basic(name)


def _basic(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _text(text: str) -> str:
    is_literal = "\n" in text and "'''" not in text and not text.endswith("'") and _LITERAL.fullmatch(text)
    return f"'''\n{text}'''" if is_literal else _basic(text)


def _value(value: Any, path: str) -> str:
    if value is None:
        raise InvalidInput(path, "is null, which TOML cannot hold")
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        items = [f"{_key(name)} = {_value(item, f'{path}.{name}')}" for name, item in value.items()]
        return f"{{ {', '.join(items)} }}" if items else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item, f'{path}[{place}]') for place, item in enumerate(value))}]"
    return json.dumps(value)


def read_toml(text: str, field: str) -> dict[str, Any]:
    """Read TOML. Its instants and dates become text in ISO 8601.

    Raises:
        InvalidInput: it is not TOML; the message has the line.
    """
    try:
        read: dict[str, Any] = as_json(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidInput(field, f"is not TOML: {error}") from None
    return read


def as_json(value: Any) -> Any:
    """Return a value with text for what JSON does not have: instants, dates and times of day."""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {name: as_json(item) for name, item in value.items()}
    return [as_json(item) for item in value] if isinstance(value, list) else value
