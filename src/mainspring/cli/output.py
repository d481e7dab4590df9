"""Prints the results of commands: JSON for programs, tables and fields for people."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import click

from mainspring.cli.terminal import Terminal, wrap_text
from mainspring.core.fields import show
from mainspring.core.run_logs import strip_controls

UTC_CHOSEN = "mainspring.utc"
"""Where a command's context has whether to show instants in UTC."""


def print_json(value: object) -> None:
    """Print a value as one JSON document. Its instants are in UTC, but for those that are told in a job's zone."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=show_plain))


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    empty: str,
    last: Collection[str] = (),
) -> None:
    """Print rows under headings.

    On a terminal, a table is made to fit: texts are cut, but never ids and instants, and a long table goes through a
    pager. Elsewhere every row is whole.

    Args:
        empty: what to print if there are no rows.
        last: the headings of what is cut only once nothing else can be: names that commands take, and sentences.
    """
    values = [list(row) for row in rows]
    if not values:
        click.echo(empty, err=True)
        return
    terminal = Terminal.of_output()
    cells = [[_cell(value, is_short=terminal is not None) for value in row] for row in values]
    if terminal is not None:
        places = [number for number, heading in enumerate(columns) if heading in last]
        terminal.print_table(columns, cells, fixed=_fixed_columns(values), last=places)
        return
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for row in ([*columns], *cells):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _fixed_columns(rows: Sequence[Sequence[object]]) -> frozenset[int]:
    """Return the columns that hold ids or instants."""
    return frozenset(
        number
        for number, column in enumerate(zip(*rows, strict=True))
        if any(isinstance(value, datetime) or (isinstance(value, str) and _is_id(value)) for value in column)
    )


def _is_id(text: str) -> bool:
    kind, _, rest = text.partition("_")
    return kind in {"run", "job", "backfill", "redrive", "ses"} and len(rest) >= 13 and rest.isalnum()


def print_fields(fields: Mapping[str, object], *, err: bool = False) -> None:
    """Print one object, a field per line. Fields that are None are left out, and long texts wrapped on a terminal.

    Args:
        err: print to stderr, because stdout has something that is to be caught alone.
    """
    shown = {name: _cell(value) for name, value in fields.items() if value is not None}
    terminal = Terminal.of_output()
    width = max(map(len, shown), default=0)
    for name, text in shown.items():
        room = None if terminal is None else terminal.columns - width - 2
        first, *more = wrap_text(text, room)
        click.echo(f"{name.ljust(width)}  {first}".rstrip(), err=err)
        for line in more:
            click.echo((" " * (width + 2) + line).rstrip(), err=err)


def show_instant(instant: datetime, tz: str | None = None) -> str:
    """Return an instant as text, to the second and with its offset.

    Args:
        tz: a zone; without one, the instant is told in the zone of the terminal, or with --utc in UTC.
    """
    return _in_zone(instant, tz).isoformat(sep=" ", timespec="seconds")


def show_age(instant: datetime, now: datetime) -> str:
    """Return how long ago an instant was, roughly: `4s`, `12m`, `3h`, `5d`."""
    age = max(now - instant, timedelta(0))
    return show_rough(age - age % timedelta(seconds=1))


def show_rough(duration: timedelta) -> str:
    """Return a duration in one or two units, like `1h5m`; below ten seconds to a tenth."""
    if duration < timedelta(seconds=1):
        return show(duration - duration % timedelta(milliseconds=1))
    steps = {timedelta(seconds=10): timedelta(seconds=0.1), timedelta(hours=1): timedelta(seconds=1)}
    step = next((step for below, step in steps.items() if duration < below), timedelta(minutes=1))
    if duration >= timedelta(days=2):
        step = timedelta(hours=1)
    return show(duration - duration % step)


def _in_zone(instant: datetime, tz: str | None) -> datetime:
    if tz:
        return instant.astimezone(ZoneInfo(tz))
    context = click.get_current_context(silent=True)
    is_utc = context is not None and context.meta.get(UTC_CHOSEN, False)
    return instant.astimezone(UTC) if is_utc else instant.astimezone()


def _cell(value: object, *, is_short: bool = False) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        # In a table on a terminal all instants are of its zone, which needs no telling in each row.
        return f"{_in_zone(value, None):%Y-%m-%d %H:%M:%S}" if is_short else show_instant(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping | list | tuple):
        return strip_controls(json.dumps(value, ensure_ascii=False, default=show_plain))
    return strip_controls(str(value)).rstrip("\n")


def show_plain(value: Any) -> object:
    """Return what JSON has no form for, an instant, as text."""
    if isinstance(value, datetime):
        import msgspec

        return msgspec.to_builtins(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
