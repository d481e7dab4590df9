"""Rules of signing in at an identity provider: whom an answer of it stands for, and what he may do."""

from __future__ import annotations

import hashlib
import re
from base64 import b32encode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, Self

from mainspring.core.access import read_tenant
from mainspring.core.fields import kind, read_mapping
from mainspring.core.rights import RIGHTS_OF, AccessRole
from mainspring.core.terminal_logins import TerminalLogin
from mainspring.core.values import value
from mainspring.errors import InvalidInput

LONGEST_SUBJECT = 255
"""Characters; OpenID Connect allows no more."""
_LONGEST_READABLE = 40
_STRANGE = re.compile(r"[^a-z0-9_-]+")
Grants = tuple[tuple[str, tuple[tuple[str, AccessRole], ...]], ...]
"""The roles by tenant of each group."""


@value(kw_only=True)
class ProviderRules:
    """An identity provider, and what its groups may do.

    Attributes:
        issuer: its address, as its tokens have it.
        client_id: the name under which it knows this server.
        client_secret: the name of the secret by which this server proves that; None without one.
        name: as users know it.
        scopes: what is asked for.
        groups: the roles of its groups.
        groups_claim: where its tokens name the groups.
    """

    issuer: str
    client_id: str
    client_secret: str | None = None
    name: str
    scopes: tuple[str, ...]
    groups: Grants
    groups_claim: str


class LoginAttempt:
    """What one browser begins with at an identity provider: a secret that only that browser has.

    All that goes to the provider comes of it. So nothing is stored, and an answer is of use only in the browser that
    asked for it, once.

    Args:
        secret: 256 random bits, as text, and what a command line has begun the login with, if one has.
    """

    def __init__(self, secret: str) -> None:
        self.secret: str = secret
        self.state: str = self._derive("state")
        self.nonce: str = self._derive("nonce")
        self.verifier: str = self._derive("verifier")

    @classmethod
    def of(cls, secret: str, terminal: TerminalLogin | None) -> Self:
        """Return an attempt with what a command line has begun it with. All that is derived depends on that, too."""
        if terminal is None:
            return cls(secret)
        return cls(".".join((secret, terminal.challenge, str(terminal.port or ""), terminal.state)))

    @property
    def terminal(self) -> TerminalLogin | None:
        """What a command line has begun it with; None if it is for the browser itself."""
        _, *rest = self.secret.split(".")
        if len(rest) != len(TerminalLogin._fields):
            return None
        challenge, port, state = rest
        return TerminalLogin(challenge, int(port) if port.isdecimal() else None, state)

    @property
    def challenge(self) -> str:
        """What the provider gets of the verifier at first (PKCE, S256)."""
        return _spell(hashlib.sha256(self.verifier.encode()).digest())

    def _derive(self, what: str) -> str:
        return _spell(hashlib.sha256(f"mainspring login {what} {self.secret}".encode()).digest())


def read_group_roles(given: object, field: str) -> Grants:
    """Read the roles of groups: `{"ops": ["operator@shop", "viewer@*"]}`.

    Raises:
        InvalidInput: it is not that.
    """
    groups = read_mapping(given, field)
    return tuple(sorted((name, _read_roles(roles, f"{field}.{name[:60]}")) for name, roles in groups.items()))


def grants_of(claims: Mapping[str, Any], rules: ProviderRules) -> dict[str, AccessRole]:
    """Return what somebody may do whose groups a token names: in each tenant the greatest role of any group."""
    groups = _groups_in(claims, rules.groups_claim)
    grants: dict[str, AccessRole] = {}
    for group, roles in rules.groups:
        if group not in groups:
            continue
        for tenant, role in roles:
            known = grants.get(tenant)
            if known is None or RIGHTS_OF[known] < RIGHTS_OF[role]:
                grants[tenant] = role
    return grants


def name_account(issuer: str, subject: str, claims: Mapping[str, Any]) -> str:
    """Return the name of somebody's account: how the provider calls him, and a part that no one else has.

    Users choose their names at many providers. So no account has the bare name: it might be taken for another one.
    """
    given = claims.get("preferred_username") or claims.get("email") or ""
    local = given.partition("@")[0].lower() if isinstance(given, str) else ""
    readable = _STRANGE.sub("-", local).strip("-")[:_LONGEST_READABLE] or "user"
    digest = hashlib.sha256(f"{issuer}\0{subject}".encode()).digest()
    return f"{readable}.{b32encode(digest)[:10].decode().lower()}"


def _groups_in(claims: Mapping[str, Any], claim: str) -> frozenset[str]:
    given = claims.get(claim)
    if claim == "email" and claims.get("email_verified") is not True:
        return frozenset()  # somebody may have written another one's
    if isinstance(given, str):
        return frozenset({given})
    return frozenset(one for one in given if isinstance(one, str)) if isinstance(given, list) else frozenset()


def _read_roles(given: object, field: str) -> tuple[tuple[str, AccessRole], ...]:
    if not isinstance(given, list | tuple) or not given:
        raise InvalidInput(field, f'must be a list like ["operator@shop", "viewer@*"], not {kind(given)}')
    return tuple(sorted(_read_role(one, field) for one in given))


def _read_role(given: object, field: str) -> tuple[str, AccessRole]:
    role, separator, tenant = given.partition("@") if isinstance(given, str) else ("", "", "")
    known = [each.value for each in AccessRole if each is not AccessRole.WORKER]
    if not separator or role not in known:
        raise InvalidInput(
            field,
            f"{str(given)[:60]!r} is not ROLE@TENANT, like viewer@* or operator@shop; roles: {', '.join(known)}",
        )
    return read_tenant(tenant, field), AccessRole(role)


def _spell(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
