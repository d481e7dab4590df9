"""Accounts and access tokens: who there is, and what each may do where."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum

from mainspring.core.fields import kind, read_choice, read_mapping, read_word
from mainspring.core.rights import ALL_TENANTS, NO_RIGHTS, RIGHTS_OF, AccessRole, Right
from mainspring.core.values import value
from mainspring.errors import InvalidInput

TOKEN_BYTES = 5 + 32
"""How many random bytes a token takes: 40 bits for its prefix, and 256 that nobody can guess."""
ROTATION_GRACE = timedelta(hours=24)
"""How long a token still works after another one was made in its place."""
LAST_WORDS = timedelta(hours=24)
"""How long a worker whose token has expired may still report what it does."""
LAST_LOGIN = timedelta(days=30)
"""How long tokens of an account of an identity provider work after its last login there."""
MOST_GRANTS = 1000
MOST_QUEUES = 1000
MOST_RATE = 1_000_000
"""Requests a second."""
_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"
"""Base 32, without letters that look like others."""
_TOKEN = re.compile(rf"ms_([{_LETTERS}]{{8}})_[{_LETTERS}]{{52}}")


@value(kw_only=True)
class Account:
    """Someone, or something, that may use the API.

    Attributes:
        grants: its role in each tenant; `*` stands for all tenants.
        hides_payloads: the tenants whose grants let it see no payloads, results, outputs, errors and keys of limits.
        issuer, subject: the identity provider at which it signs in, and what that calls it; None if it does not.
        last_login_at: when it signed in last; None if it never did.
    """

    name: str
    grants: Mapping[str, AccessRole]
    hides_payloads: frozenset[str] = frozenset()
    is_disabled: bool = False
    created_at: datetime
    issuer: str | None = None
    subject: str | None = None
    last_login_at: datetime | None = None

    @property
    def tokens_end_at(self) -> datetime | None:
        """When all its tokens end, unless it signs in again; None if it signs in at no provider."""
        return None if self.issuer is None else (self.last_login_at or self.created_at) + LAST_LOGIN


class LoginWay(StrEnum):
    """By what somebody signed in."""

    PASSWORD = "password"  # noqa: S105 - the word, not one
    TOKEN = "token"  # noqa: S105 - the same
    OIDC = "oidc"


@value(kw_only=True)
class AccessToken:
    """A token of an account, without its secret.

    Attributes:
        prefix: the part by which it is known.
        name: what it is for.
        role, tenant: bounds on what the account may do otherwise.
        queues: the only ones that its worker serves; empty means all.
        rate: requests a second that one server answers; None is any number.
        last_used_at: when a server saw it last, give or take a minute.
        replaces: the prefix of the token in whose place it was made.
        login: by what somebody signed in; None for a token that was made. One with it is a session.
        parent: the prefix of the token with which it ends: the one by which somebody signed in, or the session in
            which somebody made it who may not administer everything.
    """

    prefix: str
    account: str
    name: str
    role: AccessRole
    tenant: str
    queues: tuple[str, ...] = ()
    rate: int | None = None
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    replaces: str | None = None
    login: LoginWay | None = None
    parent: str | None = None

    @property
    def is_session(self) -> bool:
        """Whether it came of a login. Only such a token works in a cookie."""
        return self.login is not None


@value(kw_only=True)
class TokenWish:
    """What a token is to be.

    Attributes:
        account: whose it is; None is whoever asks.
        tenant: None is all tenants that the account has.
        queues: the only ones that its worker serves; empty means all.
        lasts: None is for ever.
        rate: requests a second; None is any number.
    """

    name: str
    role: AccessRole
    account: str | None = None
    tenant: str | None = None
    queues: tuple[str, ...] = ()
    lasts: timedelta | None = None
    rate: int | None = None


@value(kw_only=True)
class EndingToken:
    """A token that ends soon.

    Attributes:
        ends_at: when it does: by its own time, or because its account has not signed in at its provider for long.
    """

    token: AccessToken
    ends_at: datetime

    @property
    def is_renewed_by_login(self) -> bool:
        """Whether it goes on if its account signs in again."""
        return self.ends_at != self.token.expires_at


class TokenState(StrEnum):
    """Whether a token works."""

    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


@value()
class Identity:
    """A token with its account, as they were at a revision of all accounts and tokens."""

    token: AccessToken
    account: Account
    revision: int

    @property
    def name(self) -> str:
        """The name in logs and errors."""
        return self.account.name

    @property
    def is_revoked(self) -> bool:
        """Whether it stands for nobody any more."""
        return self.token.revoked_at is not None or self.account.is_disabled

    @property
    def ends_at(self) -> datetime | None:
        """When the token's time is over: its own, or that of an account whose provider was not asked for long."""
        own, bound = self.token.expires_at, self.account.tokens_end_at
        if own is None or bound is None:
            return bound if own is None else own
        return min(own, bound)

    def has_expired(self, now: datetime) -> bool:
        """Return whether the token's time is over."""
        ends_at = self.ends_at
        return self.token.revoked_at is None and ends_at is not None and now >= ends_at

    def is_past_last_words(self, now: datetime) -> bool:
        """Return whether not even a worker's reports of what it began under this token are taken any more."""
        ends_at = self.ends_at
        return ends_at is not None and now >= ends_at + LAST_WORDS

    def may_enter(self, tenant: str) -> bool:
        """Return whether it may do anything in a tenant."""
        return self.rights_in(tenant) > NO_RIGHTS

    def rights_in(self, tenant: str) -> frozenset[Right]:
        """Return what it may do in a tenant: what the account may there, within the bounds of the token.

        Of `*`, this is what it may do with what all tenants share.
        """
        if self.token.tenant not in {ALL_TENANTS, tenant}:
            return NO_RIGHTS
        return rights_of(self.account, tenant) & RIGHTS_OF[self.token.role]

    def hides_payloads_in(self, tenant: str) -> bool:
        """Return whether it sees no payloads, results, outputs, errors and keys of limits in a tenant.

        The grant of the tenant itself tells, or else that of `*`.
        """
        account = self.account
        return (tenant if tenant in account.grants else ALL_TENANTS) in account.hides_payloads

    @property
    def usual_tenant(self) -> str | None:
        """The tenant that is meant if a request names none: the only one. None if there are several."""
        if self.token.tenant != ALL_TENANTS:
            return self.token.tenant
        tenants = list(self.account.grants)
        return tenants[0] if len(tenants) == 1 and tenants[0] != ALL_TENANTS else None


