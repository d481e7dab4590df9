"""`mainspring login` and `mainspring logout`: a session for the commands of one person."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

import click

from mainspring.cli.asking import ask_secret
from mainspring.cli.options import server_option
from mainspring.cli.output import show_instant
from mainspring.cli.saved_logins import find_login, forget_login, keep_login, logins_file
from mainspring.errors import NotAuthenticated

if TYPE_CHECKING:
    from mainspring.wire.logins import LoginView

_VARIABLES = ("MAINSPRING_TOKEN", "MAINSPRING_TOKEN_FILE")


@click.command("login")
@click.argument("account")
@server_option
def login_command(account: str, server: str) -> None:
    """Sign in as ACCOUNT, so that commands of yours need no token.

    The password is asked for, or read from standard input. The session ends after 12 hours, or by `mainspring logout`.
    """
    password = ask_secret("Password")
    view = asyncio.run(_login(server, account, password))
    assert view.token is not None
    keep_login(server, view.token)
    click.echo(
        f"signed in as {view.account} until {show_instant(view.expires_at)}; the session is in {logins_file()}"
    )
    for name in _VARIABLES:
        if os.environ.get(name):
            click.echo(f"{name} is set, and wins over it", err=True)


@click.command("logout")
@server_option
def logout_command(server: str) -> None:
    """End the session that `mainspring login` began, on all servers within two seconds."""
    token = find_login(server)
    if token is None:
        click.echo("there is no session at this server")
        return
    with contextlib.suppress(NotAuthenticated):  # it is over already
        asyncio.run(_logout(server, token))
    forget_login(server)
    click.echo("signed out")


async def _login(server: str, account: str, password: str) -> LoginView:
    from mainspring.sdk.client import AsyncClient

    async with AsyncClient(server) as client:
        return await client.login(account, password)


async def _logout(server: str, token: str) -> None:
    from mainspring.sdk.client import AsyncClient

    async with AsyncClient(server, token=token) as client:
        await client.logout()
