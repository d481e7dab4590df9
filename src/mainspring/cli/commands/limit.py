"""`mainspring limit`: sets limits that jobs share, and shows what is taken of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mainspring.cli.calling import call, plain
from mainspring.cli.options import caller_options, json_option, kind_option
from mainspring.cli.output import print_fields, print_json, print_table, show_instant
from mainspring.core.kinds import Whole
from mainspring.core.limit_settings import BURST, HOLD, MAX_RUNNING, RATE
from mainspring.core.limits import Hold
from mainspring.core.rates import Rate

if TYPE_CHECKING:
    from mainspring.wire.limits import LimitView

_PAGE = Whole(1, 1000)


_cluster_option = click.option(
    "--cluster",
    "scope",
    is_flag=True,
    flag_value="cluster",
    default="tenant",
    help="Not a limit of the tenant, but one that all tenants share.",
)


@click.group("limit")
def limit_group() -> None:
    """Set limits that jobs share, and show what is taken of them."""


@limit_group.command("set")
@click.argument("name")
@kind_option("--max-running", MAX_RUNNING.kind, words=MAX_RUNNING.summary)
@kind_option("--rate", RATE.kind, words=f"{RATE.summary[:-1]}, like 10/s.")
@kind_option("--burst", BURST.kind, words=BURST.summary)
@kind_option("--hold", HOLD.kind, default=Hold.ATTEMPT.value, words=HOLD.summary)
@_cluster_option
@caller_options
@json_option
def set_command(
    name: str,
    max_running: int | None,
    rate: Rate | None,
    burst: int | None,
    hold: Hold,
    server: str,
    *,
    scope: str,
    as_json: bool,
) -> None:
    """Set limit NAME: --max-running, --rate, or both.

    It holds at once, for runs that wait too. Those under way go on.
    """
    body = {
        "max_running": max_running,
        "rate": None if rate is None else rate.text,
        "burst": burst,
        "hold": hold.value,
    }
    given = {field: value for field, value in body.items() if value is not None}
    _print(call(server, lambda client: client.put_limit(name, given, scope=scope)), as_json=as_json)


@limit_group.command("show")
@click.argument("name")
@_cluster_option
@caller_options
@json_option
def show_command(name: str, server: str, *, scope: str, as_json: bool) -> None:
    """Show limit NAME."""
    _print(call(server, lambda client: client.get_limit(name, scope=scope)), as_json=as_json)


@limit_group.command("list")
@kind_option("--limit", _PAGE, default="100", words="The most to list.")
@click.option("--after", metavar="NAME", help="Only limits after this one, to go on with a list.")
@_cluster_option
@caller_options
@json_option
def list_command(limit: int, after: str | None, server: str, *, scope: str, as_json: bool) -> None:
    """List the limits that jobs share."""
    page = call(server, lambda client: client.list_limits(after=after, limit=limit, scope=scope))
    if as_json:
        print_json(plain(page))
        return
    rows = [(one.name, one.max_running, one.rate, one.burst, one.hold) for one in page.items]
    print_table(("LIMIT", "MAX RUNNING", "RATE", "BURST", "HOLD"), rows, empty="no limits are set")
    _print_next(page.next)


@limit_group.command("keys")
@click.argument("name")
@kind_option("--limit", _PAGE, default="100", words="The most to list.")
@click.option("--after", metavar="KEY", help="Only keys after this one, to go on with a list.")
@_cluster_option
@caller_options
@json_option
def keys_command(name: str, limit: int, after: str | None, server: str, *, scope: str, as_json: bool) -> None:
    """List the keys of limit NAME, with how much of each is taken."""
    page = call(server, lambda client: client.list_limit_keys(name, after=after, limit=limit, scope=scope))
    if as_json:
        print_json(plain(page))
        return
    rows = [
        (
            "(hidden)" if one.key is None else one.key or "(all)",
            one.held,
            None if one.next_permit_at is None else show_instant(one.next_permit_at),
            None if one.waiting_since is None else show_instant(one.waiting_since),
        )
        for one in page.items
    ]
    print_table(("KEY", "HELD", "NEXT PERMIT", "WAITING SINCE"), rows, empty="no run stands under it")
    _print_next(page.next)


@limit_group.command("rm")
@click.argument("name")
@_cluster_option
@caller_options
@json_option
def rm_command(name: str, server: str, *, scope: str, as_json: bool) -> None:
    """Delete limit NAME, which no job may use."""
    call(server, lambda client: client.delete_limit(name, scope=scope))
    if as_json:
        print_json({"deleted": True, "name": name})
    else:
        click.echo(f"deleted {name}")


def _print_next(following: str | None) -> None:
    if following is not None:
        click.echo(f"for later ones, add --after {following}", err=True)


def _print(limit: LimitView, *, as_json: bool) -> None:
    if as_json:
        print_json(plain(limit))
    else:
        print_fields(plain(limit))
