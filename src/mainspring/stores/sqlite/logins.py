"""How people sign in, on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import apsw

from mainspring.core.access import Account, renews_tokens
from mainspring.core.audit import AuditEntry
from mainspring.ports.store.access import NewToken
from mainspring.ports.store.logins import SessionAdded
from mainspring.stores.sqlite.access import has_parent, make_account, values_of_token
from mainspring.stores.sqlite.audit import write_audit
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.rows import to_micros
from mainspring.stores.sqlite.statements import execute, fetch_row, fetch_values


class SqliteLoginStore:
    """Implements `LoginStore`."""

    _reader: Database
    _writer: Database

    async def find_password(self, account: str) -> str | None:
        """See `LoginStore`."""
        return await self._reader.call(lambda db: _find_password(db, account))

    async def find_subject(self, issuer: str, subject: str) -> Account | None:
        """See `LoginStore`."""
        values = {"issuer": issuer, "subject": subject}
        row = await self._reader.call(lambda db: fetch_row(db, "find_subject", values))
        return None if row is None else make_account(row)

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
        """See `LoginStore`."""
        at = to_micros(now)

        def work(db: apsw.Connection) -> bool:
            known = fetch_row(db, "get_account", {"name": account})
            if known is None or known.issuer is not None or _find_password(db, account) != expected:
                return False
            execute(db, "raise_access_revision")
            execute(db, "write_password", {"account": account, "hash": password, "now": at})
            execute(db, "end_logins", {"account": account, "spares": spares or "", "now": at})
            write_audit(db, audit, [True])
            return True

        return await self._writer.call(work)

    async def add_session(
        self,
        new: NewToken,
        *,
        password: str | None,
        forgets: datetime,
        audit: Sequence[AuditEntry] = (),
    ) -> SessionAdded:
        """See `LoginStore`."""
        token = new.token
        past = {"account": token.account, "before": to_micros(forgets)}
        login = {"account": token.account, "now": to_micros(token.created_at)}

        def work(db: apsw.Connection) -> SessionAdded:
            row = fetch_row(db, "get_account", {"name": token.account})
            if row is None or row.is_disabled or not _holds(db, new, password):
                return SessionAdded.STALE
            if not fetch_values(db, "add_token", values_of_token(new)):
                return SessionAdded.TAKEN
            if token.replaces is not None:
                execute(db, "revoke_token", {"prefix": token.replaces, "now": to_micros(token.created_at)})
            execute(db, "forget_logins", past)
            if token.parent is None:  # who has a token has not shown who he is
                execute(db, "note_login", login)
            if token.parent is None and renews_tokens(make_account(row), token.created_at):
                execute(db, "raise_access_revision")
            write_audit(db, audit, [True])
            return SessionAdded.ADDED

        return await self._writer.call(work)

    async def add_audit(self, audit: Sequence[AuditEntry]) -> None:
        """See `LoginStore`."""
        if audit:
            await self._writer.call(lambda db: write_audit(db, audit, [True]))


def _find_password(db: apsw.Connection, account: str) -> str | None:
    row = fetch_row(db, "find_password", {"account": account})
    return None if row is None else row.hash


def _holds(db: apsw.Connection, new: NewToken, password: str | None) -> bool:
    """Return whether what somebody signed in with still holds."""
    if password is not None and _find_password(db, new.token.account) != password:
        return False
    if new.token.replaces is not None:
        former = fetch_row(db, "find_token", {"prefix": new.token.replaces})
        if former is None or former.revoked_at is not None:
            return False
    return has_parent(db, new)
