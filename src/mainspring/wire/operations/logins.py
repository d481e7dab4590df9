"""The operations by which people sign in and out."""

from __future__ import annotations

from types import NoneType

from mainspring.core.rights import Right
from mainspring.wire.logins import BeginLoginBody, BeginLoginView, LoginBody, LoginView, PasswordBody
from mainspring.wire.operation import Body, Operation, Parameter
from mainspring.wire.operations.common import API

HTML = "text/html; charset=utf-8"
_FORM = "application/x-www-form-urlencoded"
_FORM_LIMIT = 16 * 1024

LOGIN = Operation(
    id="login",
    method="POST",
    path="/login",
    right=Right.PUBLIC,
    summary="Sign in",
    description="Begin a session with a password, with a token, or with a code (see `begin_login`). A browser gets it"
    " as a cookie; programs ask for its token. It lasts 12 hours, unless `auth.session` says otherwise, and may do what"
    " its account may. At most five wrong passwords a minute are looked at for an account from an address.",
    body=Body(LoginBody, LoginBody, limit=_FORM_LIMIT),
    answer=LoginView,
    is_conflicting=True,
    is_rationed=True,
)
BEGIN_LOGIN = Operation(
    id="begin_login",
    method="POST",
    path="/login/browser",
    right=Right.PUBLIC,
    summary="Begin to sign in by a browser",
    description="Return the address at which a person signs in with a browser, at the identity provider of `auth.oidc`,"
    " for a command line. The browser then gets a code, which `login` takes for a session, once, within five minutes,"
    " from the one who has the verifier. Nothing is stored before.",
    body=Body(BeginLoginBody, BeginLoginBody, limit=_FORM_LIMIT),
    answer=BeginLoginView,
    is_conflicting=True,
)
LOGOUT = Operation(
    id="logout",
    method="POST",
    path="/logout",
    right=Right.SELF,
    summary="Sign out",
    description="End the session of this request. No server takes it after two seconds.",
    answer=NoneType,
    statuses=(204,),
    is_conflicting=True,
)
SET_PASSWORD = Operation(
    id="set_password",
    method="PUT",
    path=f"{API}/accounts/{{account}}/password",
    right=Right.SELF,
    summary="Set a password",
    description="Set the password of an account: an administrator for others and as the first one, everyone else the"
    " own one, with the old one. The account's sessions that began with a password end, but for the one that asks.",
    body=Body(PasswordBody, PasswordBody, limit=_FORM_LIMIT),
    answer=NoneType,
    statuses=(204,),
    is_conflicting=True,
    is_rationed=True,
)
GET_LOGIN_PAGE = Operation(
    id="get_login_page",
    method="GET",
    path="/login",
    right=Right.PUBLIC,
    summary="Show the page to sign in",
    description="Return a page to sign in, or one that says who is signed in.",
    answer=str,
    media_type=HTML,
    is_described=False,
)
LOGIN_OIDC = Operation(
    id="login_oidc",
    method="GET",
    path="/login/oidc",
    right=Right.PUBLIC,
    summary="Sign in at the identity provider",
    description="Send the browser to the identity provider of `auth.oidc`.",
    query=(
        Parameter("challenge", "With what a command line has begun it."),
        Parameter("port", "Where that waits."),
        Parameter("state", "What the browser brings there."),
    ),
    answer=str,
    statuses=(303,),
    media_type=HTML,
    is_described=False,
)
LOGIN_CALLBACK = Operation(
    id="login_callback",
    method="GET",
    path="/login/callback",
    right=Right.PUBLIC,
    summary="Come back from the identity provider",
    description="Begin a session of whoever has signed in there.",
    query=(
        Parameter("state", "What this server has sent."),
        Parameter("code", "What this server exchanges for who it is."),
        Parameter("iss", "Who the provider is."),
        Parameter("error", "Why the login failed."),
    ),
    answer=str,
    statuses=(303, 401),
    media_type=HTML,
    is_described=False,
    ignores_queries=True,
)
POST_LOGIN_FORM = Operation(
    id="post_login_form",
    method="POST",
    path="/login/form",
    right=Right.PUBLIC,
    summary="Sign in by the form",
    description="Begin a session with what the form of the page has.",
    body=Body(str, bytes, limit=_FORM_LIMIT, media_types=(_FORM,)),
    answer=str,
    statuses=(303, 401, 429),
    media_type=HTML,
    is_described=False,
)
POST_LOGOUT_FORM = Operation(
    id="post_logout_form",
    method="POST",
    path="/logout/form",
    right=Right.PUBLIC,
    summary="Sign out by the form",
    description="End the session of the browser.",
    body=Body(str, bytes, limit=_FORM_LIMIT, media_types=(_FORM,)),
    answer=str,
    statuses=(303,),
    media_type=HTML,
    is_described=False,
)
