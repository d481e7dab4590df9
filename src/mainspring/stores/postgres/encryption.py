"""Which keys contents are encrypted with."""

from __future__ import annotations

from collections.abc import Sequence

from asyncpg import Record

from mainspring.core.ciphertexts import EncryptionKey
from mainspring.core.ids import JobId
from mainspring.stores._sql.migrate import ENCRYPTED_SINCE
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction


class PostgresEncryptionStore:
    """`EncryptionStore` on PostgreSQL."""

    _connections: Connections

    async def list_encryption_keys(self) -> list[EncryptionKey]:
        rows = await self._connections.fetch(Role.WATCH, "list_encryption_keys", is_repeatable=True)
        return [_key_of(row) for row in rows]

    async def add_encryption_key(self, key: EncryptionKey) -> EncryptionKey:
        async def work(transaction: Transaction) -> EncryptionKey:
            await transaction.execute("add_encryption_key", id=key.id, key_check=key.check, since=key.since)
            await transaction.execute("shut_out_older_programs", number=ENCRYPTED_SINCE)
            [row] = await transaction.fetch("read_encryption_key", id=key.id)
            return _key_of(row)

        return await self._connections.transact(Role.EDIT, work, is_repeatable=True)

    async def read_job_tenants(self, job_ids: Sequence[JobId]) -> dict[JobId, str]:
        if not job_ids:
            return {}
        rows = await self._connections.fetch(
            Role.EDIT, "read_job_tenants", is_repeatable=True, job_ids=list(job_ids)
        )
        return {row["id"]: row["tenant"] for row in rows}


def _key_of(row: Record) -> EncryptionKey:
    return EncryptionKey(row["id"], row["key_check"], row["since"])
