"""The result of the last check of all ledgers."""

from __future__ import annotations

import apsw

from mainspring.core.ledger_check import LedgerCheck
from mainspring.ports.store.nodes import Epochs
from mainspring.stores._sql.ledger_check import decode_ledger_check, encode_ledger_check
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.nodes import owns_shard_0
from mainspring.stores.sqlite.statements import execute, fetch_value


class SqliteLedgerCheckStore:
    """Implements `LedgerCheckStore`."""

    _reader: Database
    _writer: Database

    async def put_ledger_check(self, check: LedgerCheck, *, epochs: Epochs) -> bool:
        """See `LedgerCheckStore`."""

        def work(db: apsw.Connection) -> bool:
            if not owns_shard_0(db, epochs):
                return False
            execute(db, "put_ledger_check", {"body": encode_ledger_check(check)})
            return True

        return await self._writer.call(work)

    async def read_ledger_check(self) -> LedgerCheck | None:
        """See `LedgerCheckStore`."""
        body: str | None = await self._reader.call(lambda db: fetch_value(db, "read_ledger_check"))
        return None if body is None else decode_ledger_check(body)
