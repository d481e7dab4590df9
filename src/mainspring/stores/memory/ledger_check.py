"""The result of the last check of all ledgers."""

from __future__ import annotations

from mainspring.core.ledger_check import LedgerCheck
from mainspring.ports.store.nodes import Epochs
from mainspring.stores.memory.tables import Tables


class MemoryLedgerCheckStore:
    """`LedgerCheckStore` in memory."""

    _tables: Tables

    async def put_ledger_check(self, check: LedgerCheck, *, epochs: Epochs) -> bool:
        if epochs.get(0) != self._tables.shards[0].epoch:
            return False
        self._tables.ledger_check = check
        return True

    async def read_ledger_check(self) -> LedgerCheck | None:
        return self._tables.ledger_check
