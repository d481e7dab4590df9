"""`mainspring queue`: sets in which order queues are served."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from mainspring.cli.calling import call, plain
from mainspring.cli.options import json_option, kind_option, server_option
from mainspring.cli.output import print_fields, print_json, print_table
from mainspring.core.kinds import Whole
from mainspring.core.queues import QUEUE_OPTIONS, QueueOrder

if TYPE_CHECKING:
    from mainspring.wire.policies import QueueView

_ORDER, _AGING, _SHARE = (QUEUE_OPTIONS.get(name) for name in ("order", "aging", "aging_share"))


@click.group("queue")
def queue_group() -> None:
    """Set in which order queues are served, and show it."""


@queue_group.command("set")
@click.argument("name")
@kind_option("--order", _ORDER.kind, words=_ORDER.summary)
@kind_option("--aging", _AGING.kind, words=_AGING.summary)
@kind_option("--aging-share", _SHARE.kind, words=_SHARE.summary)
@server_option
@json_option
def set_command(
    name: str,
    order: QueueOrder | None,
    aging: timedelta | None,
    aging_share: float | None,
    server: str,
    *,
    as_json: bool,
) -> None:
    """Set the order of queue NAME. What you leave out gets its default. It holds within a second."""
    given = ((_ORDER, order), (_AGING, aging), (_SHARE, aging_share))
    body = {option.key: option.store(value) for option, value in given if value is not None}
    _print(call(server, lambda client: client.put_queue(name, body)), as_json=as_json)


@queue_group.command("show")
@click.argument("name")
@server_option
@json_option
def show_command(name: str, server: str, *, as_json: bool) -> None:
    """Show what is set for queue NAME."""
    _print(call(server, lambda client: client.get_queue(name)), as_json=as_json)


@queue_group.command("list")
@kind_option("--limit", Whole(1, 1000), default="100", words="The most to list.")
@click.option("--after", metavar="NAME", help="Only queues after this one, to go on with a list.")
@server_option
@json_option
def list_command(limit: int, after: str | None, server: str, *, as_json: bool) -> None:
    """List the queues for which something was set. All others have the defaults."""
    page = call(server, lambda client: client.list_queues(after=after, limit=limit))
    if as_json:
        print_json(plain(page))
        return
    rows = [
        (queue.name, queue.order, f"{queue.aging_seconds:g} s", queue.aging_share) for queue in page.items
    ]
    print_table(("QUEUE", "ORDER", "AGING", "AGING SHARE"), rows, empty="nothing is set for any queue")
    if page.next is not None:
        click.echo(f"for later ones, add --after {page.next}", err=True)


def _print(queue: QueueView, *, as_json: bool) -> None:
    if as_json:
        print_json(plain(queue))
    else:
        print_fields(plain(queue))
