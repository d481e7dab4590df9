"""JSON values as Python."""

from __future__ import annotations

import json


def write_literal(value: object) -> str:
    """Return Python for a JSON value."""
    if isinstance(value, dict):
        items = (f"{write_literal(key)}: {write_literal(item)}" for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(write_literal(item) for item in value) + "]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)