def rights_of(account: Account, tenant: str) -> frozenset[Right]:
    """Return what an account may do in a tenant; `*` is what all tenants share."""
    roles = {account.grants[key] for key in (tenant, ALL_TENANTS) if key in account.grants}
    return NO_RIGHTS.union(*(RIGHTS_OF[role] for role in roles))


def is_admin(account: Account) -> bool:
    """Return whether an account may administer everything."""
    return not account.is_disabled and account.grants.get(ALL_TENANTS) is AccessRole.ADMIN


def renews_tokens(account: Account, now: datetime) -> bool:
    """Return whether servers have to hear at once of a login, because it decides how long tokens work.

    What they know is at most minutes old, so a login within a day of the last one makes no difference.
    """
    if account.issuer is None:
        return False
    return account.last_login_at is None or now - account.last_login_at >= timedelta(days=1)


def is_of_another(old: Account | None, new: Account) -> bool:
    """Return whether an account of a subject would be written to one that is not of that subject."""
    if old is None or new.subject is None:
        return False
    return (old.issuer, old.subject) != (new.issuer, new.subject)


def is_as_expected(old: Account | None, expected: Account | None) -> bool:
    """Return whether an account still is what a change of it was made from, in all that such a change sets."""
    if old is None or expected is None:
        return old is expected
    return (
        old.grants == expected.grants
        and old.hides_payloads == expected.hides_payloads
        and old.is_disabled == expected.is_disabled
    )


def may_begin(token: AccessToken, parent: AccessToken | None) -> bool:
    """Return whether a token may begin that ends with another one. That works yet, and not for a shorter time.

    Args:
        parent: the token that it names as its parent; None if there is no such token.
    """
    if parent is None or parent.revoked_at is not None:
        return False
    return parent.expires_at is None or (
        token.expires_at is not None and token.expires_at <= parent.expires_at
    )


def has_admin(accounts: Iterable[Account]) -> bool:
    """Return whether somebody is left who may administer everything."""
    return any(map(is_admin, accounts))


def state_of(token: AccessToken, now: datetime) -> TokenState:
    """Return whether a token works. Its account may be disabled all the same."""
    if token.revoked_at is not None:
        return TokenState.REVOKED
    is_over = token.expires_at is not None and now >= token.expires_at
    return TokenState.EXPIRED if is_over else TokenState.ACTIVE


