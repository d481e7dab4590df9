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
from mainspring.errors import InvalidInput, MainspringError, NotAuthenticated

if TYPE_CHECKING:
    from mainspring.wire.logins import LoginView

_VARIABLES = ("MAINSPRING_TOKEN", "MAINSPRING_TOKEN_FILE")


@click.command("login")
@click.argument("account", required=False)
@click.option(
    "--no-browser",
    is_flag=True,
    help="Open none: show the address, and take the code that the browser shows, which may be on another machine.",
)
@server_option
def login_command(account: str | None, server: str, *, no_browser: bool) -> None:
    """Sign in, so that commands of yours need no token.

    As ACCOUNT with its password, which is asked for, or read from standard input; without ACCOUNT in a browser, at the
    identity provider of the server. The session ends after 12 hours, or by `mainspring logout`.
    """
    if account is None:
        view = _login_by_browser(server, opens=not no_browser)
    else:
        if no_browser:
            raise InvalidInput("no-browser", "does not go with an account, which signs in with its password")
        view = asyncio.run(_login(server, account, ask_secret("Password")))
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


def _login_by_browser(server: str, *, opens: bool) -> LoginView:
    """Sign in at the identity provider: the browser comes back to this machine with a code, or shows it."""
    from mainspring.cli.browser_login import LoginSecrets, awaiting_browser, has_browser, open_browser

    secrets = LoginSecrets()
    if not opens or not has_browser():
        url = asyncio.run(_begin(server, secrets.challenge))
        click.echo(f"Sign in at this address, with any browser:\n\n  {url}\n", err=True)
        code = click.prompt("Code that the browser shows then", err=True, type=str).strip()
    else:
        with awaiting_browser(secrets.state) as back:
            url = asyncio.run(_begin(server, secrets.challenge, back.port, secrets.state))
            is_open = open_browser(url)
            words = (
                "If no browser opens, sign in at" if is_open else "Sign in with a browser of this machine at"
            )
            click.echo(f"{words} this address:\n\n  {url}\n", err=True)
            code = back.wait()
    return asyncio.run(_exchange(server, code, secrets.verifier))


async def _begin(server: str, challenge: str, port: int | None = None, state: str | None = None) -> str:
    from mainspring.sdk.client import AsyncClient

    async with AsyncClient(server) as client:
        url = (await client.begin_login(challenge, port=port, state=state)).url
    if not url.startswith(("http://", "https://")):  # a browser opens files and programs, too
        raise MainspringError(f"the server names no address to sign in at, but {url[:80]!r}")
    return url


async def _exchange(server: str, code: str, verifier: str) -> LoginView:
    from mainspring.sdk.client import AsyncClient

    async with AsyncClient(server) as client:
        return await client.login(code=code, verifier=verifier)


async def _logout(server: str, token: str) -> None:
    from mainspring.sdk.client import AsyncClient

    async with AsyncClient(server, token=token) as client:
        await client.logout()
