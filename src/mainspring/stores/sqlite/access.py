"""Accounts and access tokens, on SQLite."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import apsw

from mainspring.core.access import (
    LAST_LOGIN,
    AccessToken,
    Account,
    EndingToken,
    Identity,
    LoginWay,
    has_admin,
    is_as_expected,
    is_of_another,
    may_begin,
)
from mainspring.core.audit import AuditEntry
from mainspring.core.audit_accounts import settle_account
from mainspring.core.rights import AccessRole
from mainspring.ports.store.access import AccountWritten, FoundToken, NewToken
from mainspring.stores._sql.grants import decode_grants, encode_grants
from mainspring.stores.sqlite.audit import write_audit
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.rows import (
    NamedRow,
    to_instant,
    to_json,
    to_micros,
    to_optional_instant,
    to_optional_micros,
)
from mainspring.stores.sqlite.statements import (
    execute,
    execute_many,
    fetch_row,
    fetch_rows,
    fetch_value,
    fetch_values,
)


class SqliteAccessStore:
    """Implements `AccessStore`."""

    _reader: Database
    _writer: Database

    async def read_access_revision(self) -> int:
        """See `AccessStore`."""
        number: int = await self._reader.call(lambda db: fetch_value(db, "read_access_revision"))
        return number

    async def find_token(self, prefix: str) -> FoundToken | None:
        """See `AccessStore`."""
        row = await self._reader.call(lambda db: fetch_row(db, "find_token", {"prefix": prefix}))
        if row is None:
            return None
        account = Account(
            name=row.account,
            grants=decode_grants(row.grants),
            hides_payloads=frozenset(json.loads(row.hides_payloads)),
            is_disabled=bool(row.is_disabled),
            created_at=to_instant(row.joined_at),
            issuer=row.issuer,
            subject=row.subject,
            last_login_at=to_optional_instant(row.last_login_at),
        )
        return FoundToken(Identity(make_token(row), account, row.revision), row.hash)

    async def get_account(self, name: str) -> Account | None:
        """See `AccessStore`."""
        row = await self._reader.call(lambda db: fetch_row(db, "get_account", {"name": name}))
        return None if row is None else make_account(row)

    async def list_accounts(self, *, after: str | None = None, limit: int = 100) -> list[Account]:
        """See `AccessStore`."""
        values = {"after": after or "", "limit": limit}
        rows = await self._reader.call(lambda db: fetch_rows(db, "list_accounts", values))
        return list(map(make_account, rows))

    async def write_account(
        self, account: Account, *, expected: Account | None = None, audit: Sequence[AuditEntry] = ()
    ) -> AccountWritten:
        """See `AccessStore`."""

        def work(db: apsw.Connection) -> AccountWritten:
            known = {row.name: make_account(row) for row in fetch_rows(db, "list_all_accounts")}
            old = known.get(account.name)
            if is_of_another(old, account):
                return AccountWritten.TAKEN
            if not is_as_expected(old, expected):
                return AccountWritten.STALE
            if not has_admin([*(known | {account.name: account}).values()]):
                return AccountWritten.REFUSED
            execute(db, "raise_access_revision")
            execute(db, "write_account", _values_of_account(account))
            write_audit(db, settle_account(audit, old, account), [True])
            return AccountWritten.NEW if old is None else AccountWritten.CHANGED

        return await self._writer.call(work)

    async def add_first_token(
        self, account: Account, new: NewToken, *, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        """See `AccessStore`."""

        def work(db: apsw.Connection) -> bool:
            if fetch_rows(db, "list_all_accounts"):
                return False
            execute(db, "raise_access_revision")
            execute(db, "write_account", _values_of_account(account))
            execute(db, "add_token", values_of_token(new))
            write_audit(db, audit, [True])
            return True

        return await self._writer.call(work)

    async def add_token(self, new: NewToken, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """See `AccessStore`."""

        def work(db: apsw.Connection) -> bool:
            is_added = has_parent(db, new) and bool(fetch_values(db, "add_token", values_of_token(new)))
            write_audit(db, audit, [is_added])
            return is_added

        return await self._writer.call(work)

    async def rotate_token(
        self, new: NewToken, *, ends_at: datetime, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        """See `AccessStore`."""
        old = {"prefix": new.token.replaces, "ends_at": to_micros(ends_at)}

        def work(db: apsw.Connection) -> bool:
            if fetch_rows(db, "find_token", {"prefix": new.token.prefix}):
                return False
            if not fetch_values(db, "shorten_token", {**old, "now": to_micros(new.token.created_at)}):
                return False
            execute(db, "shorten_children", old)
            execute(db, "raise_access_revision")
            execute(db, "add_token", values_of_token(new))
            write_audit(db, audit, [True])
            return True

        return await self._writer.call(work)

    async def revoke_token(self, prefix: str, *, now: datetime, audit: Sequence[AuditEntry] = ()) -> bool:
        """See `AccessStore`."""
        values = {"prefix": prefix, "now": to_micros(now)}

        def work(db: apsw.Connection) -> bool:
            if fetch_row(db, "find_token", {"prefix": prefix}) is None:
                return False
            is_revoked = bool(fetch_values(db, "revoke_token", values))
            execute(db, "revoke_children", values)
            execute(db, "raise_access_revision")
            write_audit(db, audit, [is_revoked])
            return True

        return await self._writer.call(work)

    async def list_tokens(
        self, *, account: str | None = None, after: str | None = None, limit: int = 100
    ) -> list[AccessToken]:
        """See `AccessStore`."""
        values: dict[str, Any] = {"after": after or "", "limit": limit}
        name = "list_tokens"
        if account is not None:
            name, values["account"] = "list_tokens_of_account", account
        rows = await self._reader.call(lambda db: fetch_rows(db, name, values))
        return list(map(make_token, rows))

    async def note_token_uses(self, uses: Mapping[str, datetime]) -> None:
        """See `AccessStore`."""
        values = [{"prefix": prefix, "used_at": to_micros(at)} for prefix, at in uses.items()]
        if values:
            await self._writer.call(lambda db: execute_many(db, "note_token_use", values))


def _values_of_account(account: Account) -> dict[str, Any]:
    return {
        "name": account.name,
        "grants": encode_grants(account.grants),
        "hides_payloads": to_json(sorted(account.hides_payloads)),
        "is_disabled": account.is_disabled,
        "created_at": to_micros(account.created_at),
        "issuer": account.issuer,
        "subject": account.subject,
    }


def values_of_token(new: NewToken) -> dict[str, Any]:
    token = new.token
    return {
        "prefix": token.prefix,
        "hash": new.hash,
        "account": token.account,
        "name": token.name,
        "role": token.role.value,
        "tenant": token.tenant,
        "queues": to_json(token.queues),
        "rate": token.rate,
        "created_at": to_micros(token.created_at),
        "expires_at": to_optional_micros(token.expires_at),
        "replaces": token.replaces,
        "login": None if token.login is None else token.login.value,
        "parent": token.parent,
    }


def has_parent(db: apsw.Connection, new: NewToken) -> bool:
    """Return whether a token may begin that ends with its parent. One without a parent may."""
    if new.token.parent is None:
        return True
    row = fetch_row(db, "find_token", {"prefix": new.token.parent})
    return may_begin(new.token, None if row is None else make_token(row))


def find_ending(db: apsw.Connection, *, after: datetime, before: datetime, limit: int) -> list[EndingToken]:
    """Return the tokens that end after an instant and before another; see `AlertStore`."""
    values = {
        "after": to_micros(after),
        "before": to_micros(before),
        "lasts": LAST_LOGIN // timedelta(microseconds=1),
        "limit": limit,
    }
    return [
        EndingToken(token=make_token(row), ends_at=to_instant(row.ends_at))
        for row in fetch_rows(db, "list_expiring_tokens", values)
    ]


def make_account(row: NamedRow) -> Account:
    return Account(
        name=row.name,
        grants=decode_grants(row.grants),
        hides_payloads=frozenset(json.loads(row.hides_payloads)),
        is_disabled=bool(row.is_disabled),
        created_at=to_instant(row.created_at),
        issuer=row.issuer,
        subject=row.subject,
        last_login_at=to_optional_instant(row.last_login_at),
    )


def make_token(row: NamedRow) -> AccessToken:
    return AccessToken(
        prefix=row.prefix,
        account=row.account,
        name=row.name,
        role=AccessRole(row.role),
        tenant=row.tenant,
        queues=tuple(json.loads(row.queues)),
        rate=row.rate,
        created_at=to_instant(row.created_at),
        expires_at=to_optional_instant(row.expires_at),
        last_used_at=to_optional_instant(row.last_used_at),
        revoked_at=to_optional_instant(row.revoked_at),
        replaces=row.replaces,
        login=None if row.login is None else LoginWay(row.login),
        parent=row.parent,
    )
