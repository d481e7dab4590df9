"""The calls on accounts and access tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mainspring.core.access import read_prefix
from mainspring.sdk.transport import Transport
from mainspring.wire import operations
from mainspring.wire.access import (
    AccountPage,
    AccountView,
    MadeTokenView,
    MeView,
    TokenPage,
    TokenView,
)
from mainspring.wire.logins import BeginLoginView, LoginView


class AccessCalls(Transport):
    """A part of `AsyncClient`."""

    async def get_me(self) -> MeView:
        """Return the account and the token of this client, and what they may do."""
        return await self.call(operations.GET_ME)

    async def login(
        self,
        account: str | None = None,
        password: str | None = None,
        *,
        token: str | None = None,
        code: str | None = None,
        verifier: str | None = None,
        cookie: bool = False,
    ) -> LoginView:
        """Begin a session: with a password, a token, or a code. The client itself goes on with the token that it has.

        Args:
            account: the name of an account.
            password: its password.
            token: an access token, instead of the two.
            code: the code of a login by a browser, instead; see `begin_login`.
            verifier: the secret with which that login was begun.
            cookie: have the session set as a cookie. This client keeps none, so that is for those who read the answer.
        """
        body = {"account": account, "password": password, "token": token, "cookie": cookie}
        if code is not None or verifier is not None:  # servers of earlier releases do not know them
            body |= {"code": code, "verifier": verifier}
        return await self.call(operations.LOGIN, body=body)

    async def begin_login(
        self, challenge: str, port: int | None = None, state: str | None = None
    ) -> BeginLoginView:
        """Begin to sign in by a browser, at the identity provider of the server. Return the address to open there.

        Args:
            challenge: the SHA-256 of a random verifier, in URL-safe base64.
            port: where this machine waits for the browser to come back with the code; None has the browser show it.
            state: what the browser is to bring to that port.
        """
        body = {"challenge": challenge, "port": port, "state": state}
        return await self.call(operations.BEGIN_LOGIN, body=body)

    async def logout(self) -> None:
        """End the session whose token this client has."""
        await self.call(operations.LOGOUT)

    async def set_password(self, account: str, password: str, *, old_password: str | None = None) -> None:
        """Set an account's password. Its sessions that began with a password end, but for this client's own.

        Args:
            account: its name.
            password: of 12 characters at least.
            old_password: only who changes his own password gives it.
        """
        body = {"password": password, "old_password": old_password}
        await self.call(operations.SET_PASSWORD, account, body=body)

    async def list_accounts(self, *, after: str | None = None, limit: int = 100) -> AccountPage:
        """Return a page of accounts, by name."""
        return await self.call(operations.LIST_ACCOUNTS, query={"after": after, "limit": limit})

    async def get_account(self, account: str) -> AccountView:
        """Return an account: what it may do, where it signs in, and when it did last."""
        return await self.call(operations.GET_ACCOUNT, account)

    async def put_account(
        self,
        account: str,
        grants: Mapping[str, str] | None = None,
        *,
        hides_payloads: Sequence[str] | None = None,
        disabled: bool | None = None,
    ) -> AccountView:
        """Create an account, or change what is given of it; the rest stays as it is.

        Args:
            account: its name.
            grants: roles by tenant (`*` is all), and it has no others then; None leaves them as they are. A new
                account needs them; an empty mapping is none.
            hides_payloads: the tenants of which it sees no payloads, results, outputs, errors and keys of limits; None
                leaves that as it is.
            disabled: whether its tokens no longer work; None leaves that as it is.
        """
        # Null is said, too: servers of earlier releases refuse it, and would take all roles away if it were left out.
        body: dict[str, Any] = {"grants": None if grants is None else dict(grants), "disabled": disabled}
        if hides_payloads is not None:  # servers of earlier releases do not know it
            body["hides_payloads"] = list(hides_payloads)
        return await self.call(operations.UPSERT_ACCOUNT, account, body=body)

    async def make_token(
        self,
        name: str,
        role: str,
        *,
        account: str | None = None,
        tenant: str | None = None,
        queues: Sequence[str] = (),
        expires_in: str | None = None,
        rate: int | None = None,
    ) -> MadeTokenView:
        """Make a token. Its text is in the answer, and nowhere else.

        Args:
            name: what it is for.
            role: `viewer`, `operator`, `editor`, `admin` or `worker`.
            account: whose it is; None is this client's own.
            tenant: the only one that it is for; None is all that the account has.
            queues: the only ones that a worker with it serves; empty means all. They go with the role `worker`.
            expires_in: how long it lasts, like `90d`; None is for ever.
            rate: requests a second that one server answers; None is as many as come.
        """
        given = {
            "account": account,
            "tenant": tenant,
            "queues": list(queues) or None,
            "expires_in": expires_in,
            "rate": rate,
        }
        body = {
            "name": name,
            "role": role,
            **{key: value for key, value in given.items() if value is not None},
        }
        return await self.call(operations.MAKE_TOKEN, body=body)

    async def list_tokens(
        self, *, account: str | None = None, after: str | None = None, limit: int = 100
    ) -> TokenPage:
        """Return a page of tokens without their secrets: the account's own, or for administrators of all."""
        query: dict[str, str | int | None] = {"account": account, "after": after, "limit": limit}
        return await self.call(operations.LIST_TOKENS, query=query)

    async def rotate_token(self, token: str) -> MadeTokenView:
        """Make a token in place of another one, which works for 24 hours more. It is named by its prefix."""
        return await self.call(operations.ROTATE_TOKEN, read_prefix(token))

    async def revoke_token(self, token: str) -> TokenView:
        """End a token, which is named by its prefix."""
        return await self.call(operations.REVOKE_TOKEN, read_prefix(token))
