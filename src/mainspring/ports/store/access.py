"""Accounts and access tokens. Whatever changes one raises the revision of access, by which servers know of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from mainspring.core.access import AccessToken, Account, Identity
from mainspring.core.audit import AuditEntry
from mainspring.core.values import value


class AccountWritten(StrEnum):
    """What became of an account that was to be written."""

    NEW = "new"
    CHANGED = "changed"
    REFUSED = "refused"
    """Nobody would be left who may administer everything."""
    TAKEN = "taken"
    """There is another account of that name: one that is not of this identity provider, or not of this subject."""
    STALE = "stale"
    """It is not what was expected: somebody else has changed it meanwhile."""


@value()
class NewToken:
    """A token to insert.

    Attributes:
        hash: what `hash_token` makes of its text.
    """

    token: AccessToken
    hash: bytes


@value()
class FoundToken:
    """A token as it is stored, with its account.

    Attributes:
        hash: what the text of the token must come to.
    """

    identity: Identity
    hash: bytes


class AccessStore(Protocol):
    """Accounts, which are never deleted, and their tokens."""

    async def read_access_revision(self) -> int:
        """Return the revision of all accounts and tokens; 0 as long as there is no account."""
        ...

    async def find_token(self, prefix: str) -> FoundToken | None:
        """Return a token with its account and the revision, as of one instant; None for an unknown one."""
        ...

    async def get_account(self, name: str) -> Account | None:
        """Return an account; None for an unknown one."""
        ...

    async def list_accounts(self, *, after: str | None = None, limit: int = 100) -> list[Account]:
        """Return a page of accounts, by name."""
        ...

    async def write_account(
        self, account: Account, *, expected: Account | None = None, audit: Sequence[AuditEntry] = ()
    ) -> AccountWritten:
        """Insert an account, or give it other grants; when it was created, and where it signs in, stays.

        If the account names a subject, nothing is written to one that has another, or none. Nor is it if the account's
        grants, hidden payloads, or whether it is disabled, are others than those of `expected`, which None says does
        not exist. So a change that is made from what was read undoes no other one.
        `audit` gets what changes of it (see `core.audit_accounts`); if nothing does, there is no entry.
        """
        ...

    async def add_first_token(
        self, account: Account, new: NewToken, *, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        """Insert the first account of all with a token; say whether it is the first. If not, nothing is stored."""
        ...

    async def add_token(self, new: NewToken, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """Insert a token of an account that exists.

        Return False, and store nothing, if its prefix is taken, or if it names a parent with which it cannot begin (see
        `may_begin`).
        """
        ...

    async def rotate_token(
        self, new: NewToken, *, ends_at: datetime, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        """Insert a token in place of the one that it `replaces`, which expires at `ends_at` unless it does sooner.

        So does all that was begun with the old one.
        Return False, and store nothing, if the prefix is taken, or the old one is unknown or was revoked, or has
        another in its place that works when the new one was made.
        """
        ...

    async def revoke_token(self, prefix: str, *, now: datetime, audit: Sequence[AuditEntry] = ()) -> bool:
        """End a token, and all that was begun with it, or with that in turn, at once; say whether it exists.

        One that was revoked before keeps that time: it has no entry.
        """
        ...

    async def list_tokens(
        self, *, account: str | None = None, after: str | None = None, limit: int = 100
    ) -> list[AccessToken]:
        """Return a page of tokens, of one account or of all, in order of their prefixes."""
        ...

    async def note_token_uses(self, uses: Mapping[str, datetime]) -> None:
        """Keep when tokens were used last, by prefix. A later time that is known already stays."""
        ...
