"""Who calls, and whether the caller may do what it asks for: tokens once there are accounts, the address until then."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from starlette.types import Scope

from mainspring.api.caller_rates import CallerRates
from mainspring.api.cookies import (
    CSRF_HEADER,
    SAFE_METHODS,
    check_csrf,
    check_form_free,
    check_same_origin,
    is_secure,
    read_session,
)
from mainspring.api.errors import Rejected
from mainspring.core.access import Identity, hash_token, prefix_of
from mainspring.core.actors import ActorKind
from mainspring.core.fields import read_word
from mainspring.core.ids import DEFAULT_TENANT
from mainspring.core.rates import Rate
from mainspring.core.rights import (
    ALL_RIGHTS,
    ALL_TENANTS,
    RIGHTS_OF,
    STRANGER,
    Principal,
    Right,
)
from mainspring.engine.usecases.identities import Identities, KnownIdentity
from mainspring.errors import StoreUnavailable
from mainspring.wire.operation import TENANT, Operation
from mainspring.wire.operations import (
    BEGIN_LOGIN,
    GET_LOGIN_PAGE,
    LOGIN,
    LOGIN_CALLBACK,
    LOGIN_OIDC,
    POST_LOGIN_FORM,
    POST_LOGOUT_FORM,
    PUT_ARTIFACT_CONTENT,
    WORKER_ARTIFACT,
    WORKER_BEAT,
    WORKER_CONFIRM,
    WORKER_LEAVE,
    WORKER_LOG,
    WORKER_REPORT,
)

Identify = Callable[[Scope], Principal]
"""Returns on whose behalf a request is made as long as there are no accounts; raises `Rejected`."""
MOST_PASSES = 10_000
UNKNOWN_TOKENS = Rate(20, timedelta(minutes=1))
"""How often one address may present a token that nobody knows."""
_LAST_WORDS = frozenset(
    operation.id
    for operation in (
        *(WORKER_BEAT, WORKER_LOG, WORKER_REPORT, WORKER_LEAVE),
        *(WORKER_ARTIFACT, PUT_ARTIFACT_CONTENT, WORKER_CONFIRM),
    )
)
"""What a worker may still call when its token has expired: it ends what it began."""
_SIGNING_IN = frozenset(
    operation.id
    for operation in (
        *(LOGIN, BEGIN_LOGIN, LOGIN_OIDC, LOGIN_CALLBACK),
        *(GET_LOGIN_PAGE, POST_LOGIN_FORM, POST_LOGOUT_FORM),
    )
)
_HOW = (
    "send one as `Authorization: Bearer ms_…`; commands and workers take it from MAINSPRING_TOKEN or its file"
)
_CHALLENGE = {"www-authenticate": "Bearer"}
_OVER = "this session is over; sign in again at /login"


class _Pass(NamedTuple):
    """A request that was admitted: those with the same token, for the same operation and tenant, are, too.

    Attributes:
        is_bounded: the token ends at a time, or has a rate, so that each request is checked for that.
    """

    known: KnownIdentity
    principal: Principal
    is_bounded: bool


class Gatekeeper:
    """Decides for each request who makes it and whether it may be carried out.

    Args:
        identify: identifies callers as long as there are no accounts.
        identities: finds whom tokens stand for; None means that there never are accounts.
        admin_token: the text of a token that may do everything as long as there are no accounts. Nobody else may do
            anything then.
    """

    def __init__(
        self,
        identify: Identify,
        identities: Identities | None = None,
        *,
        admin_token: str | None = None,
    ) -> None:
        self._identify = identify
        self._identities = identities
        self._own = None if identities is None else hash_token(identities.own_token)
        self._admin = None if admin_token is None else hash_token(admin_token)
        self._passes: dict[tuple[str | None, str | None, Operation[Any] | None], _Pass] = {}
        self._strangers = CallerRates(
            UNKNOWN_TOKENS, setting="unknown access tokens", burst=UNKNOWN_TOKENS.count
        )
        # Fewer than the permits: else many who come at once, as after a restart, would be taken for guessers.
        self._looks = asyncio.Semaphore(UNKNOWN_TOKENS.count // 2)
        self._rates: dict[str, tuple[int, CallerRates]] = {}

    def recognize(
        self, scope: Scope, headers: Mapping[str, str], operation: Operation[Any] | None
    ) -> tuple[Principal, Identity | None] | None:
        """Return who makes a request where nothing need be waited for; else None. So it is for nearly all requests.

        Args:
            operation: what is asked for; None if there is no such thing.

        Raises:
            Rejected: 401, the caller is not known any more; 403, it may not do that.
            TooMany: it calls too often.
        """
        identities = self._identities
        if identities is not None and not (identities.is_open and self._admin is None):
            return self._admit_again(identities, headers, operation)
        principal = _for_tenant(self._identify(scope), headers)
        if operation is not None:
            check_right(principal, operation)
        return principal, None

    async def admit(
        self, scope: Scope, headers: Mapping[str, str], operation: Operation[Any] | None
    ) -> tuple[Principal, Identity | None]:
        """Return who makes a request that `recognize` has not recognized, and the token's identity if there is one.

        Args:
            operation: what is asked for; None if there is no such thing.

        Raises:
            Rejected: 401, the caller is not known; 403, it may not do that; 400, it does not say for which tenant.
            TooMany: it calls too often.
            StoreUnavailable: whom the token stands for cannot be found out.
        """
        identities = self._identities
        if operation is not None and operation.id in _SIGNING_IN:
            return STRANGER, None  # whoever signs in need not have been known before
        assert identities is not None  # or else everybody is recognized
        text = _read_bearer(headers)
        if text is None and "cookie" in headers:
            session = read_session(headers, secure=is_secure(scope))
            if session is not None and _takes_cookies(operation):
                return await self._admit_session(identities, session, scope, headers, operation)
        if text is None:
            if operation is not None and operation.right is Right.PUBLIC:
                return STRANGER, None
            raise Rejected(
                401, f"this server answers only callers with an access token; {_HOW}", headers=_CHALLENGE
            )
        trusted = self._find_trusted(text, is_open=identities.is_open)
        if trusted is not None:
            return _for_tenant(trusted, headers), None
        known, principal = await self._admit_token(identities, text, scope, headers, operation)
        if len(self._passes) >= MOST_PASSES:
            self._passes.clear()
        identity = known.identity
        is_bounded = identity.ends_at is not None or identity.token.rate is not None
        self._passes[headers["authorization"], headers.get("mainspring-tenant"), operation] = _Pass(
            known, principal, is_bounded
        )
        return principal, identity

    async def _admit_token(
        self,
        identities: Identities,
        text: str,
        scope: Scope,
        headers: Mapping[str, str],
        operation: Operation[Any] | None,
    ) -> tuple[KnownIdentity, Principal]:
        now = identities.now()
        known = identities.recall(text) or await self._look_up(identities, text, scope, now)
        identity = known.identity
        _check_valid(identity, operation, now)
        self._check_rate(identity, now)
        identities.note_use(identity)
        principal = make_principal(identity, _tenant_of(identity, headers, operation))
        if operation is not None:
            check_right(principal, operation)
        return known, principal

    async def _admit_session(
        self,
        identities: Identities,
        text: str,
        scope: Scope,
        headers: Mapping[str, str],
        operation: Operation[Any] | None,
    ) -> tuple[Principal, Identity]:
        """Admit a request that comes with the cookie of a session.

        Raises:
            Rejected: 401, there is no such session; 403 or 415, a foreign page may have caused it; and what else
                `admit` raises.
        """
        if prefix_of(text) is None:
            raise Rejected(401, _OVER, headers=_CHALLENGE)
        if scope["method"] not in SAFE_METHODS:
            check_same_origin(scope, headers)
            check_csrf(text, headers.get(CSRF_HEADER.lower()))
            check_form_free(headers)
        try:
            known, principal = await self._admit_token(identities, text, scope, headers, operation)
        except Rejected as error:
            raise error if error.status != 401 else Rejected(401, _OVER, headers=_CHALLENGE) from None
        if not known.identity.token.is_session:
            raise Rejected(401, "only a session works in a cookie; sign in at /login", headers=_CHALLENGE)
        return principal, known.identity

    async def look_at(self, text: str, scope: Scope) -> Identity:
        """Return whom a token stands for that is not in its usual place.

        Raises:
            Rejected: 401, it stands for nobody, or not any more.
            TooMany: the caller has presented too many that nobody knows, or calls more often than the token may.
            StoreUnavailable: it cannot be found out.
        """
        identities = self._identities
        if identities is None:
            raise Rejected(401, "this server knows no access tokens", headers=_CHALLENGE)
        now = identities.now()
        known = identities.recall(text) or await self._look_up(identities, text, scope, now)
        _check_valid(known.identity, None, now)
        self._check_rate(known.identity, now)
        return known.identity

    def _admit_again(
        self, identities: Identities, headers: Mapping[str, str], operation: Operation[Any] | None
    ) -> tuple[Principal, Identity] | None:
        """Admit a request that is like one before; None if it is not. This is what nearly all requests cost."""
        found = self._passes.get((headers.get("authorization"), headers.get("mainspring-tenant"), operation))
        if found is None or not identities.still_holds(found.known):
            return None
        identity = found.known.identity
        if found.is_bounded:
            now = identities.now()
            _check_valid(identity, operation, now)
            self._check_rate(identity, now)
        identities.note_use(identity)
        return found.principal, identity

    def _find_trusted(self, text: str, *, is_open: bool) -> Principal | None:
        """Return whose token it is if it is this process's own, or the operator's before there are accounts."""
        digest = hash_token(text)
        if self._own is not None and hmac.compare_digest(digest, self._own):
            return _PROCESS
        is_operators = is_open and self._admin is not None and hmac.compare_digest(digest, self._admin)
        return _OPERATOR if is_operators else None

    async def _look_up(self, identities: Identities, text: str, scope: Scope, now: datetime) -> KnownIdentity:
        client = scope.get("client")
        address = str(client[0]) if client else "somebody"
        async with self._looks:
            if (known := identities.recall(text)) is not None:  # another request has asked meanwhile
                return known
            # Before the store is asked, or whoever guesses could keep it busy.
            self._strangers.take(address, now=now)
            try:
                known = await identities.look_up(text)
            except StoreUnavailable:
                self._strangers.give_back(address)
                raise
        if known is None:
            raise Rejected(
                401,
                "this access token is not known here: it may be misspelt, or of another server",
                headers=_CHALLENGE,
            )
        self._strangers.give_back(address)
        return known

    def _check_rate(self, identity: Identity, now: datetime) -> None:
        token = identity.token
        if token.rate is None:
            return
        known = self._rates.get(token.prefix)
        if known is None or known[0] != token.rate:
            if len(self._rates) >= MOST_PASSES:
                self._rates.clear()
            known = (
                token.rate,
                CallerRates(Rate(token.rate, timedelta(seconds=1)), setting="the token's rate"),
            )
            self._rates[token.prefix] = known
        known[1].take(f"ms_{token.prefix}_…", now=now)


def make_principal(identity: Identity, tenant: str) -> Principal:
    """Return what an identity is and may do in a tenant."""
    always = RIGHTS_OF[identity.token.role] & {Right.SELF, Right.PUBLIC}
    return Principal(
        name=identity.name,
        tenant=tenant,
        rights=identity.rights_in(tenant) | always,
        shared_rights=identity.rights_in(ALL_TENANTS) | always,
        hides_payloads=identity.hides_payloads_in(tenant),
    )


def check_right(principal: Principal, operation: Operation[Any]) -> None:
    """Refuse a caller what it has no right to.

    Raises:
        Rejected: 403.
    """
    rights = principal.shared_rights if operation.needs_all_tenants else principal.rights
    if operation.right in rights:
        return
    where = ""
    if operation.needs_all_tenants and principal.rights != principal.shared_rights:
        where = " for all tenants"
    elif principal.rights != principal.shared_rights:
        where = f" in tenant {principal.tenant!r}"
    raise Rejected(
        403, f"{principal.name} may not do this: it needs the right {operation.right.value!r}{where}"
    )


_OPERATOR = Principal(
    name="the operator",
    tenant=DEFAULT_TENANT,
    rights=ALL_RIGHTS,
    shared_rights=ALL_RIGHTS,
    kind=ActorKind.OPERATOR,
)
_PROCESS = replace(_OPERATOR, kind=ActorKind.PROCESS)


def _for_tenant(principal: Principal, headers: Mapping[str, str]) -> Principal:
    tenant = headers.get("mainspring-tenant")
    return principal if tenant is None else replace(principal, tenant=read_word(tenant, TENANT.name))


def _read_bearer(headers: Mapping[str, str]) -> str | None:
    """Return the token that a request presents.

    Raises:
        Rejected: 401, it presents something else.
    """
    given = headers.get("authorization")
    if given is None:
        return None
    scheme, _, text = given.partition(" ")
    if scheme.lower() != "bearer" or not text.strip():
        raise Rejected(401, f"the header Authorization has no access token; {_HOW}", headers=_CHALLENGE)
    return text.strip()


def _takes_cookies(operation: Operation[Any] | None) -> bool:
    """Return whether an operation may be called by a browser's cookie: not the worker protocol, nor what is public."""
    return operation is None or operation.right not in {Right.WORK, Right.PUBLIC}


