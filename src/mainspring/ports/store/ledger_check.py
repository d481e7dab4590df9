"""The result of the last check of all jobs' ledgers."""

from __future__ import annotations

from typing import Protocol

from mainspring.core.ledger_check import LedgerCheck
from mainspring.ports.store.nodes import Epochs


class LedgerCheckStore(Protocol):
    """Keeps what the last check of all ledgers came to. The owner of shard 0 makes the checks."""

    async def put_ledger_check(self, check: LedgerCheck, *, epochs: Epochs) -> bool:
        """Replace the stored result. Return False, and leave it, without the epoch of shard 0."""
        ...

    async def read_ledger_check(self) -> LedgerCheck | None:
        """Return the stored result; None before the first one."""
        ...
