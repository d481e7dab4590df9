"""Which keys contents are encrypted with."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from mainspring.core.ciphertexts import EncryptionKey
from mainspring.core.ids import JobId
from mainspring.stores._sql.migrate import ENCRYPTED_SINCE
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.rows import NamedRow, make_job_id, to_hexes, to_instant, to_micros
from mainspring.stores.sqlite.statements import execute, fetch_rows


class SqliteEncryptionStore:
    """Implements `EncryptionStore`."""

    _reader: Database
    _writer: Database

    async def list_encryption_keys(self) -> list[EncryptionKey]:
        """See `EncryptionStore`."""
        rows = await self._reader.call(lambda db: fetch_rows(db, "list_encryption_keys"))
        return [_make_key(row) for row in rows]

    async def add_encryption_key(self, key: EncryptionKey) -> EncryptionKey:
        """See `EncryptionStore`."""

        def work(db: apsw.Connection) -> EncryptionKey:
            values = {"id": key.id, "key_check": key.check, "since": to_micros(key.since)}
            execute(db, "add_encryption_key", values)
            execute(db, "shut_out_older_programs", {"number": ENCRYPTED_SINCE})
            [row] = fetch_rows(db, "read_encryption_key", {"id": key.id})
            return _make_key(row)

        return await self._writer.call(work)

    async def read_job_tenants(self, job_ids: Sequence[JobId]) -> dict[JobId, str]:
        """See `EncryptionStore`."""
        values = {"job_ids": to_hexes(job_ids)}
        rows = await self._reader.call(lambda db: fetch_rows(db, "read_job_tenants", values))
        return {make_job_id(row.id): row.tenant for row in rows}


def _make_key(row: NamedRow) -> EncryptionKey:
    return EncryptionKey(row.id, row.key_check, to_instant(row.since))
