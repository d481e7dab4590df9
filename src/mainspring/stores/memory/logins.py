"""How people sign in, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from mainspring.core.access import Account, renews_tokens
from mainspring.core.audit import AuditEntry
from mainspring.ports.store.access import NewToken
from mainspring.ports.store.logins import SessionAdded
from mainspring.stores.memory.access import AccessTables
from mainspring.stores.memory.audit import write_audit
from mainspring.stores.memory.tables import Tables


class MemoryLoginStore:
    """`LoginStore` in memory."""

    _access: AccessTables
    _tables: Tables

    async def find_password(self, account: str) -> str | None:
        return self._access.passwords.get(account)

    async def find_subject(self, issuer: str, subject: str) -> Account | None:
        wanted = (issuer, subject)
        return next(
            (each for each in self._access.accounts.values() if (each.issuer, each.subject) == wanted), None
        )

    async def write_password(
        self,
        account: str,
        password: str,
        *,
        expected: str | None,
        spares: str | None,
        now: datetime,
        audit: Sequence[AuditEntry] = (),
    ) -> bool:
        access = self._access
        known = access.accounts.get(account)
        if known is None or known.issuer is not None or access.passwords.get(account) != expected:
            return False
        access.revision += 1
        access.passwords[account] = password
        access.revoke(
            lambda token: (
                token.account == account
                and token.is_session
                and token.parent is None
                and token.prefix != spares
            ),
            now,
        )
        write_audit(self._tables, audit, [True])
        return True

    async def add_session(
        self,
        new: NewToken,
        *,
        password: str | None,
        forgets: datetime,
        audit: Sequence[AuditEntry] = (),
    ) -> SessionAdded:
        access, token = self._access, new.token
        account = access.accounts.get(token.account)
        if account is None or account.is_disabled:
            return SessionAdded.STALE
        if password is not None and access.passwords.get(account.name) != password:
            return SessionAdded.STALE
        if not access.may_begin(token):
            return SessionAdded.STALE
        former = access.tokens.get(token.replaces or "")
        if token.replaces is not None and (former is None or former.token.revoked_at is not None):
            return SessionAdded.STALE
        if token.prefix in access.tokens:
            return SessionAdded.TAKEN
        access.revoke(lambda each: each.prefix == token.replaces, token.created_at)
        access.tokens = {
            prefix: each for prefix, each in access.tokens.items() if not _is_past(each, new, forgets)
        }
        access.tokens[token.prefix] = new
        if token.parent is None:  # who has a token has not shown who he is
            access.accounts[account.name] = replace(account, last_login_at=token.created_at)
            access.revision += renews_tokens(account, token.created_at)
        write_audit(self._tables, audit, [True])
        return SessionAdded.ADDED

    async def add_audit(self, audit: Sequence[AuditEntry]) -> None:
        write_audit(self._tables, audit, [True])


def _is_past(each: NewToken, new: NewToken, forgets: datetime) -> bool:
    token = each.token
    if token.account != new.token.account or not token.is_session or token.expires_at is None:
        return False
    return token.expires_at < forgets
