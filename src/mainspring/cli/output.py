"""Prints the results of commands: JSON for programs, tables on a terminal, plain columns elsewhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import click


def print_json(value: object) -> None:
    """Print a value as one JSON document."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=_plain))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print rows under headings, on a terminal with rich, elsewhere in plain columns.

    Args:
        empty: what to print if there are no rows.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    if not cells:
        click.echo(empty, err=True)
        return
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*columns, box=None, header_style="bold", pad_edge=False)
        for row in cells:
            table.add_row(*(Text(cell) for cell in row))
        Console().print(table)
        return
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for row in ([*columns], *cells):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_fields(fields: Mapping[str, object]) -> None:
    """Print one object, a field per line. Fields that are None are left out."""
    shown = {name: _cell(value) for name, value in fields.items() if value is not None}
    width = max(map(len, shown), default=0)
    for name, text in shown.items():
        first, *more = text.split("\n")
        click.echo(f"{name.ljust(width)}  {first}".rstrip())
        for line in more:
            click.echo(" " * (width + 2) + line)


def show_instant(instant: datetime, tz: str | None = None) -> str:
    """Return an instant as text, to the second and with its offset, in a zone if one is given."""
    local = instant.astimezone(ZoneInfo(tz)) if tz else instant
    return local.isoformat(sep=" ", timespec="seconds")


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return show_instant(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=_plain)
    return str(value)


def _plain(value: Any) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no JSON form")
