"""`mainspring tenant`: sets how tenants share the workers and how much they may bring, and stops them for a while."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from mainspring.cli.calling import call, plain
from mainspring.cli.commands.blackout import (
    Items,
    blackout_options,
    blackouts_of,
    print_blackouts,
    with_blackouts,
)
from mainspring.cli.commands.label import show_cap
from mainspring.cli.commands.pause import body_of, pause_options, print_pauses
from mainspring.cli.options import json_option, kind_option, server_option
from mainspring.cli.output import print_fields, print_json, print_table
from mainspring.core.kinds import Whole
from mainspring.core.pauses import PauseMode
from mainspring.core.tenants import TENANT_OPTIONS

if TYPE_CHECKING:
    from mainspring.core.rates import Rate
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.blackouts import BlackoutView
    from mainspring.wire.policies import TenantPage, TenantView

_WEIGHT, _RESERVED, _MAX_RUNNING, _MAX_QUEUED, _MAX_JOBS, _SUBMIT_RATE = (
    TENANT_OPTIONS.get(name)
    for name in ("weight", "reserved", "max_running", "max_queued", "max_jobs", "submit_rate")
)


@click.group("tenant")
def tenant_group() -> None:
    """Set how tenants share the workers and how much they may bring; stop them for a while."""


@tenant_group.command("set")
@click.argument("name")
@kind_option("--weight", _WEIGHT.kind, words=_WEIGHT.summary)
@kind_option("--reserved", _RESERVED.kind, words=_RESERVED.summary)
@kind_option("--max-running", _MAX_RUNNING.kind, words=_MAX_RUNNING.summary)
@kind_option("--max-queued", _MAX_QUEUED.kind, words=_MAX_QUEUED.summary)
@kind_option("--max-jobs", _MAX_JOBS.kind, words=_MAX_JOBS.summary)
@kind_option("--submit-rate", _SUBMIT_RATE.kind, words=f"{_SUBMIT_RATE.summary} Example: 500/s")
@server_option
@json_option
def set_command(
    name: str,
    weight: int | None,
    reserved: int | None,
    max_running: int | None,
    max_queued: int | None,
    max_jobs: int | None,
    submit_rate: Rate | None,
    server: str,
    *,
    as_json: bool,
) -> None:
    """Set what holds for tenant NAME. What you leave out gets its default. It holds within a second."""
    given = (
        (_WEIGHT, weight),
        (_RESERVED, reserved),
        (_MAX_RUNNING, max_running),
        (_MAX_QUEUED, max_queued),
        (_MAX_JOBS, max_jobs),
        (_SUBMIT_RATE, submit_rate),
    )
    body = {option.key: option.store(value) for option, value in given if value is not None}
    _print(call(server, lambda client: client.put_tenant(name, body)), as_json=as_json)


@tenant_group.command("show")
@click.argument("name")
@server_option
@json_option
def show_command(name: str, server: str, *, as_json: bool) -> None:
    """Show what is set for tenant NAME."""

    async def work(client: AsyncClient) -> tuple[TenantView, list[BlackoutView]]:
        return await client.get_tenant(name), (await client.list_tenant_blackouts(name)).items

    tenant, blackouts = call(server, work)
    _print(tenant, as_json=as_json)
    if blackouts and not as_json:
        click.echo()
        print_blackouts(blackouts, as_json=False, empty="")


@tenant_group.command("list")
@kind_option("--limit", Whole(1, 1000), default="100", words="The most to list.")
@click.option("--after", metavar="NAME", help="Only tenants after this one, to go on with a list.")
@server_option
@json_option
def list_command(limit: int, after: str | None, server: str, *, as_json: bool) -> None:
    """List the tenants for which something was set. All others have the defaults."""

    async def work(client: AsyncClient) -> tuple[TenantPage, dict[str, list[BlackoutView]]]:
        return await client.list_tenants(after=after, limit=limit), await blackouts_of(client, "tenant")

    page, blackouts = call(server, work)
    if as_json:
        print_json(plain(page))
        return
    rows = [
        (
            tenant.name,
            tenant.weight,
            tenant.reserved,
            show_cap(tenant),
            "" if tenant.max_queued is None else tenant.max_queued,
            "" if tenant.max_jobs is None else tenant.max_jobs,
            tenant.submit_rate or "",
        )
        for tenant in page.items
    ]
    titles = ("TENANT", "WEIGHT", "RESERVED", "RUNNING", "MAX QUEUED", "MAX JOBS", "SUBMIT RATE")
    print_table(*with_blackouts(titles, rows, blackouts), empty="nothing is set for any tenant")
    if page.next is not None:
        click.echo(f"for later ones, add --after {page.next}", err=True)


@tenant_group.command("blackouts")
@click.argument("name")
@blackout_options
@server_option
@json_option
def blackouts_command(*, name: str, items: Items | None, server: str, as_json: bool) -> None:
    """Show by which of its calendars tenant NAME stands still, or set them anew."""

    async def work(client: AsyncClient) -> list[BlackoutView]:
        if items is None:
            return (await client.list_tenant_blackouts(name)).items
        return (await client.put_tenant_blackouts(name, items)).items

    print_blackouts(call(server, work), as_json=as_json, empty="no calendar stops it")


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
