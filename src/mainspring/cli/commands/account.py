"""`mainspring account`: says who may use the API, and what each may do where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mainspring.cli.asking import ask_secret
from mainspring.cli.calling import call, plain
from mainspring.cli.options import json_option, kind_option, server_option
from mainspring.cli.output import print_fields, print_json, print_table
from mainspring.core.kinds import Whole
from mainspring.core.rights import AccessRole
from mainspring.errors import InvalidInput

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.access import AccountView

_ROLES = ", ".join(role.value for role in AccessRole)
_IN_OPTIONS = "none: --grant TENANT=ROLE, or --no-grants"
"""What the API says by an empty object."""


@click.group("account")
def account_group() -> None:
    """Set who may use the API, and what each may do in which tenant."""


@account_group.command("set")
@click.argument("name")
@click.option(
    "--grant",
    "grants",
    metavar="TENANT=ROLE",
    multiple=True,
    help=f"A role in a tenant; the tenant * is all. Roles: {_ROLES}. Repeatable. It has those that you name, and no"
    " others. Left out, its roles stay as they are.",
)
@click.option("--no-grants", is_flag=True, help="Take all roles away from it, or make it without any.")
@click.option(
    "--hide-payloads",
    "hidden",
    metavar="TENANT",
    multiple=True,
    help="A tenant of which it sees no payloads, results, outputs, errors and keys of limits; * is that of its grant"
    " for all. Repeatable. Left out, that stays as it is.",
)
@click.option("--show-payloads", is_flag=True, help="Hide none from it any more.")
@click.option(
    "--disabled/--enabled",
    default=None,
    help="Whether its tokens no longer work; left out, that stays as it is.",
)
@server_option
@json_option
def set_command(
    name: str,
    grants: tuple[str, ...],
    hidden: tuple[str, ...],
    server: str,
    *,
    no_grants: bool,
    show_payloads: bool,
    disabled: bool | None,
    as_json: bool,
) -> None:
    """Create account NAME, or change what you name of it; the rest stays as it is. It holds within two seconds.

    Accounts are not deleted, because records name them. Disable those that are no longer needed.
    """
    if grants and no_grants:
        raise InvalidInput("no-grants", "does not go with --grant")
    if hidden and show_payloads:
        raise InvalidInput("show-payloads", "does not go with --hide-payloads")
    given = _read_grants(grants) if grants or no_grants else None
    hides = hidden if hidden or show_payloads else None

    async def work(client: AsyncClient) -> AccountView:
        return await client.put_account(name, given, hides_payloads=hides, disabled=disabled)

    try:
        account = call(server, work)
    except InvalidInput as error:
        raise InvalidInput(error.field, error.message.replace("{} for none", _IN_OPTIONS)) from None
    _print(account, as_json=as_json)


@account_group.command("show")
@click.argument("name")
@server_option
@json_option
def show_command(name: str, server: str, *, as_json: bool) -> None:
    """Show account NAME, what it may do, where it signs in, and when it did last."""
    _print(call(server, lambda client: client.get_account(name)), as_json=as_json)


@account_group.command("password")
@click.argument("name")
@server_option
def password_command(name: str, server: str) -> None:
    """Set the password with which account NAME signs in.

    An administrator sets that of others, and everyone's first one; everyone else changes his own. It is asked for, or
    read from standard input: the new one in its first line, and the old one, where that is needed, in its second.
    """
    call(server, lambda client: _set_password(client, name))
    click.echo(f"the password of {name} is set; its sessions have ended, but for the one that asked")


@account_group.command("list")
@kind_option("--limit", Whole(1, 1000), default="100", words="The most to list.")
@click.option("--after", metavar="NAME", help="Only accounts after this one, to go on with a list.")
@server_option
@json_option
def list_command(limit: int, after: str | None, server: str, *, as_json: bool) -> None:
    """List the accounts."""
    page = call(server, lambda client: client.list_accounts(after=after, limit=limit))
    if as_json:
        print_json(plain(page))
        return
    rows = [
        (
            one.name,
            _show_grants(one),
            "disabled" if one.disabled else "active",
            one.created_at,
            one.last_login_at,
        )
        for one in page.items
    ]
    empty = "there are no accounts; the first token makes one: mainspring token create --role admin"
    print_table(("ACCOUNT", "ROLES", "STATE", "SINCE", "LAST LOGIN"), rows, empty=empty)
    if page.next is not None:
        click.echo(f"for later ones, add --after {page.next}", err=True)


async def _set_password(client: AsyncClient, name: str) -> None:
    me = await client.get_me()
    new = ask_secret(f"New password of {name}", again="The same again")
    # Whether one's own has been set before, only the server knows.
    try:
        await client.set_password(name, new)
    except InvalidInput as error:
        if error.field != "old_password" or me.account != name:
            raise
        await client.set_password(name, new, old_password=ask_secret("Old password"))


def _read_grants(texts: Sequence[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for tenant, role in map(_read_grant, texts):
        if given.setdefault(tenant, role) != role:
            raise InvalidInput("grant", f"gives {tenant!r} two roles, {given[tenant]} and {role}; it has one")
    return given


def _read_grant(text: str) -> tuple[str, str]:
    tenant, separator, role = text.partition("=")
    if not separator or not tenant or not role:
        raise InvalidInput("grant", f"{text[:60]!r} is not TENANT=ROLE, like shop=operator or '*=viewer'")
    return tenant, role


def _show_grants(account: AccountView) -> str:
    return " ".join(f"{tenant}={role}" for tenant, role in account.grants.items()) or "none"


def _print(account: AccountView, *, as_json: bool) -> None:
    if as_json:
        print_json(plain(account))
        return
    print_fields(
        {
            "account": account.name,
            "roles": _show_grants(account),
            "payloads": f"hidden in {', '.join(account.hides_payloads)}" if account.hides_payloads else None,
            "state": "disabled" if account.disabled else "active",
            "since": account.created_at,
            "signs in at": account.issuer,
            "last login": account.last_login_at,
            "tokens end": account.tokens_end_at,
        }
    )
