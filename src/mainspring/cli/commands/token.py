"""`mainspring token`: makes, lists, replaces and revokes access tokens."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.calling import call, plain
from mainspring.cli.options import json_option, kind_option, server_option
from mainspring.cli.output import print_fields, print_json, print_table
from mainspring.core.kinds import OneOf, Whole
from mainspring.core.rights import AccessRole

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.access import MadeTokenView, TokenView

_ROLES = OneOf(tuple(role.value for role in AccessRole))


@click.group("token")
def token_group() -> None:
    """Make, list, replace and revoke access tokens.

    Commands and workers present the token in MAINSPRING_TOKEN, or in the file that MAINSPRING_TOKEN_FILE names.
    """


@token_group.command("create")
@kind_option("--role", _ROLES, words="What it may do at most.", is_required=True)
@click.option("--name", metavar="TEXT", default="command line", show_default=True, help="What it is for.")
@click.option("--account", metavar="NAME", help="Whose it is; default: your own.")
@click.option(
    "--tenant", metavar="NAME", help="The only tenant that it is for; default: all of the account's."
)
@click.option(
    "--queue",
    "queues",
    metavar="NAME",
    multiple=True,
    help="A queue that a worker with it serves; may be repeated. Default: all. Only with --role worker.",
)
@click.option("--expires-in", metavar="DURATION", help="How long it lasts, like 90d; default: for ever.")
@click.option("--rate", metavar="N", type=int, help="Requests a second that a server answers; default: any.")
@click.option(
    "--store",
    metavar="URL",
    help="Make it straight in this store, without a server: the first token, or when the last one is lost. A password"
    " is better off in a pgpass file than here.",
)
@server_option
@json_option
def create_command(
    role: str,
    name: str,
    account: str | None,
    tenant: str | None,
    queues: tuple[str, ...],
    expires_in: str | None,
    rate: int | None,
    store: str | None,
    server: str,
    *,
    as_json: bool,
) -> None:
    """Make an access token, and print it once.

    The first one makes the first account, too, and must have the role admin. From then on servers answer only callers
    with a token.
    """
    wish: dict[str, Any] = {
        "account": account,
        "tenant": tenant,
        "queues": queues,
        "expires_in": expires_in,
        "rate": rate,
    }
    if store is not None:
        from mainspring.host.store_access import make_token_in

        made, is_first = asyncio.run(make_token_in(store, name, role, **wish))
    else:
        made, is_first = call(server, lambda client: _make(client, name, role, wish))
    _print_made(made, as_json=as_json)
    if is_first and not as_json:
        click.echo(
            "\nThis is the first token: from now on the server answers only callers that present one.\n"
            "Keep it, and give it to your commands: export MAINSPRING_TOKEN=…",
            err=True,
        )


@token_group.command("list")
@click.option("--account", metavar="NAME", help="Only tokens of this account.")
@kind_option("--limit", Whole(1, 1000), default="100", words="The most to list.")
@click.option("--after", metavar="PREFIX", help="Only tokens after this one, to go on with a list.")
@server_option
@json_option
def list_command(account: str | None, limit: int, after: str | None, server: str, *, as_json: bool) -> None:
    """List tokens without their secrets: your own, or for administrators all."""
    page = call(server, lambda client: client.list_tokens(account=account, after=after, limit=limit))
    if as_json:
        print_json(plain(page))
        return
    rows = [
        (
            f"ms_{one.prefix}",
            one.account,
            one.name,
            one.role,
            one.tenant,
            ", ".join(one.queues),
            one.state,
            one.expires_at,
            one.last_used_at,
        )
        for one in page.items
    ]
    titles = ("TOKEN", "ACCOUNT", "NAME", "ROLE", "TENANT", "QUEUES", "STATE", "EXPIRES", "LAST USED")
    print_table(titles, rows, empty="there are no tokens")
    if page.next is not None:
        click.echo(f"for later ones, add --after {page.next}", err=True)


@token_group.command("rotate")
@click.argument("token")
@server_option
@json_option
def rotate_command(token: str, server: str, *, as_json: bool) -> None:
    """Make a token in place of TOKEN, which works for 24 hours more. The beginning of TOKEN names it."""
    _print_made(call(server, lambda client: client.rotate_token(token)), as_json=as_json)


@token_group.command("revoke")
@click.argument("token")
@server_option
@json_option
def revoke_command(token: str, server: str, *, as_json: bool) -> None:
    """End TOKEN, on all servers within two seconds. The beginning of TOKEN names it."""
    _print(call(server, lambda client: client.revoke_token(token)), as_json=as_json)


async def _make(
    client: AsyncClient, name: str, role: str, wish: dict[str, Any]
) -> tuple[MadeTokenView, bool]:
    is_first = (await client.get_me()).grants is None
    return await client.make_token(name, role, **wish), is_first


def _print_made(made: MadeTokenView, *, as_json: bool) -> None:
    if as_json:
        print_json(plain(made))
        return
    _print(made, as_json=False, err=True)
    click.echo(made.token)


def _print(token: TokenView, *, as_json: bool, err: bool = False) -> None:
    if as_json:
        print_json(plain(token))
        return
    fields = {
        "token": f"ms_{token.prefix}_…",
        "account": token.account,
        "name": token.name,
        "role": token.role,
        "tenant": token.tenant,
        "queues": ", ".join(token.queues) or None,
        "state": token.state,
        "expires": token.expires_at,
        "replaces": None if token.replaces is None else f"ms_{token.replaces}_…",
        "ends with": None if token.parent is None else f"ms_{token.parent}_…",
    }
    print_fields(fields, err=err)
