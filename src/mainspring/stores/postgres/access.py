"""Accounts and access tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from asyncpg import Record

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
from mainspring.stores.postgres.audit import write_audit
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction


class PostgresAccessStore:
    """`AccessStore` on PostgreSQL."""

    _connections: Connections

    async def read_access_revision(self) -> int:
        [row] = await self._connections.fetch(Role.WATCH, "read_access_revision", is_repeatable=True)
        number: int = row["number"]
        return number

    async def find_token(self, prefix: str) -> FoundToken | None:
        rows = await self._connections.fetch(Role.READ, "find_token", is_repeatable=True, prefix=prefix)
        if not rows:
            return None
        [row] = rows
        account = Account(
            name=row["account"],
            grants=decode_grants(row["grants"]),
            hides_payloads=frozenset(row["hides_payloads"]),
            is_disabled=row["is_disabled"],
            created_at=row["joined_at"],
            issuer=row["issuer"],
            subject=row["subject"],
            last_login_at=row["last_login_at"],
        )
        return FoundToken(Identity(token_of(row), account, row["revision"]), row["hash"])

    async def get_account(self, name: str) -> Account | None:
        rows = await self._connections.fetch(Role.READ, "get_account", is_repeatable=True, name=name)
        return account_of(rows[0]) if rows else None

    async def list_accounts(self, *, after: str | None = None, limit: int = 100) -> list[Account]:
        rows = await self._connections.fetch(
            Role.READ, "list_accounts", is_repeatable=True, after=after or "", limit=limit
        )
        return list(map(account_of, rows))

    async def write_account(
        self, account: Account, *, expected: Account | None = None, audit: Sequence[AuditEntry] = ()
    ) -> AccountWritten:
        async def work(transaction: Transaction) -> AccountWritten:
            await transaction.execute("hold_access_revision")
            rows = await transaction.fetch("list_all_accounts")
            known = {row["name"]: account_of(row) for row in rows}
            old = known.get(account.name)
            if is_of_another(old, account):
                return AccountWritten.TAKEN
            if not is_as_expected(old, expected):
                return AccountWritten.STALE
            if not has_admin([*(known | {account.name: account}).values()]):
                return AccountWritten.REFUSED
            await transaction.execute("raise_access_revision")
            await transaction.execute("write_account", **_values_of_account(account))
            await write_audit(transaction, settle_account(audit, old, account), [True])
            return AccountWritten.NEW if old is None else AccountWritten.CHANGED

        return await self._connections.transact(Role.EDIT, work)

    async def add_first_token(
        self, account: Account, new: NewToken, *, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        async def work(transaction: Transaction) -> bool:
            await transaction.execute("hold_access_revision")
            if await transaction.fetch("list_all_accounts"):
                return False
            await transaction.execute("raise_access_revision")
            await transaction.execute("write_account", **_values_of_account(account))
            await transaction.execute("add_token", **values_of_token(new))
            await write_audit(transaction, audit, [True])
            return True

        return await self._connections.transact(Role.EDIT, work)

    async def add_token(self, new: NewToken, *, audit: Sequence[AuditEntry] = ()) -> bool:
        async def work(transaction: Transaction) -> bool:
            if new.token.parent is not None:  # which must not end meanwhile
                await transaction.execute("hold_access_revision")
            is_added = await has_parent(transaction, new) and bool(
                await transaction.fetch("add_token", **values_of_token(new))
            )
            await write_audit(transaction, audit, [is_added])
            return is_added

        return await self._connections.transact(Role.EDIT, work)

    async def rotate_token(
        self, new: NewToken, *, ends_at: datetime, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        async def work(transaction: Transaction) -> bool:
            await transaction.execute("hold_access_revision")
            if await transaction.fetch("find_token", prefix=new.token.prefix):
                return False
            old = new.token.replaces
            if not await transaction.fetch(
                "shorten_token", prefix=old, ends_at=ends_at, now=new.token.created_at
            ):
                return False
            await transaction.execute("shorten_children", prefix=old, ends_at=ends_at)
            await transaction.execute("raise_access_revision")
            await transaction.execute("add_token", **values_of_token(new))
            await write_audit(transaction, audit, [True])
            return True

        return await self._connections.transact(Role.EDIT, work)

    async def revoke_token(self, prefix: str, *, now: datetime, audit: Sequence[AuditEntry] = ()) -> bool:
        async def work(transaction: Transaction) -> bool:
            await transaction.execute("hold_access_revision")
            if not await transaction.fetch("find_token", prefix=prefix):
                return False
            is_revoked = bool(await transaction.fetch("revoke_token", prefix=prefix, now=now))
            await transaction.execute("revoke_children", prefix=prefix, now=now)
            await transaction.execute("raise_access_revision")
            await write_audit(transaction, audit, [is_revoked])
            return True

        return await self._connections.transact(Role.EDIT, work)

    async def list_tokens(
        self, *, account: str | None = None, after: str | None = None, limit: int = 100
    ) -> list[AccessToken]:
        values: dict[str, Any] = {"after": after or "", "limit": limit}
        name = "list_tokens"
        if account is not None:
            name, values["account"] = "list_tokens_of_account", account
        rows = await self._connections.fetch(Role.READ, name, is_repeatable=True, **values)
        return list(map(token_of, rows))

    async def note_token_uses(self, uses: Mapping[str, datetime]) -> None:
        if not uses:
            return
        ordered = sorted(uses.items())

        async def work(transaction: Transaction) -> None:
            await transaction.execute(
                "note_token_uses",
                prefixes=[prefix for prefix, _ in ordered],
                times=[at for _, at in ordered],
            )

        await self._connections.transact(Role.UPKEEP, work, is_repeatable=True)


def _values_of_account(account: Account) -> dict[str, Any]:
    return {
        "name": account.name,
        "grants": encode_grants(account.grants),
        "hides_payloads": sorted(account.hides_payloads),
        "is_disabled": account.is_disabled,
        "created_at": account.created_at,
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
        "queues": list(token.queues),
        "rate": token.rate,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "replaces": token.replaces,
        "login": None if token.login is None else token.login.value,
        "parent": token.parent,
    }


async def has_parent(transaction: Transaction, new: NewToken) -> bool:
    """Return whether a token may begin that ends with its parent. One without a parent may."""
    if new.token.parent is None:
        return True
    rows = await transaction.fetch("find_token", prefix=new.token.parent)
    return may_begin(new.token, token_of(rows[0]) if rows else None)


def values_of_ending(*, after: datetime, before: datetime, limit: int) -> dict[str, Any]:
    """Return the parameters of `list_expiring_tokens`."""
    lasts = LAST_LOGIN // timedelta(microseconds=1)
    return {"after": after, "before": before, "lasts": lasts, "limit": limit}


def ending_of(row: Record) -> EndingToken:
    return EndingToken(token=token_of(row), ends_at=row["ends_at"])


def account_of(row: Record) -> Account:
    return Account(
        name=row["name"],
        grants=decode_grants(row["grants"]),
        hides_payloads=frozenset(row["hides_payloads"]),
        is_disabled=row["is_disabled"],
        created_at=row["created_at"],
        issuer=row["issuer"],
        subject=row["subject"],
        last_login_at=row["last_login_at"],
    )


def token_of(row: Record) -> AccessToken:
    return AccessToken(
        prefix=row["prefix"],
        account=row["account"],
        name=row["name"],
        role=AccessRole(row["role"]),
        tenant=row["tenant"],
        queues=tuple(row["queues"]),
        rate=row["rate"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        last_used_at=row["last_used_at"],
        revoked_at=row["revoked_at"],
        replaces=row["replaces"],
        login=None if row["login"] is None else LoginWay(row["login"]),
        parent=row["parent"],
    )
