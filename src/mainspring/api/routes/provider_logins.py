"""Signing in at an identity provider: there, and back.

No address that a request names is ever gone to. The browser is sent to the provider's own page, and back to `/login`.
Or it is sent to a port of its own machine, where the command line waits that has begun the login.
"""

from __future__ import annotations

import hmac
import re
import secrets
from datetime import timedelta
from urllib.parse import urlencode

import structlog

from mainspring.api import cookies
from mainspring.api.call import Answer, Call, Endpoint, handles
from mainspring.api.errors import Rejected
from mainspring.api.login_page import PAGE_HEADERS, write_code_page
from mainspring.api.routes.logins import (
    BROWSER,
    TO_PAGE,
    desk_of,
    session_cookie,
    show_refusal,
    words_of,
)
from mainspring.core.identity_providers import LoginAttempt
from mainspring.core.terminal_logins import TerminalLogin, read_terminal_login, write_code
from mainspring.engine.usecases.access import MadeToken
from mainspring.errors import Conflict, InvalidInput, TooMany
from mainspring.ports.identity_provider import IdentityProvider, ProviderFailed
from mainspring.wire import operations
from mainspring.wire.logins import BeginLoginBody, BeginLoginView

_log = structlog.get_logger(__name__)
_ATTEMPT_LASTS = timedelta(minutes=10)
_SECRET_BYTES = 32
_LONGEST_CODE = 4096
_PORT = re.compile(r"[0-9]{1,5}")


@handles(operations.BEGIN_LOGIN)
async def begin_login(call: Call, body: BeginLoginBody) -> Answer[BeginLoginView]:
    terminal = read_terminal_login(body.challenge, body.port, body.state)
    if desk_of(call).provider is None:
        raise Rejected(
            409,
            "this server knows no identity provider, so nobody signs in by a browser here; give an account with its"
            " password, as in `mainspring login ann`",
        )
    query = {"challenge": terminal.challenge}
    if terminal.port is not None:
        query |= {"port": str(terminal.port), "state": terminal.state}
    view = BeginLoginView(url=f"{_here(call)}/login/oidc?{urlencode(query)}")
    return Answer(view, status=200, headers={"cache-control": "no-store"})


@handles(operations.LOGIN_OIDC)
async def login_oidc(call: Call) -> Answer[str]:
    provider = _provider(call)
    attempt = LoginAttempt.of(secrets.token_urlsafe(_SECRET_BYTES), _terminal_in(call))
    try:
        with desk_of(call).trying("", call.address, call.engine.now()) as is_right:
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
    attempt = None
    try:
        attempt = _read_attempt(call, cookies.read_attempt(call.fields, secure=secure))
        with desk_of(call).trying("", call.address, call.engine.now()) as is_right:
            made = await _finish(call, provider, attempt)
            is_right()
    except (ProviderFailed, Rejected, InvalidInput, Conflict, TooMany) as error:
        terminal = None if attempt is None else attempt.terminal
        return _refuse(call, provider, error, terminal)._replace(cookies=(gone,))
    await call.services.on_access_changed()
    if attempt.terminal is not None:
        return _hand_over(attempt.terminal, made)._replace(cookies=(gone,))
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
    terminal = attempt.terminal
    if terminal is None:
        return await desk.logins.sign_in_by_provider(provider.rules, claims, name=BROWSER, by=call.actor)
    return await desk.logins.sign_in_by_provider(
        provider.rules, claims, name="code for a command line", by=call.actor, challenge=terminal.challenge
    )


def _terminal_in(call: Call) -> TerminalLogin | None:
    """Return what a command line has begun this login with; None if it is for the browser itself.

    Raises:
        InvalidInput: a value is wrong.
    """
    query = call.query
    if "challenge" not in query:
        return None
    port = query.get("port")
    number = int(port) if port is not None and _PORT.fullmatch(port) else port
    return read_terminal_login(query["challenge"], number, query.get("state"))


def _hand_over(terminal: TerminalLogin, made: MadeToken) -> Answer[str]:
    """Give the browser the code for the command line."""
    code = write_code(made.text)
    if terminal.port is None:
        return Answer(write_code_page(made.token.account, code), status=200, headers=PAGE_HEADERS)
    headers = {"location": _write_return(terminal, code=code), "cache-control": "no-store"}
    return Answer("", status=303, headers=headers)


def _write_return(terminal: TerminalLogin, **found: str) -> str:
    """Return the address on the machine of the command to which the browser goes back."""
    return f"http://127.0.0.1:{terminal.port}/?{urlencode({**found, 'state': terminal.state})}"


def _refuse(
    call: Call,
    provider: IdentityProvider,
    error: ProviderFailed | Rejected | InvalidInput | Conflict | TooMany,
    terminal: TerminalLogin | None = None,
) -> Answer[str]:
    if isinstance(error, ProviderFailed):
        _log.warning("login_failed", provider=provider.rules.issuer, error=str(error))
        error = ProviderFailed(f"signing in at {provider.rules.name} failed: {error}")
    if terminal is not None and terminal.port is not None:  # where somebody waits for it
        headers = {"location": _write_return(terminal, error=words_of(error)), "cache-control": "no-store"}
        return Answer("", status=303, headers=headers)
    return show_refusal(call, error)


def _provider(call: Call) -> IdentityProvider:
    provider = desk_of(call).provider
    if provider is None:
        raise Rejected(404, "this server knows no identity provider; its settings auth.oidc name one")
    return provider


def _redirect_uri(call: Call) -> str:
    """Return where the provider sends the browser."""
    return f"{_here(call)}/login/callback"


def _here(call: Call) -> str:
    """Return this server's address. The guard has seen to it that the host is one of its own."""
    return f"{call.scope['scheme']}://{call.fields.get('host', '')}"


ROUTES: list[Endpoint] = [begin_login, login_oidc, login_callback]
