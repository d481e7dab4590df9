"""Workflows of calls that an importer has found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.importers.canvas import ImportedCall, ImportedFunctions, ImportedPart
from mainspring.sdk.app import App
from mainspring.sdk.function import Function
from mainspring.sdk.signatures import Canvas, Signature


def weave(
    name: str,
    options: Mapping[str, Any],
    part: ImportedPart,
    functions: ImportedFunctions,
) -> Mapping[str, Any]:
    """Return the body of a workflow, as the written app would define it.

    Args:
        options: those of the job.
        part: what it runs.
        functions: by the names of the jobs, their bodies and their functions.

    Raises:
        InvalidInput: its parts do not go together, or an option is wrong.
    """
    app = App()
    made: dict[str, Function[..., Any, Any]] = {
        job: Function(app, job, call, body) for job, (body, call) in functions.items()
    }
    workflow = app.workflow(name, **options)
    workflow.returns(workflow.add(_make(part, made)).result)
    return workflow.definition


def _make(part: ImportedPart, functions: Mapping[str, Function[..., Any, Any]]) -> Signature | Canvas:
    made: Signature | Canvas
    if isinstance(part, ImportedCall):
        made = Signature(functions[part.job], part.args, part.kwargs, is_immutable=part.is_immutable)
        if part.options:
            made = made.set(**part.options)
    else:
        made = Canvas(tuple(_make(each, functions) for each in part.parts), is_chain=part.is_chain)
    for handler in part.handlers:
        call = _make(handler, functions)
        assert isinstance(call, Signature), "a handler is one call"
        made = made.on_error(call)
    return made
