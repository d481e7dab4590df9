"""Signing in and out."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from urllib.parse import parse_qsl

from mainspring.api import cookies
from mainspring.api.call import Answer, Call, Endpoint, handles
from mainspring.api.errors import Rejected
from mainspring.api.login_desk import LoginDesk
from mainspring.api.login_page import PAGE_HEADERS, write_form, write_me
from mainspring.core.access import Identity, prefix_of
from mainspring.core.actors import ActorKind
from mainspring.core.fields import read_word
from mainspring.core.logins import read_new_password, read_password
from mainspring.core.terminal_logins import read_verifier
from mainspring.engine.usecases.access import MadeToken
from mainspring.errors import Conflict, InvalidInput, TooMany
from mainspring.ports.identity_provider import ProviderFailed
from mainspring.wire import operations
from mainspring.wire.logins import LoginBody, LoginView, PasswordBody

BROWSER, _PROGRAM = "browser", "command line"
_NO_STORE = {"cache-control": "no-store"}
TO_PAGE = {"location": "/login", **_NO_STORE}
_MOST_FIELDS = 10


@handles(operations.LOGIN)
async def login(call: Call, body: LoginBody) -> Answer[LoginView]:
    name = BROWSER if body.cookie else _PROGRAM
    if body.cookie and "origin" in call.fields:
        cookies.check_same_origin(
            call.scope, call.fields
        )  # a foreign page would sign a user in as somebody else
    if body.token is not None:
        if any(each is not None for each in (body.account, body.password, body.code, body.verifier)):
            raise InvalidInput("token", "stands for account and password; leave it or those out")
        made = await _sign_in_by_token(call, body.token, name)
    elif body.code is not None or body.verifier is not None:
        made = await _sign_in_by_code(call, body, name)
    elif body.account is None or body.password is None:
        raise InvalidInput(
            "account" if body.account is None else "password",
            "is missing; give account and password, a token, or a code with its verifier",
        )
    else:
        made = await _sign_in(call, body.account, body.password, name)
    view = LoginView(account=made.token.account, expires_at=_end_of(made))
    if not body.cookie:
        view.token = made.text
        return Answer(view, status=200, headers=_NO_STORE)
    view.csrf = cookies.csrf_of(made.text)
    return Answer(view, status=200, headers=_NO_STORE, cookies=(session_cookie(call, made),))


@handles(operations.LOGOUT)
async def logout(call: Call) -> Answer[None]:
    desk = desk_of(call)
    if call.identity is None or not call.identity.token.is_session:
        raise Rejected(
            409, "this token is no session, so there is nothing to sign out of; `token revoke` ends it"
        )
    await desk.logins.sign_out(call.identity, by=call.actor)
    await call.services.on_access_changed()
    return Answer(None, status=204, cookies=(_no_cookie(call),))


@handles(operations.SET_PASSWORD)
async def set_password(call: Call, body: PasswordBody) -> None:
    desk = desk_of(call)
    account = read_word(call.key, "account")
    new = read_new_password(body.password, "password")
    old = None if body.old_password is None else read_password(body.old_password, "old_password")
    if old is None:
        await desk.logins.set_password(account, new, old=None, asker=call.identity, by=call.actor)
    else:
        with desk.trying(account, call.address, call.engine.now()) as is_right:
            await desk.logins.set_password(account, new, old=old, asker=call.identity, by=call.actor)
            is_right()
    await call.services.on_access_changed()


@handles(operations.GET_LOGIN_PAGE)
async def get_login_page(call: Call) -> Answer[str]:
    desk_of(call)
    try:
        found = await _find_session(call)
    except TooMany:
        found = None
    if found is None:
        return Answer(write_form(provider=_provider_of(call)), status=200, headers=PAGE_HEADERS)
    identity, text = found
    grants = {tenant: role.value for tenant, role in identity.account.grants.items()}
    page = write_me(identity.name, grants, ends_at=identity.ends_at, csrf=cookies.csrf_of(text))
    return Answer(page, status=200, headers=PAGE_HEADERS)


@handles(operations.POST_LOGIN_FORM)
async def post_login_form(call: Call, body: bytes) -> Answer[str]:
    _check_form(call)
    form = _read_form(body)
    account, secret = form.get("account", "").strip(), form.get("password", "")
    try:
        if prefix_of(secret.strip()) is not None:
            made = await _sign_in_by_token(call, secret.strip(), BROWSER)
        else:
            made = await _sign_in(call, account, secret, BROWSER)
    except (InvalidInput, Rejected, TooMany) as error:
        return show_refusal(call, error, account=account)
    return Answer("", status=303, headers=TO_PAGE, cookies=(session_cookie(call, made),))


@handles(operations.POST_LOGOUT_FORM)
async def post_logout_form(call: Call, body: bytes) -> Answer[str]:
    _check_form(call)
    found = await _find_session(call)
    if found is not None:
        identity, text = found
        cookies.check_csrf(text, _read_form(body).get("csrf"))
        by = replace(call.actor, name=identity.name, kind=ActorKind.ACCOUNT, token=identity.token.prefix)
        await desk_of(call).logins.sign_out(identity, by=by)
        await call.services.on_access_changed()
    return Answer("", status=303, headers=TO_PAGE, cookies=(_no_cookie(call),))


async def _sign_in(call: Call, account: str, password: str, name: str) -> MadeToken:
    desk = desk_of(call)
    secret = read_password(password, "password")
    with desk.trying(account, call.address, call.engine.now()) as is_right:
        made = await desk.logins.sign_in(_known_form(account), secret, name=name, by=call.actor)
        if made is None:
            raise Rejected(401, "there is no such account with this password")
        is_right()
    await call.services.on_access_changed()
    return made


async def _sign_in_by_token(call: Call, text: str, name: str) -> MadeToken:
    desk = desk_of(call)
    identity = await desk.look_at(text, call.scope)
    desk.take_login(identity.token.prefix, call.engine.now())
    made = await desk.logins.sign_in_by_token(identity, name=name, by=call.actor)
    if made is None:
        raise Rejected(401, "this access token was revoked meanwhile")
    return made


async def _sign_in_by_code(call: Call, body: LoginBody, name: str) -> MadeToken:
    if body.code is None or body.account is not None or body.password is not None:
        raise InvalidInput("code", "goes with its verifier, and nothing else")
    if body.cookie:
        raise InvalidInput(
            "cookie", "must be false: a code is for a program, and a browser signs in at /login"
        )
    code, verifier = body.code, read_verifier(body.verifier)
    desk = desk_of(call)
    with desk.trying("", call.address, call.engine.now()) as is_right:
        made = await desk.logins.sign_in_by_code(code, verifier, name=name, by=call.actor)
        if made is None:
            raise Rejected(401, "this code is unknown, was used before, or is over; sign in again")
        is_right()
    await call.services.on_access_changed()
    return made


async def _find_session(call: Call) -> tuple[Identity, str] | None:
    """Return who is signed in with the cookie of a request, and its text; None if nobody is.

    Raises:
        TooMany: the session is used too often.
    """
    text = cookies.read_session(call.fields, secure=cookies.is_secure(call.scope))
    if text is None:
        return None
    try:
        identity = await desk_of(call).look_at(text, call.scope)
    except Rejected:
        return None
    return (identity, text) if identity.token.is_session else None


def desk_of(call: Call) -> LoginDesk:
    """Return what lets people in.

    Raises:
        Rejected: 404 or 409, there are no accounts.
    """
    desk = call.services.desk
    if desk is None:
        raise Rejected(404, "nobody signs in at this server: it never has accounts")
    if desk.is_open():
        raise Rejected(
            409,
            "there are no accounts yet; make the first one with a token: mainspring token create --role admin",
        )
    return desk


def _check_form(call: Call) -> None:
    """Refuse a form that is not on a page of this server: it would sign a user in as somebody else.

    Raises:
        Rejected: 400.
    """
    desk_of(call)
    try:
        cookies.check_same_origin(call.scope, call.fields)
    except Rejected as error:
        raise Rejected(400, error.detail) from None


def show_refusal(
    call: Call, error: InvalidInput | Rejected | TooMany | Conflict | ProviderFailed, *, account: str = ""
) -> Answer[str]:
    """Show the page to sign in with what was wrong."""
    words = words_of(error)
    if isinstance(error, TooMany):
        words = f"{words} in {error.retry_after} s"
    page = write_form(account=account, error=words, provider=_provider_of(call))
    if isinstance(error, TooMany):
        return Answer(page, status=429, headers={**PAGE_HEADERS, "retry-after": str(error.retry_after)})
    return Answer(page, status=401, headers=PAGE_HEADERS)


def words_of(error: Exception) -> str:
    """Return what people are told of a refusal."""
    return error.detail if isinstance(error, Rejected) else getattr(error, "message", None) or str(error)


def _provider_of(call: Call) -> str | None:
    provider = desk_of(call).provider
    return None if provider is None else provider.rules.name


def _known_form(account: str) -> str:
    """Return a name that the store can be asked for. No account has an empty one."""
    try:
        return read_word(account, "account")
    except InvalidInput:
        return ""


def _read_form(body: bytes) -> dict[str, str]:
    """Return the fields of a form.

    Raises:
        Rejected: 400, it has so many that it is none of this server's.
    """
    try:
        fields = parse_qsl(body.decode(errors="replace"), max_num_fields=_MOST_FIELDS, keep_blank_values=True)
    except ValueError:
        raise Rejected(400, f"the form has more than {_MOST_FIELDS} fields; use that of /login") from None
    return dict(fields)


def session_cookie(call: Call, made: MadeToken) -> str:
    """Return the header that gives a browser its session."""
    lasts = _end_of(made) - made.token.created_at
    return cookies.write_session(made.text, secure=cookies.is_secure(call.scope), lasts=lasts)


def _no_cookie(call: Call) -> str:
    return cookies.drop_session(secure=cookies.is_secure(call.scope))


def _end_of(made: MadeToken) -> datetime:
    assert made.token.expires_at is not None
    return made.token.expires_at


ROUTES: list[Endpoint] = [
    login,
    logout,
    set_password,
    get_login_page,
    post_login_form,
    post_logout_form,
]
