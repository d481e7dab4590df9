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
    """Who signs in: an account with its password, a token, or what a login by a browser came to."""

    account: Annotated[str | None, Meta(description="The name of the account.", examples=["ann"])] = None
    password: Annotated[str | None, Meta(description="Its password.")] = None
    token: Annotated[str | None, Meta(description="An access token, instead of the two.")] = None
    code: Annotated[
        str | None, Meta(description="The code of a login by a browser, instead; see `begin_login`.")
    ] = None
    verifier: Annotated[str | None, Meta(description="The secret with which that login was begun.")] = None
    cookie: Annotated[bool, Meta(description=_COOKIE)] = True


class BeginLoginBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """With what a command line begins a login by a browser. None of it is secret."""

    challenge: Annotated[
        str,
        Meta(
            description="The SHA-256 of a random verifier in URL-safe base64. The verifier is shown to no one before"
            " `login`.",
            examples=["E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"],
        ),
    ]
    port: Annotated[
        int | None,
        Meta(
            description="The port of 127.0.0.1 to which the browser comes back, with `state` and `code`, or `error`."
            " Left out, the browser shows the code."
        ),
    ] = None
    state: Annotated[
        str | None, Meta(description="What the browser brings to that port: 16 to 64 random characters.")
    ] = None


class BeginLoginView(Struct, kw_only=True):
    """A login that is to go on in a browser."""

    url: Annotated[str, Meta(description="The address to open there.")]


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
