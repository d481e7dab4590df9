"""Prints what differs between definitions of jobs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.terminal import Terminal, cut

if TYPE_CHECKING:
    from mainspring.core.definition.changes import FieldChange
    from mainspring.wire.versions import ChangeView

_LONGEST = 200
"""Characters of a value in a list of changes."""


def tell_change(change: ChangeView | FieldChange) -> str:
    """Return a change in one line."""
    return f"{change.field}: {_show(change.before)} -> {_show(change.after)}"


def print_changes(changes: Iterable[ChangeView | FieldChange], *, indent: str = "") -> None:
    """Print changes, one in a line; on a terminal with colours."""
    terminal = Terminal.of_output()
    has_colours = terminal is not None and terminal.has_colours
    for change in changes:
        before, after = _show(change.before), _show(change.after)
        if has_colours:
            before, after = click.style(before, fg="red"), click.style(after, fg="green")
        click.echo(f"{indent}{change.field}: {before} -> {after}", color=has_colours)


def _show(value: Any) -> str:
    if value is None:
        return "(none)"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return cut(" ".join(text.split()) or '""', _LONGEST)
