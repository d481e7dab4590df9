"""Writes a Python app of imported jobs: the functions stay where they are, and the app makes jobs of them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mainspring.importers.found import ImportedJob

_WIDTH = 88


def write_app(entries: Sequence[ImportedJob], *, source: str, owner: str, setup: Sequence[str] = ()) -> str:
    """Return the text of a module with an app.

    Args:
        entries: the jobs, each with the expression that gives its function, and the import that this needs.
        source: what was imported, for the docstring.
        owner: the app's name.
        setup: lines that come before the first function is taken.
    """
    parts = [
        f'"""The jobs of {source}, written by mainspring import. Yours to edit: it is not read again."""',
        "",
        *sorted({entry.needs for entry in entries}),
        "",
        "from mainspring import App",
        "",
        f"app = App(name={_literal(owner)})",
        *setup,
    ]
    for entry in entries:
        parts += ["", *_write_job(entry)]
    return "\n".join(parts) + "\n"


def _write_job(entry: ImportedJob) -> list[str]:
    options = [
        f"retries={value['max_retries']}"
        if field == "retry" and set(value) == {"max_retries"}
        else f"{field}={_literal(value)}"
        for field, value in entry.body.items()
        if field not in {"name", "function"}
    ]
    arguments = [_literal(entry.name), *options]
    line = f"app.job({', '.join(arguments)})({entry.call})"
    if len(line) <= _WIDTH:
        return [line]
    return ["app.job(", *(f"    {each}," for each in arguments), f")({entry.call})"]


def _literal(value: object) -> str:
    """Return Python for a JSON value."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(key)}: {_literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_literal(item) for item in value) + "]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)
