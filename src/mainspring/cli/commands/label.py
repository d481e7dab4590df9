"""`mainspring label`: sets how many runs that need a label may be under way at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mainspring.cli.calling import call, plain
from mainspring.cli.options import json_option, kind_option, server_option
from mainspring.cli.output import print_fields, print_json, print_table
from mainspring.core.kinds import Whole
from mainspring.core.lane_caps import LABEL_OPTIONS

if TYPE_CHECKING:
    from mainspring.wire.policies import LabelView, QueueView, TenantView

_MAX_RUNNING = LABEL_OPTIONS.get("max_running")


@click.group("label")
def label_group() -> None:
    """Set how many runs that need a label may be under way at a time."""


@label_group.command("set")
@click.argument("name")
@kind_option("--max-running", _MAX_RUNNING.kind, words=_MAX_RUNNING.summary)
@server_option
@json_option
def set_command(name: str, max_running: int | None, server: str, *, as_json: bool) -> None:
    """Set what holds for label NAME. It holds at once; runs under way go on."""
    body = {} if max_running is None else {"max_running": max_running}
    _print(call(server, lambda client: client.put_label(name, body)), as_json=as_json)


@label_group.command("show")
@click.argument("name")
@server_option
@json_option
def show_command(name: str, server: str, *, as_json: bool) -> None:
    """Show what is set for label NAME, and how many of its runs are under way."""
    _print(call(server, lambda client: client.get_label(name)), as_json=as_json)


@label_group.command("list")
@kind_option("--limit", Whole(1, 1000), default="100", words="The most to list.")
@click.option("--after", metavar="NAME", help="Only labels after this one, to go on with a list.")
@server_option
@json_option
def list_command(limit: int, after: str | None, server: str, *, as_json: bool) -> None:
    """List the labels for which something was set."""
    page = call(server, lambda client: client.list_labels(after=after, limit=limit))
    if as_json:
        print_json(plain(page))
        return
    rows = [(label.name, show_cap(label)) for label in page.items]
    print_table(("LABEL", "RUNNING"), rows, empty="nothing is set for any label")
    if page.next is not None:
        click.echo(f"for later ones, add --after {page.next}", err=True)


@label_group.command("rm")
@click.argument("name")
@server_option
@json_option
def rm_command(name: str, server: str, *, as_json: bool) -> None:
    """Unset what is set for label NAME. Its runs start without a cap then."""
    call(server, lambda client: client.delete_label(name))
    if as_json:
        print_json({"deleted": True, "name": name})
    else:
        click.echo(f"deleted {name}")


def show_cap(view: LabelView | QueueView | TenantView) -> str:
    """Show how much of a cap is taken; nothing if there is none."""
    return "" if view.max_running is None else f"{view.running or 0} of {view.max_running}"


def _print(label: LabelView, *, as_json: bool) -> None:
    if as_json:
        print_json(plain(label))
    else:
        print_fields(plain(label))
