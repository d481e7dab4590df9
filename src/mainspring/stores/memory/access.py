"""Accounts and access tokens, in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime

from mainspring.core.access import (
    AccessToken,
    Account,
    Identity,
    TokenState,
    has_admin,
    is_as_expected,
    is_of_another,
    may_begin,
    state_of,
)
from mainspring.core.audit import AuditEntry
from mainspring.core.audit_accounts import settle_account
from mainspring.ports.store.access import AccountWritten, FoundToken, NewToken
from mainspring.stores.memory.audit import write_audit
from mainspring.stores.memory.tables import Tables


@dataclass(slots=True)
class AccessTables:
    """Accounts by name, tokens by prefix with what their texts must come to, and the revision."""

    accounts: dict[str, Account] = field(default_factory=dict)
    tokens: dict[str, NewToken] = field(default_factory=dict)
    passwords: dict[str, str] = field(default_factory=dict)
    revision: int = 0

    def revoke(self, is_meant: Callable[[AccessToken], bool], now: datetime) -> None:
        """Revoke the tokens that are meant, and all that was begun with them, if they are not yet."""
        meant = {prefix for prefix, each in self.tokens.items() if is_meant(each.token)}
        for prefix in meant | self.heirs_of(meant):
            each = self.tokens[prefix]
            if each.token.revoked_at is None:
                self.tokens[prefix] = NewToken(replace(each.token, revoked_at=now), each.hash)

    def heirs_of(self, prefixes: AbstractSet[str]) -> set[str]:
        """Return what was begun with tokens, and with that in turn."""
        found: set[str] = set()
        newest: AbstractSet[str] = prefixes
        while newest:
            newest = {prefix for prefix, each in self.tokens.items() if each.token.parent in newest} - found
            found |= newest
        return found

    def may_begin(self, token: AccessToken) -> bool:
        """Return whether a token may begin that ends with its parent."""
        parent = None if token.parent is None else self.tokens.get(token.parent)
        return token.parent is None or may_begin(token, None if parent is None else parent.token)


class MemoryAccessStore:
    """`AccessStore` in memory."""

    _access: AccessTables
    _tables: Tables

    async def read_access_revision(self) -> int:
        return self._access.revision

    async def find_token(self, prefix: str) -> FoundToken | None:
        found = self._access.tokens.get(prefix)
        if found is None:
            return None
        account = self._access.accounts[found.token.account]
        return FoundToken(Identity(found.token, account, self._access.revision), found.hash)

    async def get_account(self, name: str) -> Account | None:
        return self._access.accounts.get(name)

    async def list_accounts(self, *, after: str | None = None, limit: int = 100) -> list[Account]:
        found = [account for name, account in sorted(self._access.accounts.items()) if name > (after or "")]
        return found[:limit]

    async def write_account(
        self, account: Account, *, expected: Account | None = None, audit: Sequence[AuditEntry] = ()
    ) -> AccountWritten:
        known = self._access.accounts
        former = known.get(account.name)
        if is_of_another(former, account):
            return AccountWritten.TAKEN
        if not is_as_expected(former, expected):
            return AccountWritten.STALE
        if not has_admin([*(known | {account.name: account}).values()]):
            return AccountWritten.REFUSED
        self._access.revision += 1
        known[account.name] = (
            account
            if former is None
            else replace(
                account,
                created_at=former.created_at,
                issuer=former.issuer,
                subject=former.subject,
                last_login_at=former.last_login_at,
            )
        )
        write_audit(self._tables, settle_account(audit, former, account), [True])
        return AccountWritten.NEW if former is None else AccountWritten.CHANGED

    async def add_first_token(
        self, account: Account, new: NewToken, *, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        if self._access.accounts:
            return False
        self._access.revision += 1
        self._access.accounts[account.name] = account
        return await self.add_token(new, audit=audit)

    async def add_token(self, new: NewToken, *, audit: Sequence[AuditEntry] = ()) -> bool:
        is_added = (
            self._access.may_begin(new.token) and self._access.tokens.setdefault(new.token.prefix, new) is new
        )
        write_audit(self._tables, audit, [is_added])
        return is_added

    async def rotate_token(
        self, new: NewToken, *, ends_at: datetime, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        tokens = self._access.tokens
        old = tokens.get(new.token.replaces or "")
        if new.token.prefix in tokens or old is None or old.token.revoked_at is not None:
            return False
        if any(
            each.token.replaces == old.token.prefix
            and state_of(each.token, new.token.created_at) is TokenState.ACTIVE
            for each in tokens.values()
        ):
            return False
        self._access.revision += 1
        for prefix in {old.token.prefix} | self._access.heirs_of({old.token.prefix}):
            each = tokens[prefix]
            if each.token.revoked_at is None:
                expires_at = min(each.token.expires_at or ends_at, ends_at)
                tokens[prefix] = NewToken(replace(each.token, expires_at=expires_at), each.hash)
        return await self.add_token(new, audit=audit)

    async def revoke_token(self, prefix: str, *, now: datetime, audit: Sequence[AuditEntry] = ()) -> bool:
        found = self._access.tokens.get(prefix)
        if found is None:
            return False
        self._access.revision += 1
        self._access.revoke(lambda token: token.prefix == prefix, now)
        write_audit(self._tables, audit, [found.token.revoked_at is None])
        return True

    async def list_tokens(
        self, *, account: str | None = None, after: str | None = None, limit: int = 100
    ) -> list[AccessToken]:
        found = [
            each.token
            for prefix, each in sorted(self._access.tokens.items())
            if prefix > (after or "") and account in {None, each.token.account}
        ]
        return found[:limit]

    async def note_token_uses(self, uses: Mapping[str, datetime]) -> None:
        tokens = self._access.tokens
        for prefix, at in uses.items():
            found = tokens.get(prefix)
            if found is not None:
                used_at = max(found.token.last_used_at or at, at)
                tokens[prefix] = NewToken(replace(found.token, last_used_at=used_at), found.hash)
