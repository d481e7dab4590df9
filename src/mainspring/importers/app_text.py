"""Writes a Python app of imported jobs: the functions stay where they are, and the app makes jobs of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mainspring.importers.canvas import jobs_of, kinds_of, name_in_code, write_part
from mainspring.importers.found import ImportedJob
from mainspring.importers.literals import write_literal

_WIDTH = 88
_TAKEN = frozenset({"App", "app", "chain", "group", "celery_app"})
"""Names that mean something else in what is written."""


def write_app(entries: Sequence[ImportedJob], *, source: str, owner: str, setup: Sequence[str] = ()) -> str:
    """Return the text of a module with an app.

    Args:
        entries: the jobs, each with the expression that gives its function, and the import that this needs.
        source: what was imported, for the docstring.
        owner: the app's name.
        setup: lines that come before the first function is taken.
    """
    canvases = [entry.canvas for entry in entries if entry.canvas is not None]
    used = sorted({kind for canvas in canvases for kind in kinds_of(canvas)})
    names: dict[str, str] = {}
    for job in dict.fromkeys(job for canvas in canvases for job in jobs_of(canvas)):
        names[job] = name_in_code(job, {*_TAKEN, *names.values()})
    parts = [
        f'"""The jobs of {source}, written by mainspring import. Yours to edit: it is not read again."""',
        "",
        *sorted({entry.needs for entry in entries if entry.needs}),
        "",
        f"from mainspring import {', '.join(['App', *used])}",
        "",
        f"app = App(name={write_literal(owner)})",
        *setup,
    ]
    for entry in entries:
        if entry.canvas is None:
            parts += ["", *_write_job(entry, names.get(entry.name))]
    taken = {*_TAKEN, *names.values()}
    for entry in entries:
        if entry.canvas is not None:
            name = name_in_code(entry.name, taken)
            taken.add(name)
            parts += ["", *_write_workflow(entry, name, names)]
    return "\n".join(parts) + "\n"


def _write_job(entry: ImportedJob, name: str | None) -> list[str]:
    """Return the lines of a job.

    Args:
        name: the variable that has it; None if nothing needs it.
    """
    return _write_call(
        f"{name} = app.job" if name else "app.job", _arguments(entry, {"name", "function"}), f"({entry.call})"
    )


def _write_workflow(entry: ImportedJob, name: str, names: Mapping[str, str]) -> list[str]:
    assert entry.canvas is not None, "it is one"
    made = _write_call(f"{name} = app.workflow", _arguments(entry, {"name", "workflow"}), "")
    return [*made, f"{name}.returns({name}.add({write_part(entry.canvas, names)}).result)"]


def _arguments(entry: ImportedJob, apart: set[str]) -> list[str]:
    options = [
        f"retries={value['max_retries']}"
        if field == "retry" and set(value) == {"max_retries"}
        else f"{field}={write_literal(value)}"
        for field, value in entry.body.items()
        if field not in apart
    ]
    return [write_literal(entry.name), *options]


def _write_call(call: str, arguments: Sequence[str], rest: str) -> list[str]:
    line = f"{call}({', '.join(arguments)}){rest}"
    if len(line) <= _WIDTH:
        return [line]
    return [f"{call}(", *(f"    {each}," for each in arguments), f"){rest}"]
