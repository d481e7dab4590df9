"""Signing in at an identity provider: there, and back.

No address that a request names is ever gone to. The browser is sent to the provider's own page, and back to `/login`.
"""

from __future__ import annotations

import hmac
import secrets
from datetime import timedelta

import structlog

from mainspring.api import cookies
from mainspring.api.call import Answer, Call, Endpoint, handles
from mainspring.api.errors import Rejected
from mainspring.api.routes.logins import BROWSER, TO_PAGE, address_of, desk_of, session_cookie, show_refusal
from mainspring.core.identity_providers import LoginAttempt
from mainspring.engine.usecases.access import MadeToken
from mainspring.errors import Conflict, InvalidInput, TooMany
from mainspring.ports.identity_provider import IdentityProvider, ProviderFailed
from mainspring.wire import operations

_log = structlog.get_logger(__name__)
_ATTEMPT_LASTS = timedelta(minutes=10)
_SECRET_BYTES = 32
_LONGEST_CODE = 4096


@handles(operations.LOGIN_OIDC)
async def login_oidc(call: Call) -> Answer[str]:
    provider = _provider(call)
    attempt = LoginAttempt(secrets.token_urlsafe(_SECRET_BYTES))
    try:
        with desk_of(call).trying("", address_of(call), call.engine.now()) as is_right:
            address = await provider.begin(attempt, _redirect_uri(call))
            is_right()
    except (ProviderFailed, TooMany) as error:
        return _refuse(call, provider, error)
    secure = cookies.is_secure(call.scope)
    cookie = cookies.write_attempt(attempt.secret, secure=secure, lasts=_ATTEMPT_LASTS)
    headers = {"location": address, "cache-control": "no-store"}
    return Answer("", status=303, headers=headers, cookies=(cookie,))


@handles(operations.LOGIN_CALLBACK)
async def login_callback(call: Call) -> Answer[str]:
    provider = _provider(call)
    secure = cookies.is_secure(call.scope)
    gone = cookies.drop_attempt(secure=secure)
    try:
        attempt = _read_attempt(call, cookies.read_attempt(call.fields, secure=secure))
        with desk_of(call).trying("", address_of(call), call.engine.now()) as is_right:
            made = await _finish(call, provider, attempt)
            is_right()
    except (ProviderFailed, Rejected, InvalidInput, Conflict, TooMany) as error:
        return _refuse(call, provider, error)._replace(cookies=(gone,))
    await call.services.on_access_changed()
    return Answer("", status=303, headers=TO_PAGE, cookies=(session_cookie(call, made), gone))


def _read_attempt(call: Call, secret: str | None) -> LoginAttempt:
    """Return the login that comes back. Any page can send a browser here, so this counts as no try.

    Raises:
        Rejected: it did not begin in this browser.
    """
    attempt = None if secret is None else LoginAttempt(secret)
    state = call.query.get("state", "")
    if attempt is None or not hmac.compare_digest(attempt.state.encode(), state.encode()):
        raise Rejected(401, "this login did not begin in this browser, or took too long; try again")
    return attempt


async def _finish(call: Call, provider: IdentityProvider, attempt: LoginAttempt) -> MadeToken:
    """Begin the session of whoever comes back from the provider.

    Raises:
        Rejected, ProviderFailed, InvalidInput, Conflict: it may not begin.
    """
    query = call.query
    code = query.get("code", "")
    desk = desk_of(call)
    if not desk.use_attempt(attempt.state, call.engine.now() + _ATTEMPT_LASTS, call.engine.now()):
        raise Rejected(401, "this login is over already; try again")
    if "error" in query or not code or len(code) > _LONGEST_CODE:
        raise Rejected(401, f"nobody has signed in at {provider.rules.name}")
    claims = await provider.finish(attempt, _redirect_uri(call), code=code, issuer=query.get("iss"))
    return await desk.logins.sign_in_by_provider(provider.rules, claims, name=BROWSER, by=call.actor)


def _refuse(
    call: Call,
    provider: IdentityProvider,
    error: ProviderFailed | Rejected | InvalidInput | Conflict | TooMany,
) -> Answer[str]:
    if isinstance(error, ProviderFailed):
        _log.warning("login_failed", provider=provider.rules.issuer, error=str(error))
        error = ProviderFailed(f"signing in at {provider.rules.name} failed: {error}")
    return show_refusal(call, error)


def _provider(call: Call) -> IdentityProvider:
    provider = desk_of(call).provider
    if provider is None:
        raise Rejected(404, "this server knows no identity provider; its settings auth.oidc name one")
    return provider


def _redirect_uri(call: Call) -> str:
    """Return where the provider sends the browser. The guard has seen to it that the host is one of this server's."""
    return f"{call.scope['scheme']}://{call.fields.get('host', '')}/login/callback"


ROUTES: list[Endpoint] = [login_oidc, login_callback]
