"""The result of the last check of all ledgers."""

from __future__ import annotations

from mainspring.core.ledger_check import LedgerCheck
from mainspring.ports.store.nodes import Epochs
from mainspring.stores._sql.ledger_check import decode_ledger_check, encode_ledger_check
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.nodes import holds_shard_0


class PostgresLedgerCheckStore:
    """`LedgerCheckStore` on PostgreSQL."""

    _connections: Connections

    async def put_ledger_check(self, check: LedgerCheck, *, epochs: Epochs) -> bool:
        async def work(transaction: Transaction) -> bool:
            if not await holds_shard_0(transaction, epochs):
                return False
            await transaction.execute("put_ledger_check", body=encode_ledger_check(check))
            return True

        return await self._connections.transact(Role.UPKEEP, work, is_repeatable=True)

    async def read_ledger_check(self) -> LedgerCheck | None:
        [row] = await self._connections.fetch(Role.BROWSE, "read_ledger_check", is_repeatable=True)
        return None if row["body"] is None else decode_ledger_check(row["body"])
