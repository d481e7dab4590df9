"""How people sign in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.access import Account, renews_tokens
from mainspring.core.audit import AuditEntry
from mainspring.ports.store.access import NewToken
from mainspring.ports.store.logins import SessionAdded
from mainspring.stores.postgres.access import account_of, has_parent, values_of_token
from mainspring.stores.postgres.audit import write_audit
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction


class PostgresLoginStore:
    """`LoginStore` on PostgreSQL."""

    _connections: Connections

    async def find_password(self, account: str) -> str | None:
        rows = await self._connections.fetch(Role.READ, "find_password", is_repeatable=True, account=account)
        return rows[0]["hash"] if rows else None

    async def find_subject(self, issuer: str, subject: str) -> Account | None:
        rows = await self._connections.fetch(
            Role.READ, "find_subject", is_repeatable=True, issuer=issuer, subject=subject
        )
        return account_of(rows[0]) if rows else None

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
        async def work(transaction: Transaction) -> bool:
            await transaction.execute("hold_access_revision")
            known = await transaction.fetch("get_account", name=account)
            if not known or known[0]["issuer"] is not None:
                return False
            if await _find_password(transaction, account) != expected:
                return False
            await transaction.execute("raise_access_revision")
            await transaction.execute("write_password", account=account, hash=password, now=now)
            await transaction.execute("end_logins", account=account, spares=spares or "", now=now)
            await write_audit(transaction, audit, [True])
            return True

        return await self._connections.transact(Role.EDIT, work)

    async def add_session(
        self,
        new: NewToken,
        *,
        password: str | None,
        forgets: datetime,
        audit: Sequence[AuditEntry] = (),
    ) -> SessionAdded:
        token = new.token

        async def work(transaction: Transaction) -> SessionAdded:
            await transaction.execute("hold_access_revision")
            rows = await transaction.fetch("get_account", name=token.account)
            if not rows or rows[0]["is_disabled"] or not await _holds(transaction, new, password):
                return SessionAdded.STALE
            if not await transaction.fetch("add_token", **values_of_token(new)):
                return SessionAdded.TAKEN
            if token.replaces is not None:
                await transaction.execute("revoke_token", prefix=token.replaces, now=token.created_at)
            await transaction.execute("forget_logins", account=token.account, before=forgets)
            if token.parent is None:  # who has a token has not shown who he is
                await transaction.execute("note_login", account=token.account, now=token.created_at)
            if token.parent is None and renews_tokens(account_of(rows[0]), token.created_at):
                await transaction.execute("raise_access_revision")
            await write_audit(transaction, audit, [True])
            return SessionAdded.ADDED

        return await self._connections.transact(Role.EDIT, work)

    async def add_audit(self, audit: Sequence[AuditEntry]) -> None:
        async def work(transaction: Transaction) -> None:
            await write_audit(transaction, audit, [True])

        if audit:
            await self._connections.transact(Role.EDIT, work)


async def _find_password(transaction: Transaction, account: str) -> str | None:
    rows = await transaction.fetch("find_password", account=account)
    return rows[0]["hash"] if rows else None


async def _holds(transaction: Transaction, new: NewToken, password: str | None) -> bool:
    """Return whether what somebody signed in with still holds."""
    if password is not None and await _find_password(transaction, new.token.account) != password:
        return False
    if new.token.replaces is not None:
        formers = await transaction.fetch("find_token", prefix=new.token.replaces)
        if not formers or formers[0]["revoked_at"] is not None:
            return False
    return await has_parent(transaction, new)
