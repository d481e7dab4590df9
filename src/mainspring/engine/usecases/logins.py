"""Use cases of people who sign in: sessions, and passwords."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from mainspring.core.access import (
    TOKEN_BYTES,
    AccessToken,
    Account,
    Identity,
    LoginWay,
    hash_token,
    prefix_of,
    read_hidden,
    write_token,
)
from mainspring.core.actors import Actor, ActorKind
from mainspring.core.identity_providers import ProviderRules, grants_of, name_account
from mainspring.core.logins import KEPT_SESSIONS, FailureLog, session_role
from mainspring.core.rights import ALL_TENANTS, STRANGER, AccessRole, Right
from mainspring.core.terminal_logins import CODE_LASTS, challenge_of, hash_code, prefix_of_code, write_code
from mainspring.engine.usecases import auditing
from mainspring.engine.usecases.access import MadeToken
from mainspring.errors import Conflict, InvalidInput, NeedsRight, NotFound, StoreUnavailable
from mainspring.ports.clock import Clock, IdSource, Waiter
from mainspring.ports.passwords import PasswordHasher
from mainspring.ports.store import Store
from mainspring.ports.store.access import AccountWritten, NewToken
from mainspring.ports.store.logins import SessionAdded

_TRIES = 5
_STRANGER = Actor(name=STRANGER.name, kind=STRANGER.kind, action="login")
"""Who has failed to sign in. Of failures that are told together, the request is not kept."""


FAILURES_TICK = 60.0
"""Seconds between two looks for failed logins that the audit is to tell of."""


class Logins:
    """Begins and ends sessions, and sets passwords.

    Args:
        lasts: how long a session lasts.
    """

    def __init__(
        self, store: Store, *, clock: Clock, ids: IdSource, hasher: PasswordHasher, lasts: timedelta
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._hasher = hasher
        self._failures = FailureLog()
        self.lasts: timedelta = lasts

    async def sign_in(self, account: str, password: str, *, name: str, by: Actor) -> MadeToken | None:
        """Begin a session of an account by its password; None if there is no such account with this password.

        Both take the same time, and so does an account that is disabled or has no password.

        Args:
            name: what the session is for.
        """
        kept = await self._store.find_password(account)
        is_right = await self._hasher.verify(kept, password)
        known = await self._store.get_account(account)
        if is_right and known is not None:
            made = await self._begin(_session_of(known), LoginWay.PASSWORD, name=name, password=kept, by=by)
            if made is not None:
                return made
        await self._note_failure(None if known is None else account, by)
        return None

    async def sign_in_by_token(self, identity: Identity, *, name: str, by: Actor) -> MadeToken | None:
        """Begin a session that may do what a token may, and ends with it; None if that was revoked meanwhile.

        Raises:
            NeedsRight: nobody signs in with a token for workers, or with a session.
        """
        token = identity.token
        if token.is_session or token.role is AccessRole.WORKER:
            what = "a session" if token.is_session else "a worker's token"
            raise NeedsRight("token", f"is {what}; sign in with a token that was made for you, or a password")
        for _ in range(_TRIES):
            wish = replace(identity.token, expires_at=identity.ends_at)
            made = await self._begin(wish, LoginWay.TOKEN, name=name, by=by)
            if made is not None:
                return made
            found = await self._store.find_token(
                token.prefix
            )  # it may have been replaced: then it ends sooner
            if found is None or found.identity.is_revoked or found.identity.has_expired(self._clock.now()):
                return None
            identity = found.identity
        raise Conflict("token", "it changes all the time; try again")

    async def sign_in_by_provider(
        self,
        rules: ProviderRules,
        claims: Mapping[str, Any],
        *,
        name: str,
        by: Actor,
        challenge: str | None = None,
    ) -> MadeToken:
        """Begin a session of somebody who has signed in at an identity provider. His groups say what he may do.

        His account is found by the provider's name for him, and made at his first login. No other account is ever
        taken for his, whatever his name or his address.

        Args:
            challenge: of a command line that he signs in on. Then what is made is no session yet, but a code for one
                (see `write_code`): `sign_in_by_code` begins the session for who has the verifier.

        Raises:
            NeedsRight: none of his groups has a role here, or the account is disabled.
            Conflict: nobody else would be left who may administer everything; or what is stored changes meanwhile.
        """
        grants = grants_of(claims, rules)
        account = await self._settle_account(rules, claims, grants, by)
        if account is None or not grants:
            raise NeedsRight(
                "groups", f"none of your groups at {rules.name} has a role here; ask an administrator"
            )
        pattern = _session_of(account)
        made = await self._begin(pattern, LoginWay.OIDC, name=name, by=by, challenge=challenge)
        if made is None:
            raise NeedsRight("account", f"the account {account.name!r} is disabled")
        return made

    async def sign_in_by_code(self, code: str, verifier: str, *, name: str, by: Actor) -> MadeToken | None:
        """Begin the session on a command line for which somebody has signed in with a browser.

        There is none if the code is unknown, was used before or is over, or is not for the one who has this verifier.
        """
        prefix = prefix_of_code(code)
        found = None if prefix is None else await self._store.find_token(prefix)
        expected = hash_code(code, challenge_of(verifier))
        if found is None or not hmac.compare_digest(found.hash, expected):
            return None
        identity, login = found.identity, found.identity.token.login
        if login is None or identity.is_revoked or identity.has_expired(self._clock.now()):
            return None
        return await self._begin(_session_of(identity.account), login, name=name, by=by, replaces=prefix)

    async def tell_failures(self, *, at_end: bool = False) -> None:
        """Tell the audit of failed logins that it is to hear of now. Nobody has to fail again for that.

        Args:
            at_end: this process ends, so it is to hear of all.

        Raises:
            StoreUnavailable: the store does not answer. They are told later.
        """
        now = self._clock.now()
        failures = self._failures.take_all(now) if at_end else self._failures.take_due(now)
        if not failures:
            return
        try:
            await self._store.add_audit(auditing.logins_failed(_STRANGER, failures, now))
        except BaseException:
            self._failures.give_back(failures)
            raise

    async def sign_out(self, identity: Identity, *, by: Actor) -> None:
        """End a session at once."""
        now = self._clock.now()
        audit = auditing.session_ended(by, identity.token, now)
        await self._store.revoke_token(identity.token.prefix, now=now, audit=audit)

    async def set_password(
        self, name: str, new: str, *, old: str | None, asker: Identity | None, by: Actor | None = None
    ) -> None:
        """Set an account's password, and end its sessions but the one that asks.

        Args:
            old: the password as it is; only who changes his own needs it.

        Raises:
            NeedsRight: it is another one's, or the first one, and the asker may not administer that.
            NotFound: there is no such account.
            InvalidInput: the old password is missing or wrong.
            Conflict: the account signs in at an identity provider, or has changed meanwhile.
        """
        is_own = asker is not None and asker.account.name == name
        is_admin = asker is None or Right.ADMIN in asker.rights_in(ALL_TENANTS)
        if not is_own and not is_admin:
            raise NeedsRight("account", f"{name!r} is not your account; an administrator sets its password")
        account = await self._store.get_account(name)
        if account is None:
            raise NotFound("account", name)
        if account.issuer is not None:
            raise Conflict("account", f"{name!r} signs in at {account.issuer} and has no password here")
        kept = await self._store.find_password(name)
        if is_own and kept is not None:
            await self._check_old(name, kept, old, by)
        elif not is_admin:
            raise NeedsRight("account", f"{name!r} has no password yet; an administrator sets the first one")
        now = self._clock.now()
        is_set = await self._store.write_password(
            name,
            await self._hasher.hash(new),
            expected=kept,
            spares=asker.token.prefix if is_own and asker is not None else None,
            now=now,
            audit=auditing.password_set(by, account, now),
        )
        if not is_set:
            raise Conflict("account", f"{name!r} has changed meanwhile; try again")

    async def _settle_account(
        self, rules: ProviderRules, claims: Mapping[str, Any], grants: Mapping[str, AccessRole], by: Actor
    ) -> Account | None:
        """Return the account of somebody who has signed in at a provider, with the grants that he has there.

        There is none if he had none before, and has no grants.
        """
        issuer, subject = rules.issuer, str(claims["sub"])
        account: Account | None = None
        for _ in range(_TRIES):  # what an administrator changes meanwhile stays
            account = await self._store.find_subject(issuer, subject)
            if (account is None and not grants) or (account is not None and account.grants == grants):
                return account
            wanted = Account(
                name=name_account(issuer, subject, claims) if account is None else account.name,
                grants=grants,
                hides_payloads=_hidden_still(account, grants),
                is_disabled=account is not None and account.is_disabled,
                created_at=self._clock.now(),
                issuer=issuer,
                subject=subject,
            )
            actor = replace(by, name=wanted.name, kind=ActorKind.ACCOUNT)
            written = await self._store.write_account(
                wanted, expected=account, audit=auditing.account_written(actor, wanted)
            )
            if written is AccountWritten.REFUSED:
                raise Conflict("grants", "no other account may administer everything; give that to one first")
            if written is AccountWritten.TAKEN:
                raise Conflict("account", f"there is another account of the name {wanted.name!r}")
        raise Conflict("account", "it changes all the time; try again")

    async def _check_old(self, name: str, kept: str, old: str | None, by: Actor | None) -> None:
        if old is None:
            raise InvalidInput("old_password", "is missing; who changes his own password gives the old one")
        if not await self._hasher.verify(kept, old):
            await self._note_failure(name, by)
            raise InvalidInput("old_password", "is wrong")

    async def _begin(
        self,
        wish: AccessToken,
        way: LoginWay,
        *,
        name: str,
        by: Actor,
        password: str | None = None,
        challenge: str | None = None,
        replaces: str | None = None,
    ) -> MadeToken | None:
        now = self._clock.now()
        ends_at = now + (self.lasts if challenge is None else CODE_LASTS)
        for _ in range(_TRIES):
            text = write_token(self._ids.new_secret(TOKEN_BYTES))
            token = replace(
                wish,
                prefix=prefix_of(text) or "",
                name=name,
                login=way,
                parent=wish.prefix if way is LoginWay.TOKEN else None,
                replaces=replaces,
                last_used_at=None,
                created_at=now,
                expires_at=ends_at if wish.expires_at is None else min(ends_at, wish.expires_at),
            )
            if challenge is None:
                digest, audit = hash_token(text), auditing.session_begun(_as(by, token), token)
            else:  # the audit has the session that the code is exchanged for
                digest, audit = hash_code(write_code(text), challenge), ()
            added = await self._store.add_session(
                NewToken(token, digest), password=password, forgets=now - KEPT_SESSIONS, audit=audit
            )
            if added is SessionAdded.ADDED:
                with suppress(StoreUnavailable):  # whoever is right need not wait for it
                    await self.tell_failures()
                return MadeToken(token=token, text=text)
            if added is SessionAdded.STALE:
                return None
        raise AssertionError("so many prefixes cannot be taken")

    async def _note_failure(self, account: str | None, by: Actor | None) -> None:
        await self.tell_failures()
        now = self._clock.now()
        address = None if by is None else by.address
        failures = self._failures.note(account, address, now=now)
        if failures:
            await self._store.add_audit(auditing.logins_failed(by, failures, now))


class FailedLogins:
    """Tells the audit each minute of failed logins, as a service."""

    name = "failed_logins"

    def __init__(self, logins: Logins, *, waiter: Waiter) -> None:
        self._logins = logins
        self.waiter: Waiter = waiter

    async def tick(self, now: datetime) -> float:
        """Tell what is due."""
        del now
        await self._logins.tell_failures()
        return FAILURES_TICK


def _hidden_still(account: Account | None, grants: Mapping[str, AccessRole]) -> frozenset[str]:
    """Return where payloads stay hidden from an account whose grants change: where its role still lets that be.

    A grant that is gone may come back at the next login, when the provider names the groups again.
    """
    if account is None:
        return frozenset()
    hidden = account.hides_payloads - grants.keys()
    for tenant in account.hides_payloads & grants.keys():
        with suppress(InvalidInput):
            hidden |= read_hidden((tenant,), grants, "hides_payloads")
    return hidden


def _session_of(account: Account) -> AccessToken:
    """Return a session that may do what its account may, as a pattern."""
    return AccessToken(
        prefix="",
        account=account.name,
        name="",
        role=session_role(account),
        tenant=ALL_TENANTS,
        created_at=account.created_at,
    )


def _as(by: Actor, token: AccessToken) -> Actor:
    """Return who has signed in, where the caller was a stranger before."""
    return replace(by, name=token.account, kind=ActorKind.ACCOUNT, token=token.parent)
