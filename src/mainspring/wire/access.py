"""Accounts and access tokens, as the HTTP API takes and shows them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

from msgspec import Meta, Struct

from mainspring.core.access import (
    MOST_RATE,
    AccessToken,
    Account,
    Identity,
    TokenWish,
    read_queues,
    read_tenant,
    state_of,
)
from mainspring.core.fields import DAY, read_choice, read_duration, read_int, read_text, read_word
from mainspring.core.rights import AccessRole, Principal, Right
from mainspring.wire.views import Instant

_LONGEST_NAME = 100
_SHORTEST, _LONGEST = timedelta(seconds=1), 3650 * DAY
_ROLES = ", ".join(f"`{role.value}`" for role in AccessRole)
RoleText = Annotated[str, Meta(description=f"One of {_ROLES}.")]
GrantsText = Annotated[
    dict[str, str],
    Meta(
        description=f"A role in each tenant: {_ROLES}. `*` stands for all tenants.",
        examples=[{"shop": "operator", "*": "viewer"}],
    ),
]
_HIDES = (
    "The tenants of which it sees no payloads, results, outputs, errors and keys of limits: they are null."
)
_QUEUES = "The only queues that a worker with the token serves; empty means all."
_TENANT = "The only tenant that the token is for, or `*` for all that its account has."


class AccountBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """What an account may do. What is left out or null stays as it is."""

    grants: Annotated[
        Annotated[dict[str, Any], Meta(extra_json_schema={"additionalProperties": {"type": "string"}})]
        | None,
        Meta(
            description=f"A role in each tenant: {_ROLES}. `*` stands for all tenants. It has these and no others. A"
            " new account needs them; `{}` is none.",
            examples=[{"shop": "operator", "*": "viewer"}],
        ),
    ] = None
    hides_payloads: Annotated[
        list[str] | None,
        Meta(
            description=f"{_HIDES} Only with the roles `viewer` and `operator`. Left out or null, that stays as it is.",
            examples=[["shop"]],
        ),
    ] = None
    disabled: Annotated[
        bool | None, Meta(description="Its tokens no longer work. Left out or null, that stays as it is.")
    ] = None


class AccountView(Struct, kw_only=True):
    """Someone, or something, that may use the API."""

    name: str
    grants: GrantsText
    hides_payloads: Annotated[list[str], Meta(description=_HIDES)] = []
    disabled: bool
    created_at: Instant
    issuer: Annotated[str | None, Meta(description="The identity provider at which it signs in.")] = None
    last_login_at: Annotated[Instant | None, Meta(description="When it signed in last.")] = None
    tokens_end_at: Annotated[
        Instant | None,
        Meta(
            description="When its tokens end unless it signs in again: 30 days after its last login at the identity"
            " provider. Null if it signs in at none."
        ),
    ] = None


class AccountPage(Struct):
    """A page of accounts, by name."""

    items: list[AccountView]
    next: str | None = None


class MakeTokenBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a token is to be."""

    name: Annotated[str, Meta(description="What it is for.", examples=["nightly build"])]
    role: RoleText
    account: Annotated[str | None, Meta(description="Whose it is; left out, the caller's own.")] = None
    tenant: Annotated[
        str | None,
        Meta(description=f"{_TENANT} Left out, the account's only tenant, or `*` if it has several."),
    ] = None
    queues: Annotated[
        list[str],
        Meta(description=f"{_QUEUES} Only for the role `worker`.", examples=[["mail", "reports"]]),
    ] = []
    expires_in: Annotated[
        str | None, Meta(description="How long it lasts, like `90d`; left out, for ever.")
    ] = None
    rate: Annotated[
        int | None,
        Meta(description="Requests a second that one server answers; left out, as many as come."),
    ] = None


class TokenView(Struct, kw_only=True):
    """A token of an account, without its secret."""

    prefix: Annotated[str, Meta(description="The part by which it is known.", examples=["k3v9q2xa"])]
    account: str
    name: str
    role: RoleText
    tenant: Annotated[str, Meta(description=_TENANT)]
    queues: Annotated[list[str], Meta(description=_QUEUES)] = []
    state: Annotated[str, Meta(description="`active`, `expired` or `revoked`.")]
    rate: int | None
    created_at: Instant
    expires_at: Instant | None
    last_used_at: Annotated[Instant | None, Meta(description="Give or take a minute.")]
    revoked_at: Instant | None
    replaces: Annotated[str | None, Meta(description="The token in whose place it was made.")]
    login: Annotated[
        str | None,
        Meta(
            description="`password`, `token` or `oidc`: how the person signed in whose session it is; else null."
        ),
    ] = None
    parent: Annotated[
        str | None,
        Meta(description="The token or session with which it was made, and ends; null if it ends with none."),
    ] = None


