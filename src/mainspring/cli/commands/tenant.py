"""`mainspring tenant`: sets how tenants share the workers, and stops them for a while."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from mainspring.cli.calling import call, plain
from mainspring.cli.commands.pause import body_of, pause_options, print_pauses
from mainspring.cli.options import json_option, kind_option, server_option
from mainspring.cli.output import print_fields, print_json, print_table
from mainspring.core.kinds import Whole
from mainspring.core.pauses import PauseMode
from mainspring.core.tenants import TENANT_OPTIONS

if TYPE_CHECKING:
    from mainspring.wire.policies import TenantView

_WEIGHT = TENANT_OPTIONS.get("weight")


@click.group("tenant")
def tenant_group() -> None:
    """Set how tenants share the workers, show it, and stop them for a while."""


@tenant_group.command("set")
@click.argument("name")
@kind_option("--weight", _WEIGHT.kind, words=_WEIGHT.summary, is_required=True)
@server_option
@json_option
def set_command(name: str, weight: int, server: str, *, as_json: bool) -> None:
    """Set the share of tenant NAME. It holds within a second."""
    _print(call(server, lambda client: client.put_tenant(name, {"weight": weight})), as_json=as_json)


@tenant_group.command("show")
@click.argument("name")
@server_option
@json_option
def show_command(name: str, server: str, *, as_json: bool) -> None:
    """Show what is set for tenant NAME."""
    _print(call(server, lambda client: client.get_tenant(name)), as_json=as_json)


@tenant_group.command("list")
@kind_option("--limit", Whole(1, 1000), default="100", words="The most to list.")
@click.option("--after", metavar="NAME", help="Only tenants after this one, to go on with a list.")
@server_option
@json_option
def list_command(limit: int, after: str | None, server: str, *, as_json: bool) -> None:
    """List the tenants for which something was set. All others have the defaults."""
    page = call(server, lambda client: client.list_tenants(after=after, limit=limit))
    if as_json:
        print_json(plain(page))
        return
    rows = [(tenant.name, tenant.weight) for tenant in page.items]
    print_table(("TENANT", "WEIGHT"), rows, empty="nothing is set for any tenant")
    if page.next is not None:
        click.echo(f"for later ones, add --after {page.next}", err=True)


@tenant_group.command("pause")
@click.argument("name")
@pause_options
@server_option
@json_option
def pause_command(
    name: str,
    *,
    note: str | None,
    until: datetime | None,
    mode: PauseMode | None,
    server: str,
    as_json: bool,
) -> None:
    """Stop all runs of tenant NAME. Workers get none from then on; runs under way go on."""
    body = body_of(note, until, mode)
    print_pauses(call(server, lambda client: client.pause_tenant(name, body)), as_json=as_json)


@tenant_group.command("resume")
@click.argument("name")
@server_option
@json_option
def resume_command(name: str, server: str, *, as_json: bool) -> None:
    """End the pause of tenant NAME."""
    print_pauses(call(server, lambda client: client.resume_tenant(name)), as_json=as_json)


def _print(tenant: TenantView, *, as_json: bool) -> None:
    if as_json:
        print_json(plain(tenant))
    else:
        print_fields(plain(tenant))
