"""Use cases on accounts and access tokens."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime

from mainspring.core.access import (
    ROTATION_GRACE,
    TOKEN_BYTES,
    AccessToken,
    Account,
    Identity,
    TokenState,
    TokenWish,
    hash_token,
    prefix_of,
    read_hidden,
    rights_of,
    state_of,
    write_token,
)
from mainspring.core.actors import Actor
from mainspring.core.rights import ALL_TENANTS, RIGHTS_OF, AccessRole, Right
from mainspring.core.values import value
from mainspring.engine.usecases import auditing
from mainspring.errors import Conflict, InvalidInput, NeedsRight, NotFound
from mainspring.ports.clock import Clock, IdSource
from mainspring.ports.store import Store
from mainspring.ports.store.access import AccountWritten, NewToken

_TRIES = 5
MOST_OF_ACCOUNT = 10_000
"""Tokens of an account that are looked through for the successor of one."""


@value(kw_only=True)
class MadeToken:
    """A token that was made. Its text is shown this once: the store does not have it."""

    token: AccessToken
    text: str


class AccessControl:
    """Use cases on accounts and tokens.

    `asker` is who asks: an identity, which may manage the tokens of its own account, and everything if it may
    administer what all tenants share. None is the operator, whom the process trusts.
    """

    def __init__(self, store: Store, *, clock: Clock, ids: IdSource) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids

    async def has_accounts(self) -> bool:
        """Return whether there is an account."""
        return bool(await self._store.list_accounts(limit=1))

    async def list_accounts(self, *, after: str | None = None, limit: int = 100) -> list[Account]:
        """Return a page of accounts, by name."""
        return await self._store.list_accounts(after=after, limit=limit)

    async def get_account(self, name: str) -> Account:
        """Return an account.

        Raises:
            NotFound: there is none.
        """
        account = await self._store.get_account(name)
        if account is None:
            raise NotFound("account", name)
        return account

    async def put_account(
        self,
        name: str,
        grants: Mapping[str, AccessRole] | None,
        *,
        hides_payloads: Collection[str] | None = None,
        is_disabled: bool | None = None,
        by: Actor | None = None,
    ) -> tuple[Account, bool]:
        """Create an account, or give it other grants. Return it, and whether it is new.

        Args:
            grants: None leaves them as they are. A new account is given some, or an empty mapping for none.
            hides_payloads: the tenants whose grants hide payloads; None leaves that as it is, where it has a role yet.
                Of an account of an identity provider, it also stays where the role may come back with a login.
            is_disabled: None leaves that as it is.

        Raises:
            InvalidInput: payloads cannot be hidden from the account there; or it is new, and no grants are given.
            Conflict: nobody would be left who may administer everything; or it changes all the time.
        """
        for _ in range(_TRIES):
            old = await self._store.get_account(name)
            roles = _grants_of(old, grants, name)
            account = Account(
                name=name,
                grants=roles,
                hides_payloads=_hidden_of(old, roles, hides_payloads),
                is_disabled=(old is not None and old.is_disabled) if is_disabled is None else is_disabled,
                created_at=self._clock.now(),
            )
            audit = auditing.account_written(by, account)
            written = await self._store.write_account(account, expected=old, audit=audit)
            if written is AccountWritten.REFUSED:
                raise Conflict(
                    "grants",
                    f"no other account has the role {AccessRole.ADMIN.value!r} for all tenants (*); give it to one"
                    " first",
                )
            if written is not AccountWritten.STALE:
                return await self.get_account(name), written is AccountWritten.NEW
        raise Conflict("account", f"{name!r} changes all the time; try again")

    async def make_first_token(self, account: str, wish: TokenWish, *, by: Actor | None = None) -> MadeToken:
        """Make the first account of all, which may administer everything, with a token. That closes the server.

        Raises:
            InvalidInput: with that token nobody could administer the server.
            Conflict: there is an account already.
        """
        if wish.role is not AccessRole.ADMIN or wish.tenant not in {None, ALL_TENANTS}:
            raise InvalidInput(
                "role",
                f"the first token must be one of {AccessRole.ADMIN.value!r} for all tenants: from then on only callers"
                " with a token are answered, and somebody has to make the other tokens",
            )
        now = self._clock.now()
        first = Account(name=account, grants={ALL_TENANTS: AccessRole.ADMIN}, created_at=now)
        made = self._make(replace(wish, account=account, tenant=ALL_TENANTS), now)
        new = NewToken(made.token, hash_token(made.text))
        audit = auditing.token_made(by, made.token)
        if not await self._store.add_first_token(first, new, audit=audit):
            raise Conflict("account", "there is an account already; ask with one of its tokens")
        return made

    async def make_token(
        self, wish: TokenWish, *, asker: Identity | None, by: Actor | None = None
    ) -> MadeToken:
        """Make a token for an account that exists.

        Raises:
            NotFound: there is no such account.
            NeedsRight: it is another one's, and the asker may not administer that, or it would be able to do more
                than the asker.
            InvalidInput: the account has no such role.
            Conflict: the session in which it is asked for has ended meanwhile.
        """
        name = wish.account or (None if asker is None else asker.account.name)
        if name is None:
            raise InvalidInput("account", "name the account whose token it is to be")
        _check_own(name, asker, "account")
        account = await self.get_account(name)
        tenant = wish.tenant or _usual_tenant(account)
        _check_role(account, wish.role, tenant)
        now = self._clock.now()
        if asker is not None:
            wish = _bound(wish, asker, now)
            _check_no_more(asker, wish.role, tenant)
        parent = _parent_for(asker)
        for _ in range(_TRIES):
            made = self._make(replace(wish, account=name, tenant=tenant), now, parent=parent)
            new = NewToken(made.token, hash_token(made.text))
            if await self._store.add_token(new, audit=auditing.token_made(by, made.token)):
                return made
        assert parent is not None, "so many prefixes cannot be taken"
        raise Conflict("token", f"ms_{parent}_…, with which you ask, has ended meanwhile; sign in again")

    async def rotate(self, prefix: str, *, asker: Identity | None, by: Actor | None = None) -> MadeToken:
        """Make a token in place of another one, which works for a while yet.

        It lasts as long as that was to last, if an administrator asks for it. Others get one that ends when that
        would have ended, and with what it would have ended with, or a token that somebody took would never end.

        Raises:
            NotFound: there is no such token, or it is not the asker's to see.
            Conflict: it was revoked, is over, or has been replaced already.
        """
        old = await self._get_token(prefix, asker)
        now = self._clock.now()
        await self._check_replaceable(old, asker, now)
        is_whole = asker is None or _may_administer(asker)
        parent, lasts = None if is_whole else old.parent, None
        if old.expires_at is not None:
            lasts = old.expires_at - (old.created_at if is_whole else now)
        wish = TokenWish(
            name=old.name,
            role=old.role,
            account=old.account,
            tenant=old.tenant,
            queues=old.queues,
            lasts=lasts,
            rate=old.rate,
        )
        for _ in range(_TRIES):
            made = self._make(wish, now, replaces=old.prefix, parent=parent)
            new = NewToken(made.token, hash_token(made.text))
            audit = auditing.token_made(by, made.token)
            if await self._store.rotate_token(new, ends_at=now + ROTATION_GRACE, audit=audit):
                return made
            await self._check_replaceable(await self._get_token(prefix, asker), asker, now)
        raise Conflict("token", f"ms_{old.prefix}_… has changed meanwhile; try again")

    async def _check_replaceable(self, old: AccessToken, asker: Identity | None, now: datetime) -> None:
        if old.is_session:
            raise Conflict("token", f"ms_{old.prefix}_… is a session; sign in again for another one")
        state = state_of(old, now)
        if state is not TokenState.ACTIVE:
            was = "was revoked" if state is TokenState.REVOKED else "has expired"
            raise Conflict("token", f"ms_{old.prefix}_… {was}; make a new one")
        if asker is not None:
            _check_no_more(asker, old.role, old.tenant)
        known = await self._store.list_tokens(account=old.account, limit=MOST_OF_ACCOUNT)
        for other in known:
            if other.replaces == old.prefix and state_of(other, now) is TokenState.ACTIVE:
                raise Conflict(
                    "token",
                    f"ms_{old.prefix}_… was replaced by ms_{other.prefix}_… already; rotate that, or revoke it first",
                )

    async def revoke(self, prefix: str, *, asker: Identity | None, by: Actor | None = None) -> AccessToken:
        """End a token at once. One that was revoked before stays as it is.

        Raises:
            NotFound: there is no such token, or it is not the asker's to see.
            NeedsRight: it may do more than the token with which it is asked for.
        """
        token = await self._get_token(prefix, asker)
        if asker is not None and token.prefix != asker.token.prefix:
            _check_no_more(asker, token.role, token.tenant)
        now = self._clock.now()
        audit = auditing.token_revoked(by, token, now) if token.revoked_at is None else ()
        await self._store.revoke_token(token.prefix, now=now, audit=audit)
        return await self._get_token(token.prefix, asker)

    async def list_tokens(
        self,
        *,
        account: str | None = None,
        after: str | None = None,
        limit: int = 100,
        asker: Identity | None,
    ) -> list[AccessToken]:
        """Return a page of tokens: of one account, or of all that the asker may see.

        Raises:
            NeedsRight: they are another one's, and the asker may not administer that.
        """
        if account is not None:
            _check_own(account, asker, "account")
        elif asker is not None and not _may_administer(asker):
            account = asker.account.name
        return await self._store.list_tokens(account=account, after=after, limit=limit)

    async def _get_token(self, prefix: str, asker: Identity | None) -> AccessToken:
        found = await self._store.find_token(prefix)
        if found is not None:
            token = found.identity.token
            if asker is None or token.account == asker.account.name or _may_administer(asker):
                return token
        raise NotFound("token", prefix)

    def _make(
        self, wish: TokenWish, now: datetime, *, replaces: str | None = None, parent: str | None = None
    ) -> MadeToken:
        text = write_token(self._ids.new_secret(TOKEN_BYTES))
        assert wish.account is not None
        assert wish.tenant is not None
        token = AccessToken(
            prefix=prefix_of(text) or "",
            account=wish.account,
            name=wish.name,
            role=wish.role,
            tenant=wish.tenant,
            queues=wish.queues,
            rate=wish.rate,
            created_at=now,
            expires_at=None if wish.lasts is None else now + wish.lasts,
            replaces=replaces,
            parent=parent,
        )
        return MadeToken(token=token, text=text)


def _may_administer(asker: Identity) -> bool:
    return Right.ADMIN in asker.rights_in(ALL_TENANTS)


def _check_own(account: str, asker: Identity | None, field: str) -> None:
    if asker is None or account == asker.account.name or _may_administer(asker):
        return
    raise NeedsRight(
        field,
        f"{account!r} is not your account; only callers with the right {Right.ADMIN.value!r} for all tenants may"
        " manage its tokens",
    )


def _check_role(account: Account, role: AccessRole, tenant: str) -> None:
    """Refuse a token that promises more than its account may do: there, or for all tenants in any of its own."""
    places = [tenant] if tenant != ALL_TENANTS else list(account.grants)
    if any(RIGHTS_OF[role] <= rights_of(account, place) for place in places):
        return
    granted = ", ".join(f"{known}={each.value}" for known, each in sorted(account.grants.items()))
    where = "" if tenant == ALL_TENANTS else f" in tenant {tenant!r}"
    raise InvalidInput(
        "role",
        f"the account {account.name!r} has not the role {role.value!r}{where}; it has {granted or 'none'}",
    )


def _check_no_more(asker: Identity, role: AccessRole, tenant: str) -> None:
    """Refuse a token of the same account that could do more than the one with which it is asked for."""
    bounds = asker.token
    if _may_administer(asker) or (
        RIGHTS_OF[role] <= RIGHTS_OF[bounds.role] and bounds.tenant in {ALL_TENANTS, tenant}
    ):
        return
    raise NeedsRight(
        "role", "that token could do more than the one with which you ask; ask with one that may do as much"
    )


def _bound(wish: TokenWish, asker: Identity, now: datetime) -> TokenWish:
    """Return a wish that ends, and is bounded, as the token is with which it is asked for.

    Raises:
        NeedsRight: it wants more than that.
    """
    bounds = asker.token
    if _may_administer(asker):
        return wish
    if bounds.expires_at is not None:
        left = bounds.expires_at - now
        if wish.lasts is not None and wish.lasts > left:
            raise NeedsRight("expires_in", "the new token would outlast the one with which you ask")
        wish = replace(wish, lasts=wish.lasts or left)
    if bounds.rate is not None:
        if wish.rate is not None and wish.rate > bounds.rate:
            raise NeedsRight("rate", f"the token with which you ask has {bounds.rate} requests a second")
        wish = replace(wish, rate=wish.rate or bounds.rate)
    return wish


def _parent_for(asker: Identity | None) -> str | None:
    """Return with which token another one is to end that is made with it.

    What somebody makes in a session ends with that, who may not make lasting tokens; and what is made with that in
    turn. An administrator's tokens are for programs, which go on when he signs out.
    """
    if asker is None or _may_administer(asker):
        return None
    bounds = asker.token
    return bounds.prefix if bounds.is_session or bounds.parent is not None else None


def _grants_of(
    old: Account | None, given: Mapping[str, AccessRole] | None, name: str
) -> Mapping[str, AccessRole]:
    """Return the grants that an account is to have.

    Args:
        given: None leaves them as they are.

    Raises:
        InvalidInput: there is no such account. One that is made by a slip of the name would look as if it were right.
    """
    if given is not None:
        return given
    if old is None:
        raise InvalidInput(
            "grants", f"{name!r} is no account yet; a new one is given its roles, or {{}} for none"
        )
    return old.grants


def _hidden_of(
    old: Account | None, grants: Mapping[str, AccessRole], given: Collection[str] | None
) -> frozenset[str]:
    """Return where payloads are to be hidden from an account.

    Args:
        given: None leaves that as it is.

    Raises:
        InvalidInput: they cannot be hidden there.
    """
    kept = old.hides_payloads if given is None and old is not None else frozenset[str]()
    wanted = kept & grants.keys() if given is None else given
    hidden = read_hidden(tuple(wanted), grants, "hides_payloads")
    # At a provider, a grant that is gone may come back at the next login, with the group.
    return hidden | kept if old is not None and old.issuer is not None else hidden


def _usual_tenant(account: Account) -> str:
    """Return the tenant of a token if none is named: the only one of its account, or else all."""
    tenants = list(account.grants)
    return tenants[0] if len(tenants) == 1 else ALL_TENANTS
