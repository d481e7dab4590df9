"""Signing in and out, as the HTTP API takes and shows it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from mainspring.wire.views import Instant

_COOKIE = (
    "Whether the answer gives the session to a browser as a cookie, which only that can send. If not, it has the"
    " session's token."
)


class LoginBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Who signs in: an account with its password, or a token."""

    account: Annotated[str | None, Meta(description="The name of the account.", examples=["ann"])] = None
    password: Annotated[str | None, Meta(description="Its password.")] = None
    token: Annotated[str | None, Meta(description="An access token, instead of the two.")] = None
    cookie: Annotated[bool, Meta(description=_COOKIE)] = True


class LoginView(Struct, kw_only=True):
    """A session that has begun."""

    account: str
    expires_at: Annotated[Instant, Meta(description="When the session ends by itself.")]
    csrf: Annotated[
        str | None,
        Meta(
            description="What requests that come with the cookie and may change something send in `Mainspring-Csrf`."
        ),
    ] = None
    token: Annotated[str | None, Meta(description="What to send after `Authorization: Bearer`.")] = None


class PasswordBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A password to set."""

    password: Annotated[str, Meta(description="The new one, of 12 characters at least.")]
    old_password: Annotated[
        str | None, Meta(description="The old one; only who changes his own password gives it.")
    ] = None