class MadeTokenView(TokenView, kw_only=True):
    """A token that was made, with its text. Nobody is shown that again."""

    token: Annotated[str, Meta(description="What to send after `Authorization: Bearer`.")]


class TokenPage(Struct):
    """A page of tokens, in order of their prefixes."""

    items: list[TokenView]
    next: str | None = None


class MeView(Struct, kw_only=True):
    """Who calls, and what it may do."""

    account: str
    grants: Annotated[GrantsText | None, Meta(description="Null as long as the server has no accounts.")]
    token: Annotated[TokenView | None, Meta(description="The token of this request.")]
    tenant: Annotated[str, Meta(description="The tenant that a request is for that names none.")]
    rights: Annotated[list[str], Meta(description="What it may do there.")]
    hides_payloads: Annotated[
        bool,
        Meta(
            description="Whether payloads, results, outputs, errors and keys of limits are null for it there."
        ),
    ] = False
    ends_at: Annotated[
        Instant | None,
        Meta(description="When the token or the session no longer works; null if that never ends."),
    ] = None
    csrf: Annotated[
        str | None,
        Meta(
            description="What requests that come with the cookie of this session and may change something send in"
            " `Mainspring-Csrf`. Null without the cookie."
        ),
    ] = None


def read_wish(body: MakeTokenBody) -> TokenWish:
    """Return what a token is to be.

    Raises:
        InvalidInput: a value is wrong.
    """
    lasts = body.expires_in
    role = read_choice(body.role, "role", AccessRole)
    return TokenWish(
        name=read_text(body.name, "name", longest=_LONGEST_NAME),
        role=role,
        account=None if body.account is None else read_word(body.account, "account"),
        tenant=None if body.tenant is None else read_tenant(body.tenant, "tenant"),
        queues=read_queues(body.queues, role, "queues"),
        lasts=None if lasts is None else read_duration(lasts, "expires_in", low=_SHORTEST, high=_LONGEST),
        rate=None if body.rate is None else read_int(body.rate, "rate", low=1, high=MOST_RATE),
    )


def view_account(account: Account) -> AccountView:
    """Show an account."""
    return AccountView(
        name=account.name,
        grants={tenant: role.value for tenant, role in sorted(account.grants.items())},
        hides_payloads=sorted(account.hides_payloads & account.grants.keys()),
        disabled=account.is_disabled,
        created_at=account.created_at,
        issuer=account.issuer,
        last_login_at=account.last_login_at,
        tokens_end_at=account.tokens_end_at,
    )


def view_token(token: AccessToken, now: datetime) -> TokenView:
    """Show a token."""
    return TokenView(
        prefix=token.prefix,
        account=token.account,
        name=token.name,
        role=token.role.value,
        tenant=token.tenant,
        queues=list(token.queues),
        state=state_of(token, now).value,
        rate=token.rate,
        created_at=token.created_at,
        expires_at=token.expires_at,
        last_used_at=token.last_used_at,
        revoked_at=token.revoked_at,
        replaces=token.replaces,
        login=None if token.login is None else token.login.value,
        parent=token.parent,
    )


def view_made_token(token: AccessToken, text: str) -> MadeTokenView:
    """Show a token that was made just now, with its text."""
    shown = view_token(token, token.created_at)
    return MadeTokenView(**{name: getattr(shown, name) for name in shown.__struct_fields__}, token=text)


def view_me(
    principal: Principal, identity: Identity | None, now: datetime, *, csrf: str | None = None
) -> MeView:
    """Show who calls."""
    return MeView(
        account=principal.name,
        grants=None if identity is None else view_account(identity.account).grants,
        token=None if identity is None else view_token(identity.token, now),
        tenant=principal.tenant,
        rights=sorted(right.value for right in principal.rights - {Right.PUBLIC}),
        hides_payloads=principal.hides_payloads,
        ends_at=None if identity is None else identity.ends_at,
        csrf=csrf,
    )