def _check_valid(identity: Identity, operation: Operation[Any] | None, now: datetime) -> None:
    shown = f"the access token ms_{identity.token.prefix}_…"
    if identity.token.revoked_at is not None:
        raise Rejected(401, f"{shown} was revoked", headers=_CHALLENGE)
    if identity.account.is_disabled:
        raise Rejected(401, f"the account {identity.name!r} is disabled", headers=_CHALLENGE)
    if not identity.has_expired(now):
        return
    if operation is not None and operation.id in _LAST_WORDS and not identity.is_past_last_words(now):
        return
    raise Rejected(401, f"{shown} expired at {identity.ends_at:%Y-%m-%dT%H:%M:%SZ}", headers=_CHALLENGE)


def _tenant_of(identity: Identity, headers: Mapping[str, str], operation: Operation[Any] | None) -> str:
    """Return the tenant that a request is for.

    Raises:
        Rejected: 400, it does not say which; 403, the caller has no role there, or is a worker for several tenants.
    """
    usual = identity.usual_tenant
    if usual is None and operation is not None and operation.right is Right.WORK:
        _check_worker(identity)
    given = headers.get("mainspring-tenant")
    if operation is None or not operation.is_of_tenant:
        return usual or DEFAULT_TENANT
    if given is None:
        if usual is None and not identity.may_enter(DEFAULT_TENANT):
            raise Rejected(
                400, f"{identity.name} has a role in several tenants; name one in the header {TENANT.name}"
            )
        return usual or DEFAULT_TENANT
    tenant = read_word(given, TENANT.name)
    if not identity.may_enter(tenant):
        raise Rejected(403, f"{identity.name} may do nothing in tenant {tenant[:60]!r} with this token")
    return tenant


def _check_worker(identity: Identity) -> None:
    """Refuse a worker whose token stands for several tenants, but not for all.

    Raises:
        Rejected: 403.
    """
    if Right.WORK in identity.rights_in(ALL_TENANTS):
        return
    if any(Right.WORK in identity.rights_in(tenant) for tenant in identity.account.grants):
        raise Rejected(
            403,
            f"a worker works for one tenant, or for all; {identity.name} may work for some, so make a token for one of"
            " them: mainspring token create --role worker --tenant …",
        )
