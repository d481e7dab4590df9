"""`mainspring logging`: which lines a server writes to its log."""

from __future__ import annotations

import click

from mainspring.cli.calling import call, plain
from mainspring.cli.options import json_option, server_option
from mainspring.cli.output import print_json, show_instant


@click.command("logging")
@click.argument("level", required=False, type=click.Choice(["debug", "info", "warning", "error"]))
@click.option("--duration", metavar="DURATION", default="10m", show_default=True, help="How long, up to 1d.")
@server_option
@json_option
def logging_command(level: str | None, duration: str, server: str, *, as_json: bool) -> None:
    """Show the lowest level of lines that the server writes to its log, or set it to LEVEL for a while.

    It is about the server that answers, of several that share a store. A process on this machine, a worker too, writes
    everything for ten minutes after `kill -USR2 PID`.
    """
    if level is None:
        found = call(server, lambda client: client.get_logging())
    else:
        found = call(server, lambda client: client.set_logging(level, duration=duration))
    if as_json:
        print_json(plain(found))
    elif found.until is None:
        click.echo(f"{found.level}, as its settings say")
    else:
        click.echo(f"{found.level} until {show_instant(found.until)}, then {found.usual}")
