"""`mainspring doctor`: looks at the whole installation, and says what is wrong, why it matters, and what to do."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.options import json_option, read_choices, server_option, store_options
from mainspring.cli.output import print_json
from mainspring.cli.terminal import Terminal

if TYPE_CHECKING:
    from mainspring.core.doctor import Checked, Grade

_MARKS = {"fine": ("ok", "green"), "warning": ("!!", "yellow"), "failure": ("XX", "red")}
_MOST_COLUMNS = 110


@click.command("doctor")
@store_options
@server_option
@click.option("--problems", is_flag=True, help="Show only what is not fine.")
@json_option
@click.pass_context
def doctor_command(context: click.Context, /, server: str, *, problems: bool, as_json: bool, **_: Any) -> int:
    """Look at the store, the settings of this host, and the cluster, and say what is wrong.

    Of each finding it says why it matters and what to do. It changes nothing, and may run at any time; run it on a
    server's host, as the server's user. The exit code is 0 if all is fine, 1 if something is doubtful, and 2 if
    something is wrong.
    """
    from mainspring.cli.commands.backup import location_of
    from mainspring.config.sources import read_sources
    from mainspring.core.doctor import examine, worst_of
    from mainspring.host.examining import gather

    choices = read_choices(context)
    own = read_sources({}, config=context.params["config"])  # of this host, whatever this command is given
    facts = asyncio.run(gather(location_of(choices), own, address=server))
    checked = examine(facts)
    worst = worst_of(checked)
    shown = [one for one in checked if one.severity.value != "fine"] if problems else checked
    if as_json:
        print_json({"severity": worst, "checks": [_plain(one) for one in shown]})
    else:
        _print_checks(shown)
        click.echo(_sum_up(checked, worst))
    return worst.exit_code


def _plain(one: Checked) -> dict[str, str]:
    return {
        "area": one.area,
        "check": one.check,
        "severity": one.severity.value,
        "found": one.found,
        "why": one.why,
        "remedy": one.remedy,
    }


def _print_checks(checked: Sequence[Checked]) -> None:
    terminal = Terminal.of_output()
    columns = _MOST_COLUMNS if terminal is None else min(terminal.columns, _MOST_COLUMNS)
    width = max((len(one.check) for one in checked), default=0)
    area = ""
    for one in checked:
        if one.area != area:
            area = one.area
            click.echo(area.upper())
        mark, colour = _MARKS[one.severity.value]
        shown = click.style(mark, fg=colour) if terminal is not None and terminal.has_colours else mark
        indent = " " * (width + 7)
        first, *more = textwrap.wrap(one.found, max(columns - len(indent), 30)) or [""]
        click.echo(f"  {shown}  {one.check.ljust(width)} {first}")
        told = [*more]
        for label, text in (("why", one.why), ("do", one.remedy)):
            if text:
                lines = textwrap.wrap(text, max(columns - len(indent) - 5, 30))
                told += [f"{label if not place else '':<4} {line}" for place, line in enumerate(lines)]
        for line in told:
            click.echo(f"{indent}{line}".rstrip())


def _sum_up(checked: Sequence[Checked], worst: Grade) -> str:
    counts = {kind: sum(one.severity.value == kind for one in checked) for kind in _MARKS}
    if worst.value == "fine":
        return f"All {len(checked)} checks are fine."
    told = [f"{counts['failure']} wrong"] if counts["failure"] else []
    told += [f"{counts['warning']} doubtful"] if counts["warning"] else []
    return f"{len(checked)} checks: {', '.join(told)}, {counts['fine']} fine."
