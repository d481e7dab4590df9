"""`mainspring class`: sets and shows the priority classes that jobs name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mainspring.cli.calling import call, plain
from mainspring.cli.options import json_option, kind_option, server_option
from mainspring.cli.output import print_fields, print_json, print_table
from mainspring.core.kinds import OneOf, Whole

if TYPE_CHECKING:
    from mainspring.wire.priorities import PriorityClassView


@click.group("class")
def class_group() -> None:
    """Set and show priority classes, which jobs name as their priority."""


@class_group.command("set")
@click.argument("name")
@kind_option(
    "--tier",
    OneOf(("HIGH", "MEDIUM", "LOW"), in_any_case=True),
    is_required=True,
    words="The tier in which its runs are claimed.",
)
@click.option("--preempts", is_flag=True, help="Its waiting runs may take the slots of preemptible ones.")
@click.option("--preemptible", is_flag=True, help="Its runs may be stopped for more urgent work.")
@server_option
@json_option
def set_command(
    name: str, tier: str, server: str, *, preempts: bool, preemptible: bool, as_json: bool
) -> None:
    """Set class NAME. Jobs copy it when they are written; those written before keep what they have."""
    body = {"tier": tier, "preempts": preempts, "preemptible": preemptible}
    _print(call(server, lambda client: client.put_priority_class(name, body)), as_json=as_json)


@class_group.command("show")
@click.argument("name")
@server_option
@json_option
def show_command(name: str, server: str, *, as_json: bool) -> None:
    """Show class NAME."""
    _print(call(server, lambda client: client.get_priority_class(name)), as_json=as_json)


@class_group.command("list")
@kind_option("--limit", Whole(1, 1000), default="100", words="The most to list.")
@click.option("--after", metavar="NAME", help="Only classes after this one, to go on with a list.")
@server_option
@json_option
def list_command(limit: int, after: str | None, server: str, *, as_json: bool) -> None:
    """List the priority classes."""
    page = call(server, lambda client: client.list_priority_classes(after=after, limit=limit))
    if as_json:
        print_json(plain(page))
        return
    rows = [
        (one.name, one.tier, "yes" if one.preempts else "", "yes" if one.preemptible else "")
        for one in page.items
    ]
    print_table(("CLASS", "TIER", "PREEMPTS", "PREEMPTIBLE"), rows, empty="no priority classes are set")
    if page.next is not None:
        click.echo(f"for later ones, add --after {page.next}", err=True)


@class_group.command("rm")
@click.argument("name")
@server_option
@json_option
def rm_command(name: str, server: str, *, as_json: bool) -> None:
    """Delete class NAME. Jobs that named it keep what they copied."""
    call(server, lambda client: client.delete_priority_class(name))
    if as_json:
        print_json({"deleted": True, "name": name})
    else:
        click.echo(f"deleted {name}")


def _print(one: PriorityClassView, *, as_json: bool) -> None:
    if as_json:
        print_json(plain(one))
    else:
        print_fields(plain(one))
