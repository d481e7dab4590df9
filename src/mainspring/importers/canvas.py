"""Calls that another tool puts together, and how an app writes them."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field, replace
from typing import Any, TypeAlias

from mainspring.core.values import value
from mainspring.importers.literals import write_literal


@value()
class ImportedCall:
    """A call of a job.

    Attributes:
        job: its name.
        is_immutable: what runs before it gives it nothing.
        options: of this call alone, as arguments of `Signature.set`.
        handlers: what runs if it fails.
    """

    job: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    is_immutable: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    handlers: tuple[ImportedCall, ...] = ()


@value()
class ImportedCanvas:
    """Calls that run one after another, or at the same time.

    Attributes:
        handlers: what runs if one of them fails.
    """

    is_chain: bool
    parts: tuple[ImportedPart, ...]
    handlers: tuple[ImportedCall, ...] = ()


ImportedPart: TypeAlias = ImportedCall | ImportedCanvas
ImportedFunctions: TypeAlias = Mapping[str, tuple[Mapping[str, Any], Callable[..., Any]]]
"""By the names of jobs, their bodies and their functions."""
Weave: TypeAlias = Callable[[str, Mapping[str, Any], ImportedPart, ImportedFunctions], Mapping[str, Any]]
"""Returns the body of a workflow, by its name, the options of the job, what it runs, and the functions of that.

It raises `InvalidInput` if the parts do not go together. `cli.imported_canvas` has one.
"""


def add_handlers(part: ImportedPart, handlers: tuple[ImportedCall, ...]) -> ImportedPart:
    """Return a part with further handlers of errors."""
    return replace(part, handlers=(*part.handlers, *handlers))


def jobs_of(part: ImportedPart) -> Iterator[str]:
    """Yield the jobs that a part calls."""
    if isinstance(part, ImportedCall):
        yield part.job
    else:
        for each in part.parts:
            yield from jobs_of(each)
    for handler in part.handlers:
        yield from jobs_of(handler)


def kinds_of(part: ImportedPart) -> Iterator[str]:
    """Yield what a part is written with: `chain`, `group`."""
    if isinstance(part, ImportedCanvas):
        yield "chain" if part.is_chain else "group"
        for each in part.parts:
            yield from kinds_of(each)


def write_part(part: ImportedPart, names: Mapping[str, str]) -> str:
    """Return Python for a part, by the name that each job has there."""
    if isinstance(part, ImportedCall):
        arguments = [*map(write_literal, part.args), *_keywords(part.kwargs)]
        text = f"{names[part.job]}.{'si' if part.is_immutable else 's'}({', '.join(arguments)})"
        text += f".set({', '.join(_keywords(part.options))})" if part.options else ""
    else:
        parts = ", ".join(write_part(each, names) for each in part.parts)
        text = f"{'chain' if part.is_chain else 'group'}({parts})"
    return text + "".join(f".on_error({write_part(handler, names)})" for handler in part.handlers)


def name_in_code(text: str, taken: Collection[str]) -> str:
    """Return a name for a variable, after the last part of another name."""
    plain = re.sub(r"\W+", "_", text.rpartition(".")[2], flags=re.ASCII).strip("_").lower()
    plain = plain if plain[:1].isalpha() else f"job_{plain}"
    name, number = plain, 1
    while name in taken or keyword.iskeyword(name) or hasattr(builtins, name):
        number += 1
        name = f"{plain}_{number}"
    return name


def _keywords(given: Mapping[str, Any]) -> list[str]:
    return [f"{name}={write_literal(one)}" for name, one in given.items()]