def read_grants(roles: object, field: str) -> dict[str, AccessRole]:
    """Read roles by tenant: `{"shop": "operator", "*": "viewer"}`.

    Raises:
        InvalidInput: it is not that.
    """
    given = read_mapping(roles, field)
    if len(given) > MOST_GRANTS:
        raise InvalidInput(field, f"names {len(given):,} tenants; at most {MOST_GRANTS:,} are allowed")
    return {
        read_tenant(tenant, field): read_choice(role, f"{field}.{tenant}", AccessRole)
        for tenant, role in given.items()
    }


def read_hidden(given: object, grants: Mapping[str, AccessRole], field: str) -> frozenset[str]:
    """Read the tenants whose grants hide payloads.

    Raises:
        InvalidInput: it is no list of tenants with a grant, or the account may change jobs or work there. Then it
            could have their payloads sent anywhere.
    """
    if not isinstance(given, list | tuple | frozenset):
        raise InvalidInput(field, f"must be a list of tenants, not {kind(given)}")
    if len(given) > MOST_GRANTS:
        raise InvalidInput(field, f"names {len(given):,} tenants; at most {MOST_GRANTS:,} are allowed")
    tenants = frozenset(read_tenant(tenant, field) for tenant in given)
    for tenant in sorted(tenants):
        if tenant not in grants:
            raise InvalidInput(field, f"the account has no role in {tenant!r} that could hide payloads")
        roles = {grants[key] for key in (tenant, ALL_TENANTS) if key in grants}
        seeing = sorted(role.value for role in roles if RIGHTS_OF[role] & {Right.EDIT, Right.WORK})
        if seeing:
            raise InvalidInput(
                field,
                f"with the role {seeing[0]!r} in {tenant!r} an account decides what becomes of payloads, so they cannot"
                f" be hidden from it; give it {AccessRole.VIEWER.value!r} or {AccessRole.OPERATOR.value!r}, or leave"
                " the tenant out",
            )
    return tenants


def read_tenant(given: object, field: str) -> str:
    """Read a tenant's name, or `*` for all.

    Raises:
        InvalidInput: it is neither.
    """
    if given == ALL_TENANTS:
        return ALL_TENANTS
    if not isinstance(given, str):
        raise InvalidInput(field, f"must be the name of a tenant, or * for all, not {kind(given)}")
    return read_word(given, field)


def read_queues(given: object, role: AccessRole, field: str) -> tuple[str, ...]:
    """Read the queues that a token is bound to, each once, in order of their names.

    They need not exist: a queue does as soon as a job names it.

    Raises:
        InvalidInput: it is no list of names, or the role does more than work for queues.
    """
    if not isinstance(given, list | tuple):
        raise InvalidInput(field, f"must be a list of names of queues, not {kind(given)}")
    if len(given) > MOST_QUEUES:
        raise InvalidInput(field, f"names {len(given):,} queues; at most {MOST_QUEUES:,} are allowed")
    queues = tuple(sorted({read_word(name, f"{field}[{place}]") for place, name in enumerate(given)}))
    if queues and role is not AccessRole.WORKER:
        raise InvalidInput(
            field,
            f"only tokens with the role {AccessRole.WORKER.value!r} are bound to queues; with {role.value!r} it may"
            " do more than work for them, so leave them out",
        )
    return queues


def is_within(queues: Collection[str], bounds: Collection[str]) -> bool:
    """Return whether whoever serves some queues serves none beyond others. Empty means all."""
    return not bounds or (bool(queues) and set(queues) <= set(bounds))


def write_token(secret: bytes) -> str:
    """Return a token's text: `ms_`, 8 characters of prefix, `_`, and 52 that are secret.

    Args:
        secret: `TOKEN_BYTES` random bytes.
    """
    prefix, rest = secret[:5], secret[5:TOKEN_BYTES]
    return f"ms_{_spell(prefix, 8)}_{_spell(rest, 52)}"


def prefix_of(text: str) -> str | None:
    """Return the prefix in a token's text; None if it does not have a token's form."""
    match = _TOKEN.fullmatch(text)
    return None if match is None else match[1]


def read_prefix(text: str) -> str:
    """Return the prefix of a token that is named by it, by `ms_` and it, or by its whole text."""
    return text.removeprefix("ms_").partition("_")[0]


def hash_token(text: str) -> bytes:
    """Return what the store keeps of a token's text. It has 256 random bits, so a quick hash is enough."""
    return hashlib.sha256(text.encode()).digest()


def _spell(data: bytes, letters: int) -> str:
    number = int.from_bytes(data)
    return "".join(_LETTERS[number >> 5 * place & 31] for place in reversed(range(letters)))
